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
  const { assetKey, dimension, wish, problem, onChange } = props;
  const facts = useDimension(assetKey, dimension);
  const title = dimension.isOnly ? "partitions" : dimension.name;
  const modes = modesOf(dimension);
  // Anything is shown as all boxes ticked, or as a range without ends.
  const shown = wish?.mode ?? modes[0]?.[0] ?? "pattern";
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
        <Wish {...props} facts={facts} shown={shown} title={title} />
        {problem !== undefined && wish?.mode !== "range" && (
          <p className="field-problem">{problem}</p>
        )}
      </div>
    </fieldset>
  );
}

function modesOf({ definition, isOnly }: Dimension): (readonly [string, string])[] {
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
          ];
  }
}

function Wish(
  props: FilterProps & { facts: DimensionFacts; shown: string; title: string },
): ReactNode {
  const { dimension, wish, problem, facts, shown, title, onChange } = props;
  if (shown === "values") {
    return (
      <ValueBoxes
        of={title}
        values={facts.values}
        total={facts.total ?? facts.values.length}
        ticked={wish?.mode === "values" ? wish.values : null}
        onChange={(values) => onChange(values === null ? undefined : { mode: "values", values })}
      />
    );
  }
  if (shown === "pattern") {
    return (
      <PatternField
        title={title}
        pattern={wish?.mode === "pattern" ? wish.pattern : ""}
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
  isWrong: boolean;
  onChange: (pattern: string) => void;
}): ReactNode {
  const { title, pattern, isWrong, onChange } = props;
  return (
    <Field
      label={`Pattern for ${title}`}
      hint="* stands for any characters, ? for one: 2026-??-01 is the first of every month."
    >
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
