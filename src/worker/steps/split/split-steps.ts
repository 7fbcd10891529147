import { PawlError, present, unreachable } from "../../../kernel/errors.ts";
import type { ClaimedSplit, SplitReport } from "../../../work/shard/step-protocol.ts";
import { settleOwnership } from "./settle-ownership.ts";
import {
  openSplitStream,
  type SplitWork,
  type Stream,
  SPLIT_LIMITS,
  type SplitLimits,
  advised,
  type Direction,
  takeSplit,
} from "./work.ts";
import { findProblems, splitCheck } from "./check.ts";
import type { StepHost } from "../run-step.ts";
import { copyTables, followSource, reportOf } from "./follow-source.ts";
import { performCutover } from "./cut-over.ts";
import { discardSplit, finishSplit, removeMoved } from "./remove-rows.ts";

/**
 * Changes the schema of the owner; the stream takes it over in its place. The statement is marked
 * with the step, so that a step that begins again finds it in the log and runs it once.
 */
export async function runDdlStep(work: SplitWork): Promise<SplitReport> {
  const { step, guard, host } = work;
  if (host.allowsDdl !== true) {
    throw new PawlError(
      "DDL_NOT_ALLOWED",
      "This worker changes no schemas. Say `allowDdl: true` in shards() of its project, or run the " +
        "statement on each shard yourself when the split has ended.",
      { details: { split_id: step.split_id } },
    );
  }
  await settleOwnership(work);
  const isThere = step.routing_version_cutover !== null;
  const stream = await openSplitStream(work, isThere ? "back" : "forward");
  const sql = marked(step);
  if (!(await isLogged(work, stream, sql))) {
    await stream.from.runDdl(guard, sql, step.tables);
  }
  return {};
}

/** After the first word: before it the statement would not begin as it must, and behind it could stay in the schema. */
function marked({ split_id, n, ddl }: ClaimedSplit): string {
  const mark = ` /* pawl ${split_id}:${n} */`;
  return present(ddl, "a step has a statement").replace(/^\s*\w+/, (word) => word + mark);
}

async function isLogged({ guard }: SplitWork, stream: Stream, sql: string): Promise<boolean> {
  const { from, plan, state, limits } = stream;
  const { tables, scope } = plan;
  // Repeated, it answers where the log begins.
  const position = state?.position ?? (await from.armCapture(guard, tables));
  const to = await from.position();
  let after_id = state?.reaching?.after_id ?? null;
  for (;;) {
    const asked = { tables, scope, from: position, to, after_id, cursor: null, chunk: null };
    const answer = await from.read({ ...asked, changesMax: limits.changesMax });
    if (answer.changes.some(({ ddl }) => ddl?.sql === sql)) return true;
    if (answer.complete) return false;
    after_id = answer.through_id;
  }
}

/**
 * Has changes captured on both shards and writes checked: the target refuses them, the source takes
 * those of the present epochs. On the target for the way back, which must miss nothing either.
 */
export async function armSplit(work: SplitWork): Promise<SplitReport> {
  const { step, guard, source, target } = work;
  const checks = await findProblems(work);
  const failed = checks.find(({ ok }) => !ok);
  if (failed !== undefined) {
    throw new PawlError(codeOf(failed.check), `${failed.check}: ${failed.note ?? "not so"}.`, {
      details: { failed: failed.check },
    });
  }
  const tables = await source.describe(step.tables);
  const wasThere = await formerTenants(work);
  const fence = (state: "open" | "incoming", shardOf: (tenant: string) => string | null) =>
    step.tenants.map((tenant, at) => {
      return { tenant, epoch: step.epochs[at] ?? 0, state, shard: shardOf(tenant) };
    });
  await target.armCapture(guard, await target.describe(step.tables));
  await target.setFences(
    guard,
    fence("incoming", (tenant) => (wasThere.has(tenant) ? step.source : null)),
  );
  await refuseOnePlace(work);
  const position = await source.armCapture(guard, tables);
  await source.setFences(
    guard,
    fence("open", () => null),
  );
  return { checks, position };
}

