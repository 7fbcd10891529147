import { type Instant, msBetween } from "../kernel/instant.ts";
import { ROUTES, ROUTING } from "../work/routing/rows.ts";
import type { SplitRow } from "../work/split/rows.ts";
import { type StepCheck, SplitStep } from "../work/shard/step-protocol.ts";
import type { Reader } from "../store/store.ts";
import type { LiveSplit } from "./routes/splits.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import type { SplitStepDocument } from "../work/split/api.ts";
import { entitySubject, stepRunKey } from "../work/keys.ts";
import { type KeyedRun, runsOfKeys } from "./look-ups.ts";

/** A tail says once a second how far it is; one that was silent for so long may be stuck. */
const SILENT_MS = 10_000;

/** Tenants that are named when they are not where they should be. */
const NAMED_MAX = 3;

/** What can be told from rows about whether a cutover would go well. */
export async function cutoverCheckDocuments(
  reader: Reader,
  live: LiveSplit,
  now: Instant,
): Promise<StepCheck[]> {
  return [
    tailCheck(live, now),
    lagCheck(live.row),
    verificationCheck(live.row),
    schemaCheck(live.row),
    await routingCheck(reader, live.row),
  ];
}

function tailCheck({ row, task, reportedAt }: LiveSplit, now: Instant): StepCheck {
  const check = "tail";
  const { step, step_state, error } = row;
  if (step !== "tail" || task?.state !== "RUNNING") {
    const isFailed = step_state === "FAILED" || (task?.failures ?? 0) > 0;
    const why = isFailed && error !== null ? `: ${error.message.replace(/\.$/, "")}` : "";
    return { check, ok: false, note: `Nobody applies changes to ${row.target} now${why}.` };
  }
  const silentMs = reportedAt === null ? null : msBetween(reportedAt, now);
  if (silentMs === null || silentMs > SILENT_MS) {
    const since = silentMs === null ? "not said anything yet" : `been silent for ${silentMs} ms`;
    return { check, ok: false, note: `The worker ${row.worker_id ?? "at it"} has ${since}.` };
  }
  return { check, ok: true, note: `Worker ${row.worker_id ?? "?"} applies changes.` };
}

function lagCheck({ tail_lag_ms: ms, tail_lag_events: events, lag_limit_ms }: SplitRow): StepCheck {
  const check = "lag";
  if (ms === null) return { check, ok: false, note: "How far the copy is behind is not known." };
  const note = `${ms} ms and ${events ?? 0} changes behind; at most ${lag_limit_ms} ms is wanted.`;
  return { check, ok: ms <= lag_limit_ms, note };
}

function verificationCheck({ verification }: SplitRow): StepCheck {
  const check = "verification";
  if (verification === null) return { check, ok: false, note: "Nothing was verified yet." };
  const { ok, finished, rows, ranges, note } = verification;
  const found = note === null ? "" : ` ${note}`;
  const counts = `${rows} rows in ${ranges} ranges`;
  if (!ok) return { check, ok: false, note: `Source and target differ.${found}` };
  if (!finished) return { check, ok: false, note: `Only ${counts} are verified so far.${found}` };
  return { check, ok: true, note: `${counts} are equal on both sides.${found}` };
}

function schemaCheck({ checks, source, target }: SplitRow): StepCheck {
  const check = "schema";
  if (checks === null || checks === undefined)
    return { check, ok: false, note: "The schemas were not compared yet." };
  const wrong = checks.filter(({ ok }) => !ok);
  if (wrong.length === 0) {
    return { check, ok: true, note: `${source} and ${target} fit together as last compared.` };
  }
  const notes = wrong.map(({ check: name, note }) => note ?? name);
  return { check, ok: false, note: notes.join(" ").slice(0, 2_000) };
}

/** The tenants must be where they were when the split was planned, by the same version. */
async function routingCheck(reader: Reader, split: SplitRow): Promise<StepCheck> {
  const { tenants, epochs, source } = split;
  const routes = await reader.load(
    ROUTES,
    tenants.map((tenant) => [tenant]),
  );
  const routeOf = new Map(routes.map((route) => [route.tenant, route]));
  const [routing] = await reader.load(ROUTING, [["routing"]]);
  const elsewhere = tenants.filter((tenant, index) => {
    const own = routeOf.get(tenant);
    const shard = own?.shard ?? routing?.default_shard;
    const epoch = own?.epoch ?? routing?.default_epoch;
    return shard !== source || epoch !== epochs[index];
  });
  const check = "routing";
  if (elsewhere.length === 0) {
    const all = tenants.length === 1 ? "The tenant is" : `All ${tenants.length} tenants are`;
    return { check, ok: true, note: `${all} routed to ${source} as planned.` };
  }
  const names = elsewhere.slice(0, NAMED_MAX).join(", ");
  const more = elsewhere.length > NAMED_MAX ? " and others" : "";
  return { check, ok: false, note: `${names}${more} are not routed to ${source} as planned.` };
}

