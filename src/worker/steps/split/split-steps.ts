import { PawlError, present, unreachable } from "../../../kernel/errors.ts";
import type { Shard, TableShape } from "../../../shards/shard.ts";
import type { ClaimedSplit, SplitReport, StepCheck } from "../../../work/shard/step-protocol.ts";
import type { StepHost } from "../run-step.ts";
import { advanceStream, schemaDifference } from "./advance-stream.ts";
import { checked, performCutover, settleOwnership } from "./cut-over.ts";
import { discardSplit, finishSplit, removeMoved } from "./remove-rows.ts";
import { copyTables, followSource, reportOf } from "./verify-copy.ts";
import {
  advised,
  type Direction,
  openSplitStream,
  SPLIT_LIMITS,
  type SplitLimits,
  type SplitWork,
  type Stream,
  streamName,
  takeSplit,
} from "./work.ts";

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
  // A copy would begin behind the statement, and the target never hear of it. Without rows, a stream
  // may begin anywhere.
  if (stream.state === null) await advanceStream(stream, {});
  const sql = marked(step);
  if ((await loggedId(stream, sql)) === null) {
    await stream.from.runDdl(guard, sql, step.tables);
  }
  if (isWithoutRows(stream)) await takeStatement(work, stream, sql);
  return {};
}

/** Whether nothing was copied yet, so that nobody but a change of the schema moves the stream on. */
function isWithoutRows({ state }: Stream): boolean {
  return state?.phase === "copy" && state.cursor.table === 0 && state.cursor.key === null;
}

/**
 * Takes the stream up to the statement and no further: the log keeps it then, for a step that begins
 * again to find. Both shards are alike afterwards, also when the split is rolled back instead.
 */
async function takeStatement(work: SplitWork, stream: Stream, sql: string): Promise<void> {
  const { pulse, step } = work;
  const id = present(await loggedId(stream, sql), "a statement that was run is in the log");
  try {
    while (stream.state?.reaching?.after_id !== id) {
      if (await pulse.beat(() => Promise.resolve({}))) return;
      await advanceStream(stream, {});
    }
  } catch (error) {
    if (!(error instanceof PawlError) || error.retryable) throw error;
    throw new PawlError(
      error.code,
      `${step.source} has run the statement and ${step.target} has not. Do not ask for it again: the ` +
        `copy takes it over when it runs. The reason: ${error.message}`,
      { details: { ...error.details }, cause: error },
    );
  }
}

/** After the first word: before it the statement would not begin as it must, and behind it could stay in the schema. */
function marked({ split_id, n, ddl }: ClaimedSplit): string {
  const mark = ` /* pawl ${split_id}:${n} */`;
  return present(ddl, "a step has a statement").replace(/^\s*\w+/, (word) => word + mark);
}

/** The change that a statement was captured as; null when it was not run yet. */
async function loggedId(stream: Stream, sql: string): Promise<string | null> {
  const { from, plan, limits } = stream;
  const { tables, scope } = plan;
  const { position } = present(stream.state, "a stream that has begun");
  const to = await from.position();
  let after_id: string | null = null;
  for (;;) {
    const asked = { tables, scope, from: position, to, after_id, cursor: null, chunk: null };
    const answer = await from.read({ ...asked, changesMax: limits.changesMax });
    const found = answer.changes.find(({ ddl }) => ddl?.sql === sql);
    if (found !== undefined) return found.id;
    if (answer.complete) return null;
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

/** Looks whether a split is possible at all. What is not as it must be stands in the report. */
export async function splitCheck(work: SplitWork): Promise<SplitReport> {
  return { checks: await findProblems(work) };
}

/** What has to hold before anything is armed. */
export async function findProblems(work: SplitWork): Promise<StepCheck[]> {
  const { step, source, target } = work;
  const shapes = { source: await tried(source, work), target: await tried(target, work) };
  const problems = [
    checked(`tables of ${step.source}`, problemOf(shapes.source)),
    checked(`tables of ${step.target}`, problemOf(shapes.target)),
  ];
  if (shapes.source instanceof PawlError || shapes.target instanceof PawlError) return problems;
  problems.push(
    checked(`tenants of ${step.source}`, await source.tenantProblem(shapes.source, step.tenants)),
    checked(`tenants of ${step.target}`, await target.tenantProblem(shapes.target, step.tenants)),
  );
  // Rows of tenants that a column cannot have cannot be looked for.
  if (problems.some(({ ok }) => !ok)) return problems;
  const triggers = await target.firingTriggers(shapes.target);
  // Changes are taken over to both: to the source on the way back.
  const obstacles = {
    source: await source.obstacles(shapes.source, "changes"),
    target: await target.obstacles(shapes.target, "changes"),
  };
  return [
    ...problems,
    checked("schemas alike", schemaDifference(shapes.source, shapes.target)),
    checked("order of tables", disorder(shapes.source)),
    checked(`capture on ${step.source}`, await source.tryCapture(shapes.source)),
    checked(`capture on ${step.target}`, await target.tryCapture(shapes.target)),
    checked(
      "no triggers on the target",
      triggers.length === 0
        ? null
        : `${triggers.join(", ")} would fire for rows that are copied; drop what has such effects`,
    ),
    checked(`constraints of ${step.source}`, spelled(obstacles.source)),
    checked(`constraints of ${step.target}`, spelled(obstacles.target)),
    checked("target without their rows", await leftovers(work, shapes.target)),
  ];
}

async function tried(shard: Shard, { step }: SplitWork): Promise<TableShape[] | PawlError> {
  try {
    return await shard.describe(step.tables);
  } catch (error) {
    if (error instanceof PawlError && error.code === "TABLE_UNFIT") return error;
    throw error;
  }
}

function problemOf(shapes: TableShape[] | PawlError): string | null {
  return shapes instanceof PawlError ? shapes.message : null;
}

function spelled(reasons: readonly string[]): string | null {
  return reasons.length === 0 ? null : reasons.join("; ");
}

/** A foreign key from an earlier table to a later one; null when there is none. */
function disorder(tables: readonly TableShape[]): string | null {
  const found = tables.flatMap(({ table, references }, at) =>
    references
      .filter((other) => tables.findIndex(({ table: name }) => name === other) > at)
      .map((other) => `${table} refers to ${other}, which comes after it`),
  );
  return found.length === 0 ? null : found.join("; ");
}

/** Rows of the tenants on a target that no copy of this split has brought there. */
async function leftovers(
  { step, scope, target }: SplitWork,
  tables: readonly TableShape[],
): Promise<string | null> {
  if ((await target.loadStream(streamName(step, "forward"))) !== null) return null;
  const found: string[] = [];
  for (const table of tables) {
    const nothing = { from: null, cursor: null, changesMax: 1 };
    const chunk = { table, scope, limit: 1 };
    const answer = await target.read({ tables: [table], scope, ...nothing, chunk });
    if ((answer.chunk?.rows.count ?? 0) > 0) found.push(table.table);
  }
  return found.length === 0
    ? null
    : `${step.target} has rows of these tenants already in ${found.join(", ")}; remove them first`;
}
