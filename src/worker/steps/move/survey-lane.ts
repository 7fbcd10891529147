import { present } from "../../../kernel/assert.ts";
import { PawlError } from "../../../kernel/errors.ts";
import { MoveStrategy } from "../../../work/move/spec.ts";
import type { ClaimedMove, MoveReport, ShardKey } from "../../../work/shard/step-protocol.ts";
import type { KeyRange, Shard } from "../../../shards/shard.ts";
import type { StepHost } from "../run-step.ts";

/** Most segments that one page of a survey finds, and about how many keys it goes past at most. */
const BOUNDS_MAX = 200;
const KEYS_MAX = 5_000_000;
/** More rows than a piece has: one that is only to be counted. */
const ROWS_MAX = 1_000_000_000;

/** Finds the next segments of a lane; the page after it goes on from the last bound. */
export async function surveyLane(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const source = await host.shard(step.from);
  const [table] = await source.describe([present(step.table, "a survey is about a table")]);
  const lane: KeyRange = {
    table: present(table, "the table was described"),
    scope: step.scope,
    from: step.lower,
  };
  await refuseLooseTenants(source, lane);
  const strategy = MoveStrategy.parse(step.strategy);
  if (strategy.type === "uniform") return surveyWidths(source, lane, strategy.segments, host);
  const most = Math.min(BOUNDS_MAX, Math.max(1, Math.floor(KEYS_MAX / strategy.rows)));
  const { bounds, sealed } = await source.survey(lane, strategy.rows, most);
  return { bounds: [...bounds], sealed };
}

/**
 * Rows that a scope takes by the text of a tenant, or its hash, must be those that the table takes for
 * equal. Ranges go by the order of the column itself, whatever its texts are.
 */
async function refuseLooseTenants(source: Shard, { table, scope }: KeyRange): Promise<void> {
  const tests = scope.flatMap(({ any }) => any).filter(({ is }) => is !== "between");
  if (tests.length === 0) return;
  const tenants = tests.flatMap((test) => (test.is === "in" ? test.values : []));
  const problem = await source.tenantProblem([table], [...new Set(tenants)]);
  if (problem === null) return;
  throw new PawlError("TABLE_UNFIT", `The table ${table.table} cannot be moved: ${problem}.`, {
    details: { table: table.table, shard_by: table.shard_by },
  });
}

/** Bounds of equal width between the least and the greatest key of the lane. */
async function surveyWidths(
  source: Shard,
  lane: KeyRange,
  segments: number,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const { table } = lane;
  if (table.key.length !== 1) {
    throw new PawlError(
      "TABLE_UNFIT",
      `The key of ${table.table} has ${table.key.length} columns (${table.key.join(", ")}); the ` +
        'strategy "uniform" needs a single integer. Use "cardinality".',
      { details: { table: table.table, key: table.key } },
    );
  }
  // Of the whole lane, so that every page has the same widths.
  const ends = await source.keyBounds({ ...lane, from: null });
  const upper = ends === null ? [] : widthBounds(ends, segments, lane.from?.[0] ?? null);
  const pieces = upper.slice(0, BOUNDS_MAX);
  const sealed = upper.length <= BOUNDS_MAX;
  const bounds: NonNullable<MoveReport["bounds"]> = [];
  let from = lane.from ?? null;
  for (const bound of sealed ? [...pieces, null] : pieces) {
    host.signal.throwIfAborted();
    const below: ShardKey | null = bound === null ? null : [bound];
    bounds.push({ upper: below, rows: await countRows(source, { ...lane, from, below }) });
    from = below;
  }
  return { bounds, sealed };
}

/** The bounds behind a key, none beyond the greatest one; one more than a page has is enough. */
export function widthBounds(
  { least, greatest }: { least: string; greatest: string },
  segments: number,
  after: string | null,
): string[] {
  const [first, last] = [BigInt(least), BigInt(greatest)];
  const count = BigInt(segments);
  const width = (last - first + count) / count;
  const bounds: string[] = [];
  let next = (after === null ? first : BigInt(after)) + width;
  while (next <= last && bounds.length <= BOUNDS_MAX) {
    bounds.push(next.toString());
    next += width;
  }
  return bounds;
}

async function countRows(source: Shard, range: KeyRange): Promise<number> {
  const { bounds } = await source.survey(range, ROWS_MAX, 1);
  return bounds[0]?.rows ?? 0;
}
