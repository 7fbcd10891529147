import { type ReactNode, useState } from "react";
import { Field } from "../../../parts/field.tsx";
import type { Calendar } from "./calendar.ts";

/** Chooses a partition by its time; without a calendar, or for what is no time, by its key. */
export function DayField(props: {
  label: string;
  value: string;
  calendar: Calendar | null;
  hint?: string | undefined;
  problem?: string | undefined;
  onChange: (key: string) => void;
}): ReactNode {
  const { label, value, calendar, hint, problem, onChange } = props;
  // What is being typed stands as it is until the field is left: a day turns into its week only then.
  const [draft, setDraft] = useState<string | null>(null);
  const shown = calendar?.valueOf(value) ?? "";
  const isKey = calendar === null || (value !== "" && shown === "");
  return (
    <Field
      label={label}
      {...(hint === undefined ? {} : { hint })}
      {...(problem === undefined ? {} : { problem })}
    >
      {(control) =>
        isKey ? (
          <input
            {...control}
            className="mono"
            value={value}
            aria-invalid={problem !== undefined}
            onChange={(event) => onChange(event.target.value)}
          />
        ) : (
          <input
            {...control}
            type={calendar.inputType}
            min={calendar.min}
            max={calendar.max}
            value={draft ?? shown}
            aria-invalid={problem !== undefined}
            onChange={(event) => {
              setDraft(event.target.value);
              onChange(calendar.keyOf(event.target.value));
            }}
            onBlur={() => setDraft(null)}
          />
        )
      }
    </Field>
  );
}
