import type { ReactNode } from "react";
import { Field } from "../../parts/field.tsx";
import type { Typed } from "./plan-split.tsx";

const LIMITS = [
  ["lag_limit_ms", "Lag limit (ms)", "1000", "How far behind the copy may be to be cut over."],
  ["fence_wait_ms", "Wait for writes under way (ms)", "1000", "Else the cutover does not begin."],
  [
    "fence_hold_ms",
    "Hold writes at most (ms)",
    "5000",
    "Else writes go on at the source by themselves.",
  ],
  [
    "grace_ms",
    "Grace time (ms)",
    "86400000",
    "How long rows stay on the source once it is complete; a day if empty.",
  ],
] as const;

/** What a split keeps to, where the usual limits do not do. */
export function PlanLimits(props: {
  typed: Typed;
  change: (change: Partial<Typed>) => void;
  problems: Readonly<Record<string, string>>;
}): ReactNode {
  const { typed, change, problems } = props;
  const hasProblem = LIMITS.some(([name]) => problems[name] !== undefined);
  return (
    <details open={hasProblem || undefined}>
      <summary>Limits and automatic cutover</summary>
      <div className="stack splits-limits">
        <label className="splits-check">
          <input
            type="checkbox"
            checked={typed.auto_cutover}
            onChange={(event) => change({ auto_cutover: event.target.checked })}
          />{" "}
          Cut over by itself, as soon as the copy is caught up and verified
        </label>
        <div className="columns">
          {LIMITS.map(([name, label, usual, hint]) => (
            <Field key={name} label={label} hint={hint} problem={problems[name]}>
              {(control) => (
                <input
                  {...control}
                  inputMode="numeric"
                  placeholder={usual}
                  aria-invalid={problems[name] === undefined ? undefined : true}
                  value={typed[name]}
                  onChange={(event) => change({ [name]: event.target.value })}
                />
              )}
            </Field>
          ))}
        </div>
      </div>
    </details>
  );
}
