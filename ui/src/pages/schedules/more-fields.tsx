import type { ReactNode } from "react";
import { Choice, Field } from "../../parts/field.tsx";
import type { Draft } from "./schedule-draft.ts";
import type { SetDraft } from "./schedule-form.tsx";
import { OVERLAP_TEXTS } from "./schedule-texts.ts";
import { TextField } from "./text-field.tsx";

/** The fields of a schedule that are good as they are most of the time. */
export function MoreFields({ draft, set }: { draft: Draft; set: SetDraft }): ReactNode {
  return (
    <details className="card">
      <summary>More: overlap, catching up, bounds, config</summary>
      <div className="columns schedules-tick">
        <CatchingUp draft={draft} set={set} />
        <Rest draft={draft} set={set} />
      </div>
    </details>
  );
}

function CatchingUp({ draft, set }: { draft: Draft; set: SetDraft }): ReactNode {
  return (
    <div className="stack">
      <Choice
        label="While one is going, the next"
        value={draft.overlap}
        options={Object.entries(OVERLAP_TEXTS)}
        onChange={(overlap) => set({ overlap: overlap as Draft["overlap"] })}
      />
      <TextField
        label="Catch up missed times of the last (minutes)"
        type="number"
        value={draft.catchupMinutes}
        onChange={(catchupMinutes) => set({ catchupMinutes })}
      />
      <TextField
        label="Catch up at most (times)"
        type="number"
        value={draft.catchupTicks}
        hint="The newest ones; 0 for none."
        onChange={(catchupTicks) => set({ catchupTicks })}
      />
      <label className="schedules-check">
        <input
          type="checkbox"
          checked={draft.catchUpOnResume}
          onChange={(event) => set({ catchUpOnResume: event.target.checked })}
        />
        Also catch up what was missed while it was paused
      </label>
      <TextField
        label="Jitter (seconds)"
        type="number"
        value={draft.jitterSeconds}
        hint="Moves all its times by a part of this, always the same, to spread the load."
        onChange={(jitterSeconds) => set({ jitterSeconds })}
      />
    </div>
  );
}

function Rest({ draft, set }: { draft: Draft; set: SetDraft }): ReactNode {
  return (
    <div className="stack">
      <TextField
        label="Begins (optional, your time)"
        type="datetime-local"
        value={draft.startsAt}
        onChange={(startsAt) => set({ startsAt })}
      />
      <TextField
        label="Ends (optional, your time)"
        type="datetime-local"
        value={draft.endsAt}
        onChange={(endsAt) => set({ endsAt })}
      />
      <TextField
        label="Priority"
        type="number"
        value={draft.priority}
        hint="From -100 to 100."
        onChange={(priority) => set({ priority })}
      />
      <Lines
        label="Config (optional)"
        hint="JSON that the runs get."
        value={draft.config}
        onChange={(config) => set({ config })}
      />
      <Lines
        label="Labels (optional)"
        hint="One on each line, as name=value."
        value={draft.labels}
        onChange={(labels) => set({ labels })}
      />
    </div>
  );
}

function Lines(props: {
  label: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field label={props.label} hint={props.hint}>
      {(control) => (
        <textarea
          {...control}
          rows={2}
          spellCheck={false}
          className="mono"
          value={props.value}
          onChange={(event) => props.onChange(event.target.value)}
        />
      )}
    </Field>
  );
}
