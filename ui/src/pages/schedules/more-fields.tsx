import type { ReactNode } from "react";
import { Choice, Field } from "../../parts/field.tsx";
import type { Draft } from "./schedule-draft.ts";
import type { FieldsProps } from "./schedule-form.tsx";
import { OVERLAP_TEXTS } from "./schedule-texts.ts";
import { TextField } from "./text-field.tsx";

const NAMES = [
  "catchup_window_minutes",
  "max_catchup_ticks",
  "jitter_ms",
  "starts_at",
  "ends_at",
  "priority",
  "config",
  "labels",
] as const;

/** The fields of a schedule that are good as they are most of the time. */
export function MoreFields({ draft, set, at }: FieldsProps): ReactNode {
  const hasProblem = NAMES.some((name) => at[name] !== undefined);
  return (
    <details className="card" open={hasProblem || undefined}>
      <summary>More: overlap, catching up, bounds, config</summary>
      <div className="columns schedules-tick">
        <CatchingUp draft={draft} set={set} at={at} />
        <Rest draft={draft} set={set} at={at} />
      </div>
    </details>
  );
}

function CatchingUp({ draft, set, at }: FieldsProps): ReactNode {
  return (
    <div className="stack">
      <Choice
        label="Overlap: while a run is active, the next tick"
        value={draft.overlap}
        options={Object.entries(OVERLAP_TEXTS)}
        onChange={(overlap) => set({ overlap: overlap as Draft["overlap"] })}
      />
      <TextField
        label="Catch-up window (minutes)"
        type="number"
        value={draft.catchupMinutes}
        problem={at["catchup_window_minutes"]}
        onChange={(catchupMinutes) => set({ catchupMinutes })}
      />
      <TextField
        label="Catch-up limit (ticks)"
        type="number"
        value={draft.catchupTicks}
        problem={at["max_catchup_ticks"]}
        hint="The newest missed ticks; 0 for none."
        onChange={(catchupTicks) => set({ catchupTicks })}
      />
      <label className="schedules-check">
        <input
          type="checkbox"
          checked={draft.catchUpOnResume}
          onChange={(event) => set({ catchUpOnResume: event.target.checked })}
        />
        Also catch up ticks missed while paused
      </label>
      <TextField
        label="Jitter (seconds)"
        type="number"
        value={draft.jitterSeconds}
        problem={at["jitter_ms"]}
        hint="Delays all ticks by a fixed part of this, to spread the load."
        onChange={(jitterSeconds) => set({ jitterSeconds })}
      />
    </div>
  );
}

function Rest({ draft, set, at }: FieldsProps): ReactNode {
  return (
    <div className="stack">
      <TextField
        label="Starts (optional, local time)"
        type="datetime-local"
        value={draft.startsAt}
        problem={at["starts_at"]}
        onChange={(startsAt) => set({ startsAt })}
      />
      <TextField
        label="Ends (optional, local time)"
        type="datetime-local"
        value={draft.endsAt}
        problem={at["ends_at"]}
        onChange={(endsAt) => set({ endsAt })}
      />
      <TextField
        label="Priority"
        type="number"
        value={draft.priority}
        problem={at["priority"]}
        hint="From -100 to 100."
        onChange={(priority) => set({ priority })}
      />
      <Lines
        label="Config (optional)"
        hint="JSON for the runs."
        value={draft.config}
        problem={at["config"]}
        onChange={(config) => set({ config })}
      />
      <Lines
        label="Labels (optional)"
        hint="One per line, as name=value."
        value={draft.labels}
        problem={at["labels"]}
        onChange={(labels) => set({ labels })}
      />
    </div>
  );
}

function Lines(props: {
  label: string;
  hint: string;
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label} hint={props.hint} problem={props.problem}>
      {(control) => (
        <textarea
          {...control}
          rows={2}
          spellCheck={false}
          className="mono"
          aria-invalid={props.problem === undefined ? undefined : true}
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
