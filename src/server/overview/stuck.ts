import {
  type AttentionDocument,
  type AttentionKind,
  AttentionKind as Kinds,
} from "../../work/server-api.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { MOVE_SEGMENTS, MOVES, OPEN_MOVES } from "../../work/move/rows.ts";
import { RUN_ASSETS, RUNS } from "../../work/run/rows.ts";
import { SEGMENTS, SYNCS } from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { because, countedText, OF_A_KIND_MAX, syncName } from "./item.ts";

/** A worker has this long to come for work before it is missed. */
const MISSED_MS = 10_000;

const READY: Condition = { cell: "ready", is: ">", value: 0 };

/** Work that is ready and that no worker with its function has asked for lately. */
export async function missingWorkers(
  reader: Reader,
  claimed: ReadonlySet<string>,
  now: Instant,
): Promise<AttentionDocument[]> {
  const waiting = new Map<string, number>();
  for (const { values, count } of await reader.countBy(
    RUN_ASSETS,
    [READY],
    ["asset_key", "ready"],
  )) {
    const name = String(values["asset_key"]);
    if (claimed.has(name)) continue;
    waiting.set(name, (waiting.get(name) ?? 0) + Number(values["ready"]) * count);
  }
  const items: AttentionDocument[] = [];
  for (const [name, tasks] of [...waiting].slice(0, OF_A_KIND_MAX)) {
    const since = await waitingSince(reader, name);
    if (since === null || since > addMs(now, -MISSED_MS)) continue;
    const wait = tasks === 1 ? "waits" : "wait";
    items.push({
      kind: "worker",
      id: name,
      name,
      what: "stuck",
      since,
      text:
        `${countedText(tasks, "task")} ${wait} for a worker: none with the function of ${name} has polled ` +
        "in the last minute.",
    });
  }
  return items;
}

async function waitingSince(reader: Reader, assetKey: string): Promise<Instant | null> {
  const [first] = await reader.find({
    table: RUN_ASSETS,
    where: [READY, { cell: "asset_key", is: "=", value: assetKey }],
    order: [{ cell: "run_pos" }],
    limit: 1,
  });
  if (first === undefined) return null;
  const [run] = await reader.load(RUNS, [[first.run_pos]]);
  return run?.requested_at ?? null;
}

/** Syncs with quarantined segments, which wait for somebody to decide. */
export async function quarantinedSyncs(reader: Reader): Promise<AttentionDocument[]> {
  const where: Condition[] = [
    { cell: "status", is: "=", value: "QUARANTINED" },
    { cell: "excluded", is: "null" },
  ];
  const groups = await reader.countBy(SEGMENTS, where, ["sync_id"]);
  const counts = new Map(
    groups
      .slice(0, OF_A_KIND_MAX)
      .map(({ values, count }): [string, number] => [String(values["sync_id"]), count]),
  );
  const keys = [...counts.keys()].map((id) => [id]);
  const items: AttentionDocument[] = [];
  for (const sync of await reader.load(SYNCS, keys)) {
    if (sync.state === "REMOVED") continue;
    const [first] = await reader.find({
      table: SEGMENTS,
      where: [{ cell: "sync_id", is: "=", value: sync.sync_id }, ...where],
      order: [{ cell: "from_block" }],
      limit: 1,
    });
    if (first === undefined) continue;
    const error = { class: "", message: first.error_message ?? "" };
    items.push({
      kind: "sync",
      id: sync.sync_id,
      name: syncName(sync),
      what: "stuck",
      since: first.finished_at,
      text:
        `${wereQuarantined(counts.get(sync.sync_id) ?? 1)}, from block ` +
        `${first.from_block.toLocaleString("en")} on${because(error)}`,
    });
  }
  return items;
}

function wereQuarantined(count: number): string {
  return `${countedText(count, "segment")} ${count === 1 ? "was" : "were"} quarantined`;
}

/** Moves with segments that failed too often. */
export async function poisonedMoves(reader: Reader): Promise<AttentionDocument[]> {
  const moves = await reader.find({
    table: MOVES,
    where: [OPEN_MOVES, { cell: "segments_poisoned", is: ">", value: 0 }],
    order: [{ cell: "move_id" }],
    limit: OF_A_KIND_MAX,
  });
  const items: AttentionDocument[] = [];
  for (const move of moves) {
    const [first] = await reader.find({
      table: MOVE_SEGMENTS,
      where: [
        { cell: "move_id", is: "=", value: move.move_id },
        { cell: "state", is: "=", value: "POISONED" },
      ],
      order: [{ cell: "table_order" }, { cell: "segment_index" }],
      limit: 1,
    });
    items.push({
      kind: "move",
      id: move.move_id,
      name: move.name ?? move.move_id,
      what: "stuck",
      since: first?.finished_at ?? move.last_error_at,
      text: `${wereQuarantined(move.segments_poisoned)}${because(first?.error ?? move.last_error)}`,
    });
  }
  return items;
}

/** What Pawl itself could not decide: `poisoned` names each with the reason. */
export async function undecided(
  reader: Reader,
  poisoned: Readonly<Record<string, string>>,
): Promise<AttentionDocument[]> {
  const items: AttentionDocument[] = [];
  for (const [name, reason] of Object.entries(poisoned).slice(0, OF_A_KIND_MAX)) {
    const [kind = "", id = ""] = name.split(" ");
    const parsed = Kinds.safeParse(kind);
    if (!parsed.success) continue;
    const known: AttentionKind = parsed.data;
    items.push({
      kind: known,
      id: known === "run" ? await runIdAt(reader, Number(id)) : id,
      name,
      what: "stuck",
      since: null,
      text: `Pawl could not decide the next step${because({ class: "", message: reason })}`,
    });
  }
  return items;
}

async function runIdAt(reader: Reader, pos: number): Promise<string> {
  const [run] = await reader.load(RUNS, [[pos]]);
  return run?.run_id ?? String(pos);
}
