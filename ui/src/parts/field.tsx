import { type ReactNode, useId } from "react";

/** A field of a form with its label, and what is wrong with it where something is. */
export function Field(props: {
  label: string;
  hint?: ReactNode;
  problem?: string | undefined;
  /** Gets what ties the control to its label. */
  children: (control: { id: string; "aria-describedby": string | undefined }) => ReactNode;
}): ReactNode {
  const { label, hint, problem, children } = props;
  const id = useId();
  const hintId = hint === undefined && problem === undefined ? undefined : `${id}-hint`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": hintId })}
      {hintId !== undefined && (
        <div id={hintId} className="field-hint">
          {problem === undefined ? null : <p className="field-problem">{problem}</p>}
          {hint}
        </div>
      )}
    </div>
  );
}

/** A choice among a few, as a labelled select; the first is that nothing is chosen. */
export function Choice(props: {
  label: string;
  value: string;
  options: readonly (readonly [value: string, text: string])[];
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label}>
      {(control) => (
        <select
          {...control}
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        >
          {/* What an address asks for may be none of those that are offered. */}
          {props.options.every(([value]) => value !== props.value) && (
            <option value={props.value}>{props.value}</option>
          )}
          {props.options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
