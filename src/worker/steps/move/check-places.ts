import { present } from "../../../kernel/assert.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { TablePolicy } from "../../../work/shard/spec.ts";
import type { ClaimedMove, MoveReport } from "../../../work/shard/step-protocol.ts";
import type { Shard } from "../../../shards/shard.ts";
import { schemaDifference } from "../split/advance-stream.ts";
import type { StepHost } from "../run-step.ts";

/** Most places, or tables, that a note names, and how long it may get. */
const NAMED_MAX = 5;
const NOTE_LENGTH_MAX = 2_000;

/** Looks on every shard for rows that do not belong there; those of excluded segments are left out. */
export async function checkPlaces(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const excepted = await exceptedRows(step, host);
  const misplaced: NonNullable<MoveReport["misplaced"]> = [];
  let told = 0;
  for (const { shard: name, tables, scope } of step.places) {
    const shard = await host.shard(name);
    for (const table of await shard.describe(tables)) {
      host.signal.throwIfAborted();
      const { rows } = await shard.digest({ table, scope });
      const allowed = Math.min(rows, excepted.get(placeText(name, table.table)) ?? 0);
      told += allowed;
      if (rows > allowed) {
        misplaced.push({ shard: name, table: table.table, rows: rows - allowed });
      }
      await host.say({ misplaced, excepted: told }, null);
    }
  }
  const notes = [
    ...(await differencesOf(step, host)),
    ...(misplaced.length === 0 ? [] : [noteOf(misplaced)]),
  ];
  const note = notes.length === 0 ? null : notes.join("; ").slice(0, NOTE_LENGTH_MAX);
  return { equal: note === null, misplaced, excepted: told, note };
}

/** How the tables of shards differ between which rows are to go; of some lanes, where there are many. */
async function differencesOf(
  { lanes = [] }: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<string[]> {
  const differences: string[] = [];
  for (const { table, from, to } of lanes) {
    if (differences.length === NAMED_MAX) break;
    host.signal.throwIfAborted();
    const difference = await differenceOf(await host.shard(from), await host.shard(to), table);
    if (difference === null) continue;
    differences.push(`rows of ${table.table} cannot go from ${from} to ${to}: ${difference}`);
  }
  return differences;
}

async function differenceOf(
  source: Shard,
  target: Shard,
  policy: TablePolicy,
): Promise<string | null> {
  try {
    return schemaDifference(await source.describe([policy]), await target.describe([policy]));
  } catch (error) {
    if (error instanceof PawlError && error.code === "TABLE_UNFIT") {
      return error.message.replace(/\.$/, "");
    }
    throw error;
  }
}

function placeText(shard: string, table: string): string {
  return `${shard}\n${table}`;
}

function noteOf(misplaced: NonNullable<MoveReport["misplaced"]>): string {
  const named = misplaced
    .slice(0, NAMED_MAX)
    .map(({ shard, table, rows }) => `${rows} of ${table} on ${shard}`);
  const more = misplaced.length - named.length;
  return `rows are where they do not belong: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Rows of excluded segments that are still where they came from, by shard and table. */
async function exceptedRows(
  { excluded }: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { shard: name, table: policy, scope, ranges } of excluded) {
    const shard = await host.shard(name);
    const [table] = await shard.describe([policy]);
    for (const { lower, upper } of ranges) {
      host.signal.throwIfAborted();
      const shape = present(table, "the table was described");
      const { rows } = await shard.digest({ table: shape, scope, from: lower, below: upper });
      const place = placeText(name, policy.table);
      counts.set(place, (counts.get(place) ?? 0) + rows);
    }
  }
  return counts;
}
