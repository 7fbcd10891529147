import { type ReactNode, useState } from "react";
import { Field } from "../../../parts/field.tsx";
import { countText } from "../../../parts/time-text.ts";

/** From how many values on there is a field to search them by. */
const SEARCHED_FROM = 13;

/** Most boxes that are shown at once. */
const SHOWN_MAX = 120;

/** Ticks values out of those there are; all of them is the same as not choosing. */
export function ValueBoxes(props: {
  /** What the values are of: `region`. */
  of: string;
  /** The first values there are, and how many there are altogether. */
  values: readonly string[];
  total: number;
  /** Those that are ticked; null for all. */
  ticked: readonly string[] | null;
  onChange: (ticked: readonly string[] | null) => void;
}): ReactNode {
  const { of, values, total, ticked, onChange } = props;
  const [search, setSearch] = useState("");
  // Of more than are listed, all but some cannot be said as a list: there one begins with none.
  const atFirst = values.length === total ? values : [];
  const isTicked = (value: string): boolean => (ticked ?? atFirst).includes(value);
  const matches = values.filter((value) => value.toLowerCase().includes(search.toLowerCase()));
  const set = (next: readonly string[]): void =>
    onChange(next.length === total && values.every((value) => next.includes(value)) ? null : next);
  const toggle = (value: string): void => {
    const before = ticked ?? atFirst;
    set(isTicked(value) ? before.filter((each) => each !== value) : [...before, value]);
  };
  // What is not among the first values can still be named; whether it exists is checked with the plan.
  const unlisted = (ticked ?? []).filter((value) => !values.includes(value));
  return (
    <div className="stack">
      <AllOrNone of={of} total={total} ticked={ticked} onChange={onChange} />
      {total >= SEARCHED_FROM && (
        <SearchValues
          of={of}
          search={search}
          setSearch={setSearch}
          {...(total > values.length && search !== "" && !values.includes(search)
            ? { add: () => set([...new Set([...(ticked ?? []), search])]) }
            : {})}
        />
      )}
      <div className="create-boxes" role="group" aria-label={of}>
        {[...unlisted, ...matches].slice(0, SHOWN_MAX).map((value) => (
          <label key={value} className="create-check">
            <input type="checkbox" checked={isTicked(value)} onChange={() => toggle(value)} />
            <span className="mono">{value}</span>
          </label>
        ))}
        {matches.length === 0 && search !== "" && (
          <span className="soft">No value of {of} has this in it.</span>
        )}
      </div>
      <Hidden shown={Math.min(matches.length, SHOWN_MAX)} listed={values.length} total={total} />
    </div>
  );
}

function AllOrNone(props: {
  of: string;
  total: number;
  ticked: readonly string[] | null;
  onChange: (ticked: readonly string[] | null) => void;
}): ReactNode {
  const { of, total, ticked, onChange } = props;
  return (
    <div className="row">
      <button
        type="button"
        className="button create-pick"
        aria-pressed={ticked === null}
        onClick={() => onChange(null)}
      >
        All<span className="visually-hidden"> of {of}</span>
      </button>
      <button
        type="button"
        className="button create-pick"
        aria-pressed={ticked?.length === 0}
        onClick={() => onChange([])}
      >
        None<span className="visually-hidden"> of {of}</span>
      </button>
      <span className="soft" role="status">
        {ticked === null
          ? `all ${countText(total)}`
          : `${countText(ticked.length)} of ${countText(total)}`}
      </span>
    </div>
  );
}

function SearchValues(props: {
  of: string;
  search: string;
  setSearch: (search: string) => void;
  add?: () => void;
}): ReactNode {
  const { of, search, setSearch, add } = props;
  return (
    <div className="filters create-search">
      <Field label={`Search ${of}`}>
        {(control) => (
          <input
            {...control}
            type="search"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
          />
        )}
      </Field>
      {add !== undefined && (
        <button type="button" className="button" onClick={add}>
          Add “{search}”
        </button>
      )}
    </div>
  );
}

function Hidden(props: { shown: number; listed: number; total: number }): ReactNode {
  const { shown, listed, total } = props;
  if (shown >= total || listed === 0) return null;
  const rest =
    total > listed ? ` The search covers the first ${countText(listed)}; type others in full.` : "";
  return (
    <p className="field-hint">
      {countText(shown)} of {countText(total)} are shown.{rest}
    </p>
  );
}
