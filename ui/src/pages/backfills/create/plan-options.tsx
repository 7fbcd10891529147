import { type ReactNode, useState } from "react";
import { Choice, Field } from "../../../parts/field.tsx";
import type { Problems } from "./create-body.ts";
import { type CreateForm, EMPTY_FORM } from "./create-form.ts";

type OptionProps = {
  form: CreateForm;
  problems: Problems;
  onChange: (fields: Partial<CreateForm>) => void;
};

type TextName =
  | "chunk_size"
  | "concurrency"
  | "priority"
  | "failure_limit"
  | "attempts"
  | "retry_delay_ms"
  | "after"
  | "start_at"
  | "window";

/** How the backfill goes about its work; what is asked for rarely is folded away. */
export function PlanOptions(props: OptionProps): ReactNode {
  const { form, onChange } = props;
  // What is set has to be seen.
  const [isOpen, setIsOpen] = useState(() => hasRare(form));
  return (
    <div className="stack">
      <div className="create-options">
        <Text
          {...props}
          name="chunk_size"
          label="Partition keys per chunk"
          hint="A chunk is one run."
        />
        <Text
          {...props}
          name="concurrency"
          label="Concurrent chunks"
          hint="Can be changed later."
        />
        <Choice
          label="Order"
          value={form.order}
          options={[
            ["ascending", "First partition first"],
            ["descending", "Last partition first"],
          ]}
          onChange={(order) =>
            onChange({ order: order === "descending" ? "descending" : "ascending" })
          }
        />
        <Text
          {...props}
          name="failure_limit"
          label="Pause after failures"
          hint="20 or 5%, for example. Empty: never pauses."
        />
      </div>
      <details
        className="create-more"
        open={isOpen || RARE.some((name) => props.problems[name] !== undefined)}
        onToggle={(event) => setIsOpen(event.currentTarget.open)}
      >
        <summary>More options</summary>
        <RareOptions {...props} />
      </details>
    </div>
  );
}

const RARE = [
  "priority",
  "attempts",
  "retry_delay_ms",
  "labels",
  "config",
  "after",
  "start_at",
  "window",
] as const;

/** What is typed as a text rather than as a number. */
const TEXTS: ReadonlySet<TextName> = new Set(["after", "failure_limit", "start_at", "window"]);

function hasRare(form: CreateForm): boolean {
  return form.continue_on_failure || RARE.some((name) => form[name] !== EMPTY_FORM[name]);
}

function RareOptions(props: OptionProps): ReactNode {
  const { form, onChange } = props;
  return (
    <div className="stack">
      <div className="create-options">
        <Text {...props} name="priority" label="Priority" hint="-100 to 100; higher runs first." />
        <Text
          {...props}
          name="attempts"
          label="Attempts per task"
          hint="Empty: the asset's setting."
        />
        <Text
          {...props}
          name="retry_delay_ms"
          label="Retry delay (ms)"
          hint="Doubles with each retry."
        />
        <Text
          {...props}
          name="after"
          label="Start after backfill"
          hint="Its id. Empty: starts at once."
        />
        <Text
          {...props}
          name="start_at"
          label="Start at"
          hint="2026-01-31T22:00:00Z, for example. Empty: at once."
        />
        <Text
          {...props}
          name="window"
          label="Daily window"
          hint="22:00-06:00 Europe/Berlin, for example. Empty: all day."
        />
      </div>
      <label className="create-check">
        <input
          type="checkbox"
          checked={form.continue_on_failure}
          onChange={(event) => onChange({ continue_on_failure: event.target.checked })}
        />
        Start even if that backfill failed
      </label>
      <div className="columns">
        <Lines {...props} name="labels" label="Labels, one per line" hint="team=sales" />
        <Lines
          {...props}
          name="config"
          label="Configuration (JSON)"
          hint="Passed to every task as its config."
        />
      </div>
    </div>
  );
}

function Text(props: OptionProps & { name: TextName; label: string; hint: string }): ReactNode {
  const { form, problems, onChange, name, label, hint } = props;
  const problem = problems[name];
  return (
    <Field label={label} hint={hint} {...(problem === undefined ? {} : { problem })}>
      {(control) => (
        <input
          {...control}
          inputMode={TEXTS.has(name) ? "text" : "numeric"}
          value={form[name]}
          aria-invalid={problem !== undefined}
          onChange={(event) => onChange({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}

function Lines(
  props: OptionProps & { name: "labels" | "config"; label: string; hint: string },
): ReactNode {
  const { form, problems, onChange, name, label, hint } = props;
  const problem = problems[name];
  return (
    <Field label={label} hint={hint} {...(problem === undefined ? {} : { problem })}>
      {(control) => (
        <textarea
          {...control}
          className="mono"
          rows={3}
          spellCheck={false}
          value={form[name]}
          aria-invalid={problem !== undefined}
          onChange={(event) => onChange({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
}
