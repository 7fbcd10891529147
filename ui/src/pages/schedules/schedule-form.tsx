import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import type { Refusal } from "../../api/call.ts";
import { useLacks } from "../../api/session.ts";
import { announce } from "../../parts/announce.ts";
import { Choice, Field } from "../../parts/field.tsx";
import { Refused } from "../../parts/notice.tsx";
import { AssetChoice } from "./asset-choice.tsx";
import { cronText } from "./cron-text.ts";
import { MoreFields } from "./more-fields.tsx";
import { PreviewOfTimes } from "./preview-of-times.tsx";
import type { Draft } from "./schedule-draft.ts";
import { problemsOf } from "./schedule-problems.ts";
import { TextField } from "./text-field.tsx";

const SELECTIONS = [
  ["whole", "whole assets (without partitions)"],
  ["tick_time", "the partition of the tick"],
  ["stale", "stale partitions, as a backfill"],
  ["all", "all partitions"],
  ["explicit", "named partitions"],
] as const;

const ZONES: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];

/** The fields of a schedule, with a look at its times, and the button that saves it. */
export function ScheduleForm(props: {
  start: Draft;
  /** Whether its name can still be chosen. */
  isNew: boolean;
  label: string;
  consequence: ReactNode;
  save: (draft: Draft) => Promise<{ message: string; schedule_id: string }>;
  onSaved: (scheduleId: string) => void;
}): ReactNode {
  const { start, isNew, label, consequence, save, onSaved } = props;
  const [draft, setDraft] = useState(start);
  const client = useQueryClient();
  const lacks = useLacks("write");
  const set = (changes: Partial<Draft>): void => setDraft((before) => ({ ...before, ...changes }));
  const saving = useMutation<
    { message: string; schedule_id: string },
    Refusal | SyntaxError,
    Draft
  >({
    mutationFn: save,
    onSuccess: ({ message, schedule_id }) => {
      announce(message);
      onSaved(schedule_id);
    },
    onSettled: () => client.invalidateQueries(),
  });
  const { error } = saving;
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (error === null) return;
    form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [error]);
  const { at, whole } = problemsOf(error);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    saving.mutate(draft);
  };
  return (
    <form ref={form} onSubmit={submit} className="schedules-form">
      <div className="columns">
        <What draft={draft} set={set} at={at} isNew={isNew} />
        <When draft={draft} set={set} at={at} />
      </div>
      <MoreFields draft={draft} set={set} at={at} />
      {whole !== null && <Refused refusal={whole} />}
      <div>{consequence}</div>
      <p className="row">
        <button
          type="submit"
          className="button button-primary"
          disabled={saving.isPending || lacks !== null}
        >
          {saving.isPending ? "Sending…" : label}
        </button>
        {lacks !== null && <span className="soft">{lacks}</span>}
      </p>
    </form>
  );
}

/** What is typed, how it is changed, and what is wrong at which field. */
export type FieldsProps = {
  draft: Draft;
  set: (changes: Partial<Draft>) => void;
  at: Readonly<Record<string, string>>;
};

function What(props: FieldsProps & { isNew: boolean }): ReactNode {
  const { draft, set, at, isNew } = props;
  return (
    <fieldset className="stack">
      <legend>What</legend>
      {isNew && (
        <TextField
          label="Name"
          value={draft.name}
          isRequired
          hint="For example nightly or sales/refresh. It cannot change later."
          problem={at["name"]}
          onChange={(name) => set({ name })}
        />
      )}
      <TextField
        label="Description (optional)"
        value={draft.description}
        problem={at["description"]}
        onChange={(description) => set({ description })}
      />
      <AssetChoice
        chosen={draft.assets}
        problem={at["asset_selection"]}
        onChange={(assets) => set({ assets })}
      />
      <SelectionFields draft={draft} set={set} at={at} />
    </fieldset>
  );
}

function When({ draft, set, at }: FieldsProps): ReactNode {
  return (
    <fieldset className="stack">
      <legend>When</legend>
      <TextField
        label="Cron expression"
        value={draft.cron}
        isRequired
        isCode
        problem={at["cron"]}
        hint={cronText(draft.cron) ?? "Minute, hour, day, month, weekday; seconds may come first."}
        onChange={(cron) => set({ cron })}
      />
      <ZoneField
        value={draft.timezone}
        problem={at["timezone"]}
        onChange={(timezone) => set({ timezone })}
      />
      <PreviewOfTimes draft={draft} />
    </fieldset>
  );
}

function SelectionFields({ draft, set, at }: FieldsProps): ReactNode {
  return (
    <>
      <Choice
        label="Each tick triggers"
        value={draft.selection}
        options={SELECTIONS}
        onChange={(selection) => set({ selection: selection as Draft["selection"] })}
      />
      {draft.selection === "tick_time" && (
        <TextField
          label="Partitions before it"
          type="number"
          value={draft.before}
          problem={at["offset"]}
          hint="0 for the current one, 1 for the one before, which has just ended."
          onChange={(before) => set({ before })}
        />
      )}
      {draft.selection === "stale" && (
        <TextField
          label="Maximum partitions"
          type="number"
          value={draft.limit}
          problem={at["limit"]}
          onChange={(limit) => set({ limit })}
        />
      )}
      {draft.selection === "explicit" && (
        <Field label="Partition keys" hint="One per line." problem={at["partition_keys"]}>
          {(control) => (
            <textarea
              {...control}
              rows={3}
              spellCheck={false}
              aria-invalid={at["partition_keys"] === undefined ? undefined : true}
              value={draft.keys}
              onChange={(event) => set({ keys: event.target.value })}
            />
          )}
        </Field>
      )}
    </>
  );
}

function ZoneField(props: {
  value: string;
  problem: string | undefined;
  onChange: (value: string) => void;
}): ReactNode {
  return (
    <Field
      label="Time zone"
      hint="An IANA name, for example Europe/Berlin."
      problem={props.problem}
    >
      {(control) => (
        <>
          <input
            {...control}
            required
            list={`${control.id}-zones`}
            aria-invalid={props.problem === undefined ? undefined : true}
            spellCheck={false}
            value={props.value}
            onChange={(event) => props.onChange(event.target.value)}
          />
          <datalist id={`${control.id}-zones`}>
            {ZONES.map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}
