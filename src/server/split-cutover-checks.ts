import { type Instant, msBetween } from "../core/instant.ts";
import { type RouteRow, ROUTES, type RoutingRow, ROUTING } from "../core/rows/routing-rows.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import type { StepCheck } from "../core/step-protocol.ts";
import type { Reader } from "../store/store.ts";
import type { LiveSplit } from "./split-document.ts";

/** A tail says once a second how far it is; one that was silent for so long may be stuck. */
const SILENT_MS = 10_000;

/** Tenants that are named when they are not where they should be. */
const NAMED_MAX = 3;

/** What can be told from rows about whether a cutover would go well. */
export async function cutoverChecks(
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
  const routes = (await reader.load(
    ROUTES,
    tenants.map((tenant) => [tenant]),
  )) as RouteRow[];
  const routeOf = new Map(routes.map((route) => [route.tenant, route]));
  const [routing] = (await reader.load(ROUTING, [["routing"]])) as RoutingRow[];
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
