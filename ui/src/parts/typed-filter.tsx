import { type ReactNode, useEffect, useState } from "react";
import { Field } from "./field.tsx";

/** A text to filter by, taken when it is whole: at Enter, or when the field is left. */
export function TypedFilter(props: {
  label: string;
  value: string;
  isNumber?: boolean;
  onChange: (value: string) => void;
}): ReactNode {
  const { label, value, isNumber = false, onChange } = props;
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const take = (): void => {
    if (text.trim() !== value) onChange(text.trim());
  };
  return (
    <Field label={label}>
      {(control) => (
        <input
          {...control}
          inputMode={isNumber ? "numeric" : "text"}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onBlur={take}
          onKeyDown={(event) => {
            if (event.key === "Enter") take();
          }}
        />
      )}
    </Field>
  );
}