/**
 * Tenants that the target has had before. Somebody may still come there with an epoch of that time,
 * so their fences say where they are, and say so again when the split is rolled back.
 */
async function formerTenants({ step, target }: SplitWork): Promise<Set<string>> {
  const fences = await target.fences(step.tenants);
  const former = fences.filter(({ state, shard }) => state !== "incoming" || shard !== null);
  return new Set(former.map(({ tenant }) => tenant));
}

/** Fences are kept once for each database: two shards in one, such as two schemas, would share them. */
async function refuseOnePlace({ step, source }: SplitWork): Promise<void> {
  const fences = await source.fences(step.tenants);
  if (!fences.some(({ state }) => state === "incoming")) return;
  throw new PawlError(
    "INPUT_INVALID",
    `${step.source} and ${step.target} are in one database, where a tenant is in one place only. ` +
      "Roll back, and split between shards of two databases.",
    { details: { source: step.source, target: step.target } },
  );
}

function codeOf(check: string): "ROWS_CONFLICT" | "SCHEMA_CHANGED" | "TABLE_UNFIT" {
  if (check === "target without their rows") return "ROWS_CONFLICT";
  return check === "schemas alike" ? "SCHEMA_CHANGED" : "TABLE_UNFIT";
}

/**
 * Does a step of a split, or goes on with one that was left at any point: what is done already is
 * found on the shards. `copy`, `tail` and `reverse` end early when the host says so.
 */
export async function runSplitStep(
  step: ClaimedSplit,
  host: StepHost<SplitReport>,
  limits: SplitLimits = SPLIT_LIMITS,
): Promise<SplitReport> {
  const work = await takeSplit(step, host, limits);
  switch (step.step) {
    case "check":
      return splitCheck(work);
    case "arm":
      return armSplit(work);
    case "copy":
      return copy(work);
    case "tail":
      return follow(work, "forward");
    case "cutover":
      await settleOwnership(work);
      return performCutover(work, "forward");
    case "reverse":
      return follow(work, "back");
    case "cutback":
      await settleOwnership(work);
      requireCutOver(work);
      return performCutover(work, "back").catch((error: unknown) => {
        throw advised(error, "back", work);
      });
    case "ddl":
      return runDdlStep(work);
    case "finish":
      return finishSplit(work);
    case "remove":
      return removeMoved(work);
    case "discard":
      return discardSplit(work);
    default:
      return unreachable(step.step);
  }
}

async function copy(work: SplitWork): Promise<SplitReport> {
  await settleOwnership(work);
  const stream = await openSplitStream(work, "forward");
  await copyTables(work, stream);
  const report = await reportOf(stream);
  if (stream.state?.phase !== "tail") return report;
  return { ...report, tenant_rows: await tenantRows(work, stream) };
}

/** How many rows each tenant has on the target, of all tables together. */
async function tenantRows(
  { step, scope }: SplitWork,
  { to, plan }: Stream,
): Promise<Record<string, number>> {
  const counts = new Map(step.tenants.map((tenant) => [tenant, 0]));
  for (const table of plan.tables) {
    for (const [tenant, rows] of Object.entries(await to.tenantRows({ table, scope }))) {
      counts.set(tenant, (counts.get(tenant) ?? 0) + rows);
    }
  }
  // Planned before it was refused: no document can have this key, and a report must arrive.
  counts.delete("__proto__");
  return Object.fromEntries(counts);
}

async function follow(work: SplitWork, direction: Direction): Promise<SplitReport> {
  await settleOwnership(work);
  try {
    const stream = await openSplitStream(work, direction);
    await followSource(work, stream, direction === "forward" ? "caught_up" : null);
    return await reportOf(stream);
  } catch (error) {
    throw advised(error, direction, work);
  }
}

/** The way back begins where the cutover has led. */
function requireCutOver({ step }: SplitWork): void {
  if (step.routing_version_cutover !== null) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `Split ${step.split_id} was not cut over, so there is no way back to take. Roll back instead.`,
    { details: { split_id: step.split_id } },
  );
}
