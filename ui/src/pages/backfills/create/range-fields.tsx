import type { ReactNode } from "react";
import type { Calendar } from "./calendar.ts";
import { DayField } from "./day-field.tsx";

/** The first and the last of what is wanted. */
export type Range = { start: string; end: string };

/** Chooses from the first to the last partition, or by a quick pick. */
export function RangeFields(props: {
  /** What the range is of, for the names of its fields: `date`; empty for whole partitions. */
  of: string;
  range: Range;
  calendar: Calendar | null;
  /** The first and the last key there is, where there is no calendar. */
  bounds: Range | null;
  problems: { start?: string | undefined; end?: string | undefined };
  /** What it means that nothing is chosen, where that means something. */
  emptyText?: string;
  onChange: (range: Range) => void;
}): ReactNode {
  const { of, range, calendar, bounds, problems, emptyText, onChange } = props;
  const suffix = of === "" ? "" : ` (${of})`;
  const said = (key: string | undefined) =>
    calendar === null && key !== undefined ? key : undefined;
  return (
    <div className="stack">
      {calendar !== null && <Picks calendar={calendar} of={of} range={range} onChange={onChange} />}
      <div className="row create-range">
        <DayField
          label={`First${suffix}`}
          value={range.start}
          calendar={calendar}
          hint={said(bounds === null ? undefined : `from ${bounds.start}`)}
          problem={problems.start}
          onChange={(start) => onChange({ ...range, start })}
        />
        <DayField
          label={`Last${suffix}, included`}
          value={range.end}
          calendar={calendar}
          hint={said(bounds === null ? undefined : `up to ${bounds.end}`)}
          problem={problems.end}
          onChange={(end) => onChange({ ...range, end })}
        />
      </div>
      <p className="field-hint">
        {emptyText !== undefined && range.start === "" && range.end === "" && <>{emptyText} </>}
        {calendar !== null && boundsText(calendar)}
      </p>
    </div>
  );
}

function boundsText({ min, max, endedAt }: Calendar): string {
  const there = `There are partitions from ${shown(min)} to ${shown(max)}.`;
  return endedAt === null
    ? there
    : `${there} They end there, so the quick picks are counted back from ${shown(endedAt)}.`;
}

function shown(value: string): string {
  return value.replace("T", " ");
}

function Picks(props: {
  calendar: Calendar;
  of: string;
  range: Range;
  onChange: (range: Range) => void;
}): ReactNode {
  const { calendar, of, range, onChange } = props;
  return (
    <div
      className="row"
      role="group"
      aria-label={of === "" ? "Quick picks" : `Quick picks of ${of}`}
    >
      {calendar.picks.map(({ text, start, end }) => (
        <button
          key={text}
          type="button"
          className="button create-pick"
          aria-pressed={range.start === start && range.end === end}
          title={start === end ? start : `${start} to ${end}`}
          onClick={() => onChange({ start, end })}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
