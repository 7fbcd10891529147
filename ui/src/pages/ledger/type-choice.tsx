import type { ReactNode } from "react";
import { EVENT_TYPES } from "./event-sentence.ts";

/** Which types of events are shown: all, or those that are ticked. */
export function TypeChoice(props: {
  chosen: readonly string[];
  onChange: (chosen: readonly string[]) => void;
}): ReactNode {
  const { chosen, onChange } = props;
  const toggle = (type: string): void =>
    onChange(chosen.includes(type) ? chosen.filter((one) => one !== type) : [...chosen, type]);
  return (
    <details className="ledger-types">
      <summary>{summaryOf(chosen)}</summary>
      <div className="ledger-types-box">
        {chosen.length > 0 && (
          <button type="button" className="button" onClick={() => onChange([])}>
            All types
          </button>
        )}
        <div className="ledger-type-groups">
          {EVENT_TYPES.map(([about, types]) => (
            <fieldset key={about}>
              <legend>{about}</legend>
              {types.map((type) => (
                <label key={type}>
                  <input
                    type="checkbox"
                    checked={chosen.includes(type)}
                    onChange={() => toggle(type)}
                  />{" "}
                  {type}
                </label>
              ))}
            </fieldset>
          ))}
        </div>
      </div>
    </details>
  );
}

function summaryOf(chosen: readonly string[]): string {
  if (chosen.length === 0) return "Types: all";
  const more = chosen.length - 2;
  return `Types: ${chosen.slice(0, 2).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
