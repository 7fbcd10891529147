import type { ReactNode } from "react";
import { Field } from "../../../parts/field.tsx";
import { countText } from "../../../parts/time-text.ts";
import { keysIn, pastedKeys } from "./create-form.ts";

/** Takes keys of partitions, one a line; the server says which of them is none. */
export function KeyList(props: {
  keys: string;
  /** How a key looks, as an example. */
  example: string | undefined;
  /** Whether a comma can be in a key. */
  hasCommas: boolean;
  problem: string | undefined;
  /** The key that the problem is about. */
  wrongKey: string | null;
  onChange: (keys: string) => void;
}): ReactNode {
  const { keys, example, hasCommas, problem, wrongKey, onChange } = props;
  const listed = keysIn(keys);
  const canSplit = !hasCommas && /[,;\t]/.test(keys);
  const leaveOut = (): void => onChange(listed.filter((key) => key !== wrongKey).join("\n"));
  return (
    <div className="stack">
      <Field
        label="Partition keys, one per line"
        hint={`${countText(listed.length)} ${listed.length === 1 ? "key" : "keys"}. ${
          example === undefined ? "" : `A key looks like ${example}.`
        }`}
        {...(problem === undefined ? {} : { problem })}
      >
        {(control) => (
          <textarea
            {...control}
            className="mono create-keys"
            rows={Math.min(12, Math.max(4, listed.length + 1))}
            value={keys}
            spellCheck={false}
            aria-invalid={problem !== undefined}
            onChange={(event) => onChange(pastedKeys(event.target.value))}
          />
        )}
      </Field>
      <div className="row">
        {wrongKey !== null && listed.includes(wrongKey) && (
          <button type="button" className="button" onClick={leaveOut}>
            Remove {wrongKey}
          </button>
        )}
        {canSplit && (
          <button
            type="button"
            className="button"
            onClick={() => onChange(keysIn(keys.replace(/[,;\t]/g, "\n")).join("\n"))}
          >
            Split at commas
          </button>
        )}
      </div>
    </div>
  );
}