/** A line of the server's log about a split: where it stands, and what brought it there. */
export type SplitPhaseLine = {
  split_id: string;
  phase: string;
  /** Null for a split that is new, and where the event does not say. */
  from_phase: string | null;
  state_version: number;
  changed_by: string | null;
  reason: string | null;
  routing_version: number | null;
  pos: number;
};

/** What a log says of an event that takes a split to another phase; null for every other one. */
export function splitPhaseLine({ type, data, pos }: RecordedEvent): SplitPhaseLine | null {
  const line = { changed_by: null, reason: null, routing_version: null, pos };
  switch (type) {
    case "SplitPlanned": {
      const { split_id, changed_by, routing_version } = parsed<"SplitPlanned">(data);
      const begun = { split_id, phase: "planning", from_phase: null, state_version: 1 };
      return { ...begun, ...line, changed_by, routing_version };
    }
    case "SplitPhaseChanged": {
      const { split_id, from_phase, to_phase, ...changed } = parsed<"SplitPhaseChanged">(data);
      const { state_version, changed_by, reason } = changed;
      const phases = { split_id, phase: to_phase, from_phase, state_version };
      return { ...phases, ...line, changed_by, reason };
    }
    case "SplitCaughtUp": {
      const { split_id, state_version } = parsed<"SplitCaughtUp">(data);
      return { split_id, phase: "cutover_pending", from_phase: null, state_version, ...line };
    }
    case "SplitCutOver": {
      const { split_id, direction, ...cutover } = parsed<"SplitCutOver">(data);
      const { state_version, routing_version } = cutover;
      // The way back is no phase of its own: the split is rolled back once the copy is discarded.
      if (direction === "back") return null;
      const phases = {
        split_id,
        phase: "reversible",
        from_phase: "cutover_pending",
        state_version,
      };
      return { ...phases, ...line, routing_version };
    }
    default:
      return null;
  }
}

function parsed<
  Type extends "SplitPlanned" | "SplitPhaseChanged" | "SplitCaughtUp" | "SplitCutOver",
>(data: string): EventData<Type> {
  return JSON.parse(data) as EventData<Type>;
}

const EVENTS_MAX = 10_000;

type Settled = EventData<"SplitStepSettled">;

/** The steps of a split with these numbers, newest first: the run of each, and how it was settled. */
export async function splitSteps(
  reader: Reader,
  { split_id }: SplitRow,
  from: number,
  through: number,
): Promise<SplitStepDocument[]> {
  const refs = [];
  for (let n = through; n >= from; n--) {
    for (const step of SplitStep.options) {
      refs.push({ run_key: stepRunKey({ work: "split", split_id, step, n }), n, step });
    }
  }
  const runs = await runsOfKeys(reader, refs);
  const settled = await settledSteps(reader, split_id, runs);
  return runs.map((run) => documentOf(run, settled.get(run.n)));
}

/** How steps ended that have these runs; each is settled after its run was asked for. */
async function settledSteps(
  reader: Reader,
  splitId: string,
  runs: readonly KeyedRun<unknown>[],
): Promise<Map<number, Settled>> {
  if (runs.length === 0) return new Map();
  const events = await reader.events({
    after: Math.min(...runs.map(({ run }) => run.run_pos)),
    subjects: [entitySubject(splitId)],
    types: ["SplitStepSettled"],
    limit: EVENTS_MAX,
  });
  const all = events.map(({ data }) => JSON.parse(data) as Settled);
  return new Map(all.map((settled) => [settled.n, settled]));
}

function documentOf(
  { run, n, step }: KeyedRun<{ n: number; step: SplitStep }>,
  settled: Settled | undefined,
): SplitStepDocument {
  return {
    n,
    step,
    run_id: run.run_id,
    state: run.state,
    requested_at: run.requested_at,
    started_at: run.started_at,
    finished_at: run.finished_at,
    error: run.first_error,
    outcome: settled?.outcome ?? null,
    reason: settled?.reason ?? null,
    report: settled?.report ?? null,
  };
}
