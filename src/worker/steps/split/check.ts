import { PawlError } from "../../../kernel/errors.ts";
import type { SplitReport, StepCheck } from "../../../work/shard/step-protocol.ts";
import type { Shard, TableShape } from "../../../shards/shard.ts";
import { checked } from "./cut-over.ts";
import { schemaDifference } from "./advance-stream.ts";
import { type SplitWork, streamName } from "./work.ts";

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
