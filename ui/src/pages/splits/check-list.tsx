import type { ReactNode } from "react";
import { visibleText } from "../../parts/visible-text.ts";
import type { Split } from "./split-texts.ts";

type Checks = NonNullable<Split["checks"]>;

/** What was looked at, and what was found. */
export function CheckList({ checks, label }: { checks: Checks; label: string }): ReactNode {
  return (
    <ul className="splits-checks" aria-label={label}>
      {checks.map(({ check, ok, note }) => (
        <li key={check} className={`tone-${ok ? "good" : "bad"}`} data-ok={ok}>
          <span className="splits-check-sign" aria-hidden="true">
            {ok ? "✓" : "✕"}
          </span>
          <span>
            <span className="visually-hidden">{ok ? "in order:" : "in the way:"} </span>
            {note === null ? check : <strong>{check}: </strong>}
            {note === null ? null : visibleText(note)}
          </span>
        </li>
      ))}
    </ul>
  );
}
