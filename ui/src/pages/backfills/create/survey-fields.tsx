import type { ReactNode } from "react";
import { pairsText } from "../../../../../src/kernel/keyspace/pairs-text.ts";
import { useList } from "../../../api/use-answer.ts";
import { Choice, Field } from "../../../parts/field.tsx";
import { lookOf } from "../../../parts/status-look.ts";
import { pairsIn } from "../backfill-texts.ts";
import { type CreateForm, ONLY, OUTCOMES, REASONS } from "./create-form.ts";

/** What reasons to be stale mean, in words. */
export const REASON_TEXTS: Readonly<Record<(typeof REASONS)[number], string>> = {
  NEVER_MATERIALIZED: "never materialized",
  CODE_CHANGED: "code changed",
  UPSTREAM_CHANGED: "upstream changed",
  FRESHNESS_POLICY: "freshness policy",
};

/** What may be taken of a selection, in words. */
export const ONLY_TEXTS: Readonly<Record<(typeof ONLY)[number], string>> = {
  missing: "missing",
  failed: "failed",
  missing_or_failed: "missing or failed",
  stale: "stale",
};

type SurveyProps = {
  form: CreateForm;
  problems: Readonly<Record<string, string>>;
  onChange: (fields: Partial<CreateForm>) => void;
};

/** Chooses what is stale, for which reasons and how much of it. */
export function StaleFields({ form, problems, onChange }: SurveyProps): ReactNode {
  const { reasons } = form;
  return (
    <div className="stack">
      <div className="create-boxes create-boxes-wide" role="group" aria-label="Stale because">
        {REASONS.map((reason) => (
          <label key={reason} className="create-check">
            <input
              type="checkbox"
              checked={reasons.includes(reason)}
              onChange={() =>
                onChange({
                  reasons: REASONS.filter((each) => reasons.includes(each) !== (each === reason)),
                })
              }
            />
            {REASON_TEXTS[reason]}
          </label>
        ))}
      </div>
      <p className="field-hint">
        {reasons.length === 0 ? "For any reason. " : ""}Partitions in progress are left out. The
        selection is made when the backfill is created.
      </p>
      <Field
        label="At most"
        hint="pairs of asset and partition"
        {...(problems["limit"] === undefined ? {} : { problem: problems["limit"] })}
      >
        {(control) => (
          <input
            {...control}
            inputMode="numeric"
            className="create-number"
            value={form.limit}
            onChange={(event) => onChange({ limit: event.target.value })}
          />
        )}
      </Field>
    </div>
  );
}

/** Chooses how much of a selection is made again. */
export function OnlyField({ form, onChange }: Omit<SurveyProps, "problems">): ReactNode {
  return (
    <Choice
      label="Only"
      value={form.only ?? ""}
      options={[["", "All of these"], ...ONLY.map((only) => [only, ONLY_TEXTS[only]] as const)]}
      onChange={(chosen) => onChange({ only: ONLY.find((only) => only === chosen) ?? null })}
    />
  );
}

/** Chooses what an earlier backfill of the same assets left. */
export function LeftFields({ form, problems, onChange }: SurveyProps): ReactNode {
  const list = useList("listBackfills", { query: { limit: 200 } });
  const wanted = form.assets.toSorted().join(" ");
  const earlier = (list.data?.items ?? []).filter(
    ({ asset_selection }) => asset_selection.toSorted().join(" ") === wanted,
  );
  const options = earlier.map(
    ({ backfill_id, display_status, ...made }) =>
      [
        backfill_id,
        `${backfill_id}: ${lookOf(display_status).word}, ${pairsText(pairsIn(made))}`,
      ] as const,
  );
  const isKnown = form.of === "" || earlier.some(({ backfill_id }) => backfill_id === form.of);
  const problem = problems["of"];
  if (list.data !== undefined && earlier.length === 0 && isKnown) {
    return <p className="soft">No earlier backfill was about exactly these assets.</p>;
  }
  return (
    <div className="stack">
      <Choice
        label="Earlier backfill"
        value={form.of}
        options={[["", "Choose …"], ...(isKnown ? [] : [[form.of, form.of] as const]), ...options]}
        onChange={(of) => onChange({ of })}
      />
      {problem !== undefined && <p className="field-problem">{problem}</p>}
      <div className="create-boxes" role="group" aria-label="Outcomes">
        {OUTCOMES.map((outcome) => (
          <label key={outcome} className="create-check">
            <input
              type="checkbox"
              checked={form.outcomes.includes(outcome)}
              onChange={() =>
                onChange({
                  outcomes: OUTCOMES.filter(
                    (each) => form.outcomes.includes(each) !== (each === outcome),
                  ),
                })
              }
            />
            {lookOf(outcome).word}
          </label>
        ))}
      </div>
      <p className="field-hint">
        {form.outcomes.length === 0
          ? "None ticked: all of its partitions that are still missing."
          : "Exactly the partitions with these outcomes."}
      </p>
    </div>
  );
}
