import { setImmediate as nextTurn } from "node:timers/promises";
import { type RunRow, RUNS, type TriggerSource } from "../core/rows/run-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { type Call, readAt, type Reply } from "./call.ts";
import { cursorOf, keyOfCursor } from "./cursor.ts";
import { listRows, withinTime } from "./list-rows.ts";
import { PAGE_LENGTH_MAX } from "./read-within.ts";

/** Runs whose documents one page looks through for those of an asset or a trigger. */
const LOOKS_MAX = 10_000;

/** Runs that are read, and positions that are searched, between two turns of the process. */
const PAGE_LOOKS = 100;
const PAGE_POSITIONS = 100_000;

type Query = Call<"listRuns">["query"];

/** What asked for a run, in the word of the filter. */
export function triggerOf(source: TriggerSource): NonNullable<Query["trigger"]>[number] {
  return source.type === "shards" ? source.work.work : source.type;
}

/** A page of runs, newest first; one by asset or trigger may be short and still have a next. */
export function listRuns(call: Call<"listRuns">): Promise<Reply> {
  const where = conditionsOf(call.query);
  if (hasIndex(call.query)) {
    const list = { table: RUNS, where, along: ["run_pos"], descending: true } as const;
    return listRows(call, list, (rows) => rows);
  }
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const { items, next } = await lookThrough(reader, where, call, pos);
    const next_cursor = next === null ? null : cursorOf([next]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

/** All runs in order, and those that have not ended, are found without reading others. */
function hasIndex({ status, backfill_id, asset, trigger, since, until }: Query): boolean {
  const others = [backfill_id, asset, trigger, since, until];
  const isOpen = status?.every((state) => state === "PENDING" || state === "RUNNING") ?? true;
  return isOpen && others.every((filter) => filter === undefined);
}

function conditionsOf({ status, backfill_id, trigger, since, until }: Query): Condition[] {
  const where = withinTime("requested_at", { since, until });
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  if (backfill_id !== undefined) where.push({ cell: "backfill_id", is: "=", value: backfill_id });
  // Most runs are those of backfills: who looks for others need not have them parsed.
  if (trigger !== undefined && !trigger.includes("backfill")) {
    where.push({ cell: "backfill_id", is: "null" });
  }
  return where;
}

/**
 * Looks for runs among all, a stretch of the ledger at a time, so that others are served meanwhile.
 * Assets and triggers are in the documents only, so that reading them is what a page may do least of.
 */
async function lookThrough(
  reader: Reader,
  where: readonly Condition[],
  { query, signal }: Pick<Call<"listRuns">, "query" | "signal">,
  head: number,
): Promise<{ items: RunRow[]; next: number | null }> {
  const { limit, cursor } = query;
  const order = [{ cell: "run_pos", descending: true }];
  const items: RunRow[] = [];
  const place = cursor === undefined ? head + 1 : Number(keyOfCursor(cursor, ["int"])[0]);
  // There is nothing to look through beyond the head, however far a cursor claims to be.
  let before = Math.min(place, head + 1);
  let length = 0;
  for (let looked = 0; before > 0 && !signal().aborted; ) {
    const from = Math.max(0, before - PAGE_POSITIONS);
    const within: Condition[] = [
      { cell: "run_pos", is: "<", value: before },
      { cell: "run_pos", is: ">=", value: from },
    ];
    const find = { table: RUNS, where: [...where, ...within], order, limit: PAGE_LOOKS };
    const found = (await reader.find(find)) as RunRow[];
    for (const run of found) {
      if (!matches(run, query)) continue;
      length += JSON.stringify(run).length;
      const isFull = items.length === limit || (items.length > 0 && length > PAGE_LENGTH_MAX);
      if (isFull) return { items, next: items.at(-1)?.run_pos ?? null };
      items.push(run);
    }
    before = found.length < PAGE_LOOKS ? from : (found.at(-1)?.run_pos ?? from);
    looked += found.length;
    if (looked >= LOOKS_MAX) return { items, next: before };
    await nextTurn();
  }
  return { items, next: null };
}

function matches(run: RunRow, { asset, trigger }: Query): boolean {
  if (trigger !== undefined && !trigger.includes(triggerOf(run.trigger_source_ref))) return false;
  return asset === undefined || run.asset_selection.includes(asset);
}
