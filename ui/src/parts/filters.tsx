import { type ReactNode, useEffect, useState } from "react";
import { Choice, Field } from "./field.tsx";

/** A filter by its field in the address: one of some options, or something typed. */
export type FilterField<Name extends string> = { name: Name; label: string } & (
  | { options: readonly (readonly [value: string, text: string])[] }
  | { type: "text" | "number" | "day" }
  | { type: "search"; choices?: readonly string[] }
);

/** The filters of a list, which live in the address. */
export function Filters<Name extends string>(props: {
  /** What is filtered: `runs`. */
  of: string;
  filters: Readonly<Record<NoInfer<Name>, string>>;
  setFilter: (name: NoInfer<Name>, value: string) => void;
  fields: readonly FilterField<Name>[];
  /** More, after the fields. */
  children?: ReactNode;
}): ReactNode {
  const { of, filters, setFilter, fields, children } = props;
  return (
    <search className="filters" aria-label={`Filters of ${of}`}>
      {fields.map((field) => (
        <Filter
          key={field.name}
          field={field}
          value={filters[field.name]}
          onChange={(value) => setFilter(field.name, value)}
        />
      ))}
      {children}
    </search>
  );
}

type FilterProps = { value: string; onChange: (value: string) => void };

function Filter(props: FilterProps & { field: FilterField<string> }): ReactNode {
  const { field, value, onChange } = props;
  const { label } = field;
  if ("options" in field) return <Choice {...{ label, value, onChange }} options={field.options} />;
  switch (field.type) {
    case "day":
      return <DayFilter {...{ label, value, onChange }} />;
    case "search":
      return <TypedFilter {...{ label, value, onChange }} choices={field.choices ?? []} />;
    default:
      return <TypedFilter {...{ label, value, onChange }} isNumber={field.type === "number"} />;
  }
}

/** A text to filter by, taken when it is whole: at Enter, or when the field is left. */
export function TypedFilter(
  props: FilterProps & {
    label: string;
    isNumber?: boolean;
    /** Makes it a field to search with; one of these is taken as soon as it is picked. */
    choices?: readonly string[];
  },
): ReactNode {
  const { label, value, isNumber = false, choices, onChange } = props;
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const take = (): void => {
    if (text.trim() !== value) onChange(text.trim());
  };
  const type = (typed: string): void => {
    setText(typed);
    // One picked from the choices, or the field emptied, is whole at once.
    if (choices !== undefined && (typed === "" || choices.includes(typed))) onChange(typed);
  };
  return (
    <Field label={label}>
      {(control) => (
        <>
          <input
            {...control}
            type={choices === undefined ? "text" : "search"}
            inputMode={isNumber ? "numeric" : "text"}
            list={choices === undefined ? undefined : `${control.id}-choices`}
            value={text}
            onChange={(event) => type(event.target.value)}
            onBlur={take}
            onKeyDown={(event) => {
              if (event.key === "Enter") take();
            }}
          />
          {choices !== undefined && (
            <datalist id={`${control.id}-choices`}>
              {choices.map((choice) => (
                <option key={choice} value={choice} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  );
}

function DayFilter(props: FilterProps & { label: string }): ReactNode {
  return (
    <Field label={props.label}>
      {(control) => (
        <input
          {...control}
          type="date"
          value={props.value.slice(0, 10)}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
