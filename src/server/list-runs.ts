import { setImmediate as nextTurn } from "node:timers/promises";
import { type RunRow, RUNS, type TriggerSource } from "../core/rows/run-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { type Call, readAt, type Reply } from "./call.ts";
import { cursorOf, keyOfCursor } from "./cursor.ts";
import { listRows, withinTime } from "./list-rows.ts";

/** Runs that one page looks through for those of an asset or a trigger. */
const LOOKS_MAX = 5_000;

/** Runs that are read between two turns of the process. */
const PAGE_LOOKS = 500;

type Query = Call<"listRuns">["query"];

/** What asked for a run, in the word of the filter. */
export function triggerOf(source: TriggerSource): NonNullable<Query["trigger"]>[number] {
  return source.type === "shards" ? source.work.work : source.type;
}

/** A page of runs, newest first; a short one may still have a next when it was filtered. */
export function listRuns(call: Call<"listRuns">): Promise<Reply> {
  const where = conditionsOf(call.query);
  if (call.query.asset === undefined && call.query.trigger === undefined) {
    const list = { table: RUNS, where, along: ["run_pos"], descending: true } as const;
    return listRows(call, list, (rows) => rows);
  }
  return readAt(call, async (reader) => {
    const { items, next } = await lookThrough(reader, where, call.query);
    const { pos } = await reader.head();
    const next_cursor = next === null ? null : cursorOf([next]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

function conditionsOf({ status, backfill_id, trigger, since, until }: Query): Condition[] {
  const where = withinTime("requested_at", { since, until });
  if (status !== undefined) where.push({ cell: "state", is: "in", values: status });
  if (backfill_id !== undefined) where.push({ cell: "backfill_id", is: "=", value: backfill_id });
  // Most runs are those of backfills: who looks for others need not read them.
  if (trigger !== undefined && !trigger.includes("backfill")) {
    where.push({ cell: "backfill_id", is: "null" });
  }
  return where;
}

/** Assets and triggers are in the documents of runs only, so they are looked for among the rest. */
async function lookThrough(
  reader: Reader,
  where: readonly Condition[],
  query: Query,
): Promise<{ items: RunRow[]; next: number | null }> {
  const { limit, cursor } = query;
  const order = [{ cell: "run_pos", descending: true }];
  const items: RunRow[] = [];
  let before = cursor === undefined ? null : Number(keyOfCursor(cursor, ["int"])[0]);
  for (let looked = 0; looked < LOOKS_MAX; looked += PAGE_LOOKS) {
    const from: Condition[] = before === null ? [] : [{ cell: "run_pos", is: "<", value: before }];
    const find = { table: RUNS, where: [...where, ...from], order, limit: PAGE_LOOKS };
    const found = (await reader.find(find)) as RunRow[];
    for (const run of found) {
      before = run.run_pos;
      if (matches(run, query)) items.push(run);
      if (items.length === limit) return { items, next: before };
    }
    if (found.length < PAGE_LOOKS) return { items, next: null };
    await nextTurn();
  }
  return { items, next: before };
}

function matches(run: RunRow, { asset, trigger }: Query): boolean {
  if (trigger !== undefined && !trigger.includes(triggerOf(run.trigger_source_ref))) return false;
  return asset === undefined || run.asset_selection.includes(asset);
}
