import type { ReactNode } from "react";
import { Field } from "../../parts/field.tsx";
import type { Typed } from "./plan-split.tsx";

const LIMITS = [
  ["lag_limit_ms", "Lag limit (ms)", "1000", "The largest lag at a cutover."],
  [
    "fence_wait_ms",
    "Wait for open writes (ms)",
    "1000",
    "If they take longer, the cutover is not started.",
  ],
  [
    "fence_hold_ms",
    "Hold writes at most (ms)",
    "5000",
    "If it takes longer, the source accepts writes again.",
  ],
  [
    "grace_ms",
    "Grace period (ms)",
    "86400000",
    "How long the source keeps its rows after completion. Empty: one day.",
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
          Cut over automatically once the copy is caught up and verified
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
