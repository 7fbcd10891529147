import type { ReactNode } from "react";
import { lookOf } from "./status-look.ts";
import { countText } from "./time-text.ts";

/** A part of the whole: so many in this state. */
export type ProgressPart = { state: string; count: number };

/** How far something is, as a bar of its parts and in words. */
export function Progress(props: {
  parts: readonly ProgressPart[];
  total: number;
  /** What is counted: `partitions`. */
  unit: string;
}): ReactNode {
  const { total, unit } = props;
  const parts = props.parts.filter(({ count }) => count > 0);
  const words = parts.map(({ state, count }) => `${countText(count)} ${lookOf(state).word}`);
  const text = `${words.join(", ") || "nothing yet"} of ${countText(total)} ${unit}`;
  return (
    <div className="progress" role="img" aria-label={text} title={text}>
      {parts.map(({ state, count }) => (
        <span
          key={state}
          className={`progress-part tone-${lookOf(state).tone}`}
          style={{ width: `${(count / Math.max(1, total)) * 100}%` }}
        />
      ))}
    </div>
  );
}
