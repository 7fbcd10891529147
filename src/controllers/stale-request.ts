import type { ScheduleSelection, ScheduleSpec } from "../core/automation-specs.ts";
import { PawlError } from "../core/errors.ts";
import type { EventData, NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { ScheduleRow } from "../core/rows/schedule-rows.ts";
import { type CreateBackfillInput, createBackfill } from "./create-backfill.ts";
import type { Context } from "./decision.ts";
import { collectStale } from "./stale-partitions.ts";
import { addToSurvey, beginStaleSurvey } from "./stale-targets.ts";

/** Partitions that one tick looks at, those upstream included; the next tick goes on from there. */
const LOOKS_MAX = 5_000;

type Ticked = EventData<"ScheduleTicked">;

/** What a tick says of its search for stale partitions, and the events of the backfill it asks for. */
export type StaleRequest = Partial<Pick<Ticked, "reason" | "backfill_id" | "stale">> & {
  events: readonly NewEvent[];
};

/**
 * A backfill of what is stale at a tick's time, as far as one look goes. Nothing is asked for when
 * nothing is stale, or when another backfill is at it already.
 */
export function staleRequest(
  rows: Rows,
  row: ScheduleRow,
  spec: ScheduleSpec,
  selection: Extract<ScheduleSelection, { type: "stale" }>,
  tick: { tick_id: string },
  context: Context,
): StaleRequest {
  const { limit, reasons } = selection;
  const assets = [...new Set(spec.asset_selection)];
  const survey = beginStaleSurvey(assets)(rows, context).result;
  const collected = collectStale(rows, assets, context, {
    budget: LOOKS_MAX,
    limit,
    reasons,
    from: row.stale_place ?? undefined,
  });
  const stale = { reasons: collected.reasons, next: collected.next };
  if (collected.found.length === 0) return { reason: "nothing_stale", stale, events: [] };
  addToSurvey(survey, collected);
  const input: CreateBackfillInput = {
    client_request_id: tick.tick_id,
    assets,
    selector: { type: "stale", limit, ...(reasons === undefined ? {} : { reasons }) },
    chunk_size: 10,
    max_concurrent_runs: 2,
    order: "ascending",
    priority: spec.priority,
    allow_overlap: false,
    // Nobody waits for these to decide how to go on.
    continue_on_failure: true,
    labels: spec.labels,
    config: spec.config,
  };
  const asSchedule = { ...context, principal: principalOf(row.schedule_id) };
  try {
    const { events, result } = createBackfill(input, survey, true)(rows, asSchedule);
    return { backfill_id: result.backfill_id, stale, events };
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "BACKFILL_OVERLAPS") throw error;
    return { reason: "overlap", stale: null, events: [] };
  }
}

function principalOf(scheduleId: string): string {
  return `schedule/${scheduleId}`;
}

/** The key under which the backfill of a tick was asked for. */
export function staleRequestKey(scheduleId: string, tickId: string): string {
  return IDEMPOTENCY_KEYS.backfillCreate(principalOf(scheduleId), tickId);
}
