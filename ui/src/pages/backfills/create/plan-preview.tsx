import { type ReactNode, useId } from "react";
import { Link } from "wouter";
import { pairsText } from "../../../../../src/kernel/keyspace/pairs-text.ts";
import { Facts, Id } from "../../../parts/facts.tsx";
import { Notice } from "../../../parts/notice.tsx";
import { Moment } from "../../../parts/time.tsx";
import { countText, durationText } from "../../../parts/time-text.ts";
import { pairsIn } from "../backfill-texts.ts";
import { type CreateForm, REASONS } from "./create-form.ts";
import { REASON_TEXTS } from "./survey-fields.tsx";
import type { Plan } from "./use-plan.ts";

/** Keys of the first chunk that are shown. */
const KEYS_SHOWN = 6;

/** What would be made, in numbers and words. */
export function PlanPreview(props: {
  plan: Plan;
  form: CreateForm;
  onChange: (fields: Partial<CreateForm>) => void;
}): ReactNode {
  const { plan, form } = props;
  const chunks = sumOf(plan.backfills, ({ total_chunks }) => total_chunks);
  return (
    <div className="stack">
      <p className="create-summary">
        <strong>{totalText(plan)}</strong> in <strong>{counted(chunks, "chunk")}</strong>
      </p>
      <Facts
        facts={[
          ["Time it will take", timeText(plan)],
          ["Runs", countText(plan.estimated_runs)],
          ["Starts", plan.opens_at === null ? null : <Moment key="opens" at={plan.opens_at} />],
          ["Assets", plan.backfills.flatMap((each) => each.asset_selection).join(", ")],
          ["Selected", selectedText(plan)],
          ["Stale because", reasonsText(plan)],
        ]}
      />
      <FirstChunk plan={plan} />
      {plan.backfills.length > 1 && <Several plan={plan} form={form} />}
      <Overlaps {...props} />
    </div>
  );
}

/** All partitions that would be made; what they are of, where that is the same for all. */
function totalText({ backfills }: Plan): string {
  const [only] = backfills;
  if (backfills.length === 1 && only !== undefined) return pairsText(pairsIn(only));
  return counted(
    sumOf(backfills, ({ partitions_total }) => partitions_total),
    "partition",
  );
}

function sumOf<Item>(items: readonly Item[], amount: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + amount(item), 0);
}

function counted(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function timeText({ estimated_seconds }: Plan): string {
  if (estimated_seconds === null) return "not known: no similar run yet";
  return `about ${durationText(Math.max(1, Math.round(estimated_seconds)) * 1_000)} by past runs`;
}

function reasonsText({ stale_reasons }: Plan): string | null {
  if (stale_reasons === null) return null;
  return REASONS.filter((reason) => stale_reasons[reason] > 0)
    .map((reason) => `${REASON_TEXTS[reason]} (${countText(stale_reasons[reason])})`)
    .join(", ");
}

/** How many were selected, where only some of them are made. */
function selectedText({ partitions_selected: selected, backfills }: Plan): string | null {
  if (selected === null) return null;
  const left = selected - sumOf(backfills, ({ partitions_total }) => partitions_total);
  return `${counted(selected, "partition")}, of which ${countText(left)} left out`;
}

function FirstChunk({ plan }: { plan: Plan }): ReactNode {
  const keys = plan.first_chunk_partitions;
  if (keys.length === 0) return null;
  const rest = keys.length - KEYS_SHOWN;
  return (
    <div>
      <h3>First chunk</h3>
      <ul className="create-first mono">
        {keys.slice(0, KEYS_SHOWN).map((key) => (
          <li key={key}>{key}</li>
        ))}
        {rest > 0 && <li className="soft">and {countText(rest)} more</li>}
      </ul>
    </div>
  );
}

function Several({ plan, form }: { plan: Plan; form: CreateForm }): ReactNode {
  return (
    <div>
      <h3>{plan.backfills.length} backfills, one after the other</h3>
      <p className="soft">
        The assets have different partitions, so there is a separate backfill for each kind. Each
        starts when the one before has {form.continue_on_failure ? "ended" : "succeeded"}.
      </p>
      <ol className="create-several">
        {plan.backfills.map(({ asset_selection, total_chunks, ...made }) => (
          <li key={asset_selection.join(" ")}>
            <span className="mono">{asset_selection.join(", ")}</span>:{" "}
            {pairsText(pairsIn({ asset_selection, ...made }))} in {counted(total_chunks, "chunk")}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Overlaps(props: {
  plan: Plan;
  form: CreateForm;
  onChange: (fields: Partial<CreateForm>) => void;
}): ReactNode {
  const { overlaps } = props.plan;
  const consequenceId = useId();
  if (overlaps.length === 0) return null;
  return (
    <Notice tone="warn">
      <p>
        {overlaps.length === 1
          ? "An active backfill works"
          : `${overlaps.length} active backfills work`}{" "}
        on some of these partitions:
      </p>
      <ul className="create-overlaps">
        {overlaps.slice(0, 10).map(({ backfill_id, asset_keys }) => (
          <li key={backfill_id}>
            <Link href={`/backfills/${backfill_id}`}>
              <Id id={backfill_id} />
            </Link>{" "}
            ({asset_keys.join(", ")})
          </li>
        ))}
      </ul>
      <label className="create-check">
        <input
          type="checkbox"
          checked={props.form.allow_overlap}
          aria-describedby={consequenceId}
          onChange={(event) => props.onChange({ allow_overlap: event.target.checked })}
        />
        Allow overlap
      </label>
      <p id={consequenceId} className="field-hint">
        Both then materialize the shared partitions, one after the other, and the last one wins.
        Otherwise wait for the other backfill, or cancel it.
      </p>
    </Notice>
  );
}
