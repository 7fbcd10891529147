import { PawlError } from "../../../kernel/errors.ts";
import type { SplitReport } from "../../../work/shard/step-protocol.ts";
import { findProblems } from "./check.ts";
import type { SplitWork } from "./work.ts";

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
