import { type ReactNode, useEffect, useState } from "react";
import { useAnswer } from "../../api/use-answer.ts";
import { Choice, Field } from "../../parts/field.tsx";

/** What runs can be told apart by, as the address names it. */
export const RUN_FILTERS = ["status", "trigger", "asset", "backfill_id", "since", "until"] as const;

type Name = (typeof RUN_FILTERS)[number];

const STATES = [
  ["", "any"],
  ["PENDING,RUNNING", "not ended"],
  ["PENDING", "pending"],
  ["RUNNING", "running"],
  ["SUCCEEDED", "succeeded"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
] as const;

const TRIGGERS = [
  ["", "anything"],
  ["manual", "somebody"],
  ["backfill", "a backfill"],
  ["schedule", "a schedule"],
  ["sensor", "a sensor"],
  ["sync", "a sync"],
  ["move", "a move"],
  ["split", "a split"],
] as const;

/** The filters of the list of runs. */
export function RunFilters(props: {
  filters: Readonly<Record<Name, string>>;
  setFilter: (name: Name, value: string) => void;
}): ReactNode {
  const { filters, setFilter } = props;
  const assets = useAnswer("listAssets", { query: { limit: 200 } });
  return (
    <search className="filters runs-filters" aria-label="Filters of runs">
      <Choice
        label="State"
        value={filters.status}
        options={STATES}
        onChange={(value) => setFilter("status", value)}
      />
      <Choice
        label="Asked for by"
        value={filters.trigger}
        options={TRIGGERS}
        onChange={(value) => setFilter("trigger", value)}
      />
      <TextFilter
        label="Asset"
        value={filters.asset}
        choices={(assets.data?.items ?? []).map(({ asset_key }) => asset_key)}
        onChange={(value) => setFilter("asset", value)}
      />
      <TextFilter
        label="Backfill"
        value={filters.backfill_id}
        onChange={(value) => setFilter("backfill_id", value)}
      />
      <DayFilter
        label="Since (UTC)"
        value={filters.since}
        onChange={(value) => setFilter("since", value)}
      />
      <DayFilter
        label="Before (UTC)"
        value={filters.until}
        onChange={(value) => setFilter("until", value)}
      />
    </search>
  );
}

/** A text to filter by, taken when it is whole: at Enter, or when the field is left. */
function TextFilter(props: {
  label: string;
  value: string;
  choices?: readonly string[];
  onChange: (value: string) => void;
}): ReactNode {
  const { label, value, choices = [], onChange } = props;
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const take = (): void => {
    if (text.trim() !== value) onChange(text.trim());
  };
  return (
    <Field label={label}>
      {(control) => (
        <>
          <input
            {...control}
            type="search"
            value={text}
            list={`${control.id}-choices`}
            onChange={(event) => {
              setText(event.target.value);
              // One picked from the list, or the field emptied, is whole at once.
              const picked = event.target.value;
              if (picked === "" || choices.includes(picked)) onChange(picked);
            }}
            onBlur={take}
            onKeyDown={(event) => {
              if (event.key === "Enter") take();
            }}
          />
          <datalist id={`${control.id}-choices`}>
            {choices.map((choice) => (
              <option key={choice} value={choice} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

function DayFilter(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label}>
      {(control) => (
        <input
          {...control}
          type="date"
          value={props.value.slice(0, 10)}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
