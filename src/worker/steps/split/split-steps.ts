import { unreachable } from "../../../kernel/assert.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { ClaimedSplit, SplitReport } from "../../../work/shard/step-protocol.ts";
import type { StepHost } from "../run-step.ts";
import { armSplit } from "./arm.ts";
import { copyTables, followSource, reportOf } from "./follow-source.ts";
import { performCutover } from "./cut-over.ts";
import { discardSplit, finishSplit, removeMoved } from "./discard.ts";
import { runDdlStep } from "./run-ddl.ts";
import { settleOwnership } from "./settle-ownership.ts";
import { splitCheck } from "./check.ts";
import {
  SPLIT_LIMITS,
  type SplitLimits,
  type Stream,
  advised,
  type Direction,
  openSplitStream,
  type SplitWork,
  takeSplit,
} from "./work.ts";

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
