import type { ReactNode } from "react";
import { Field } from "../../parts/field.tsx";

/** A field for one line of text, a number or a moment. */
export function TextField(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  type?: "text" | "number" | "datetime-local";
  hint?: ReactNode;
  isRequired?: boolean;
  problem?: string | undefined;
  /** Whether it is read as code: no spelling, letters of the same width. */
  isCode?: boolean;
}): ReactNode {
  const { label, value, onChange, type = "text", hint, isRequired, isCode = false } = props;
  const { problem } = props;
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(control) => (
        <input
          {...control}
          type={type}
          step={type === "number" ? "any" : type === "datetime-local" ? 1 : undefined}
          required={isRequired}
          aria-invalid={problem === undefined ? undefined : true}
          spellCheck={!isCode}
          autoComplete="off"
          className={isCode ? "mono" : undefined}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
