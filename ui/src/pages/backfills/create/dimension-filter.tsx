import type { ReactNode } from "react";
import { Choice, Field } from "../../../parts/field.tsx";
import type { DimensionWish } from "./create-form.ts";
import { RangeFields } from "./range-fields.tsx";
import { type Dimension, type DimensionFacts, useDimension } from "./use-dimension.ts";
import { ValueBoxes } from "./value-boxes.tsx";

type FilterProps = {
  assetKey: string;
  dimension: Dimension;
  /** Undefined for anything. */
  wish: DimensionWish | undefined;
  problem: string | undefined;
  onChange: (wish: DimensionWish | undefined) => void;
};

/** Says which values of one dimension are wanted, in the way that fits it. */
export function DimensionFilter(props: FilterProps): ReactNode {
  const { assetKey, dimension, problem, onChange } = props;
  const facts = useDimension(assetKey, dimension);
  const title = dimension.isOnly ? "partitions" : dimension.name;
  const modes = modesOf(dimension, props.wish);
  // Anything is shown as all boxes ticked, or as a range without ends; a range as its boxes.
  const usual = modes[0]?.[0] ?? "pattern";
  const wish = usual === "range" ? rangeOf(props.wish) : props.wish;
  const ticked = tickedOf(wish, usual === "values" ? facts.values : []);
  const shown = ticked === null ? (wish?.mode ?? usual) : "values";
  return (
    <fieldset className="create-dimension">
      <legend className={dimension.isOnly ? "create-capital" : undefined}>{title}</legend>
      <div className="stack">
        {modes.length > 1 && (
          <Choice
            label={`How to choose ${title}`}
            value={shown}
            options={modes}
            onChange={(next) =>
              onChange(next === "pattern" ? { mode: "pattern", pattern: "" } : undefined)
            }
          />
        )}
        <Wish {...props} wish={wish} facts={facts} shown={shown} ticked={ticked} title={title} />
        {problem !== undefined && wish?.mode !== "range" && (
          <p className="field-problem">{problem}</p>
        )}
      </div>
    </fieldset>
  );
}

/** The boxes that are ticked: those between both ends of a range that was chosen on a map, too. */
function tickedOf(
  wish: DimensionWish | undefined,
  values: readonly string[],
): readonly string[] | null {
  if (wish?.mode === "values") return wish.values;
  if (wish?.mode !== "range") return null;
  const from = values.indexOf(wish.start);
  const to = values.indexOf(wish.end);
  return from < 0 || to < from ? null : values.slice(from, to + 1);
}

/** A single value of what has an order is a range from it to itself. */
function rangeOf(wish: DimensionWish | undefined): DimensionWish | undefined {
  if (wish?.mode !== "values") return wish;
  const [only, ...others] = wish.values;
  if (only === undefined || others.length > 0) return wish;
  return { mode: "range", start: only, end: only };
}

function modesOf(
  { definition, isOnly }: Dimension,
  wish: DimensionWish | undefined,
): (readonly [string, string])[] {
  switch (definition.type) {
    case "static":
    case "dynamic":
      return [
        ["values", "Tick values"],
        ["pattern", "By a pattern"],
      ];
    default:
      // The range of an only dimension is a way of its own to choose partitions.
      return isOnly
        ? [["pattern", "By a pattern"]]
        : [
            ["range", "From … to …"],
            ["pattern", "By a pattern"],
            // Nobody is asked to tick days; an address may name some all the same.
            ...(wish?.mode === "values" && wish.values.length > 1
              ? [["values", "By name"] as const]
              : []),
          ];
  }
}

function Wish(
  props: FilterProps & {
    facts: DimensionFacts;
    shown: string;
    ticked: readonly string[] | null;
    title: string;
  },
): ReactNode {
  const { dimension, wish, problem, facts, shown, ticked, title, onChange } = props;
  if (shown === "values") {
    return (
      <ValueBoxes
        of={title}
        values={facts.values}
        total={facts.total ?? facts.values.length}
        ticked={ticked}
        onChange={(values) => onChange(values === null ? undefined : { mode: "values", values })}
      />
    );
  }
  if (shown === "pattern") {
    return (
      <PatternField
        title={title}
        pattern={wish?.mode === "pattern" ? wish.pattern : ""}
        isTime={"time_zone" in dimension.definition}
        isWrong={problem !== undefined}
        onChange={(pattern) => onChange({ mode: "pattern", pattern })}
      />
    );
  }
  const range = wish?.mode === "range" ? wish : { start: "", end: "" };
  return (
    <RangeFields
      of={dimension.name}
      range={range}
      calendar={facts.calendar}
      bounds={facts.bounds}
      problems={{ end: problem }}
      emptyText={`Nothing is chosen: every ${dimension.name}.`}
      onChange={(next) =>
        onChange(next.start === "" && next.end === "" ? undefined : { mode: "range", ...next })
      }
    />
  );
}

function PatternField(props: {
  title: string;
  pattern: string;
  isTime: boolean;
  isWrong: boolean;
  onChange: (pattern: string) => void;
}): ReactNode {
  const { title, pattern, isTime, isWrong, onChange } = props;
  const example = isTime
    ? "2026-??-01 is the first of every month"
    : "a* matches all that begin with a";
  return (
    <Field label={`Pattern for ${title}`} hint={`* matches any characters, ? one: ${example}.`}>
      {(control) => (
        <input
          {...control}
          className="mono"
          value={pattern}
          placeholder="*"
          aria-invalid={isWrong}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
