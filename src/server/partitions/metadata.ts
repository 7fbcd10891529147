import { setImmediate as turnOfOthers } from "node:timers/promises";
import { evaluateRows } from "../../engine/commit.ts";
import { numbersIn } from "../../kernel/metadata-value.ts";
import type { Key } from "../../kernel/table.ts";
import type {
  AssetNumbers,
  PartitionNumbers,
  SaidMetadata,
} from "../../work/asset/metadata-api.ts";
import { reporterIn } from "../../work/asset/fold-partitions.ts";
import { partitionAt } from "../../work/asset/partition-blocks.ts";
import {
  metadataAt,
  metadataHistory,
  needMetadata,
  type SaidEarlier,
} from "../../work/asset/partition-metadata.ts";
import { assetView, countOf, keysFrom } from "../../work/asset/partition-status.ts";
import type { Rows } from "../../work/rows.ts";
import { type Call, evaluateAt, type Handlers, readAt, type Reply } from "../http/call.ts";
import { cursorOf, keyOfCursor } from "../http/read-within.ts";
import { placeOfPartition } from "./pages.ts";

/** Characters of metadata after which an answer ends. */
const CHARACTERS_MAX = 1_000_000;

/** Partitions whose metadata is read at once, so that others get their turn in between. */
const READ_AT_ONCE = 100;

/** Names that one answer has numbers of. */
const NAMES_MAX = 50;

async function listPartitionMetadata(call: Call<"listPartitionMetadata">): Promise<Reply> {
  const { asset_key } = call.params;
  const { partition, limit, cursor } = call.query;
  const before = cursor === undefined ? null : Number(keyOfCursor(cursor, ["int"])[0]);
  const { result, pos } = await evaluateAt(call, (rows, context) => {
    const key = partition ?? "";
    // What is known of a partition outlives its place in the definition.
    const view = assetView(rows, asset_key, context);
    const isKnown = partition !== undefined && partitionAt(rows, asset_key, key) !== null;
    if (!isKnown) placeOfPartition(rows, view, partition);
    const bounds = { before, limit, charactersMax: CHARACTERS_MAX };
    return metadataHistory(rows, asset_key, key, bounds);
  });
  const { items, isEnd } = result;
  const last = items.at(-1);
  const next_cursor = isEnd || last === undefined ? null : cursorOf([last.number]);
  return { answer: { items: items.map(documentOf), next_cursor, pos }, pos };
}

function documentOf({ at, pos, run_id, code_version, metadata }: SaidEarlier): SaidMetadata {
  const reported_by = reporterIn(run_id);
  return {
    materialized_at: at,
    pos,
    run_id: reported_by === null ? run_id : null,
    reported_by,
    code_version,
    metadata,
  };
}

async function listPartitionNumbers(call: Call<"listPartitionNumbers">): Promise<Reply> {
  const { asset_key } = call.params;
  const { limit, names: only } = call.query;
  const now = await call.server.store.now();
  const answer = await readAt(call, async (reader): Promise<AssetNumbers> => {
    const total = await evaluateRows(reader, (rows) =>
      countOf(assetView(rows, asset_key, { now })),
    );
    const from = Math.min(total, call.query.from ?? Math.max(0, total - limit));
    const end = Math.min(total, from + limit);
    const found = new FoundNumbers(only);
    let through = from;
    while (through < end && found.characters < CHARACTERS_MAX) {
      const count = Math.min(READ_AT_ONCE, end - through);
      const start = through;
      const said = await evaluateRows(reader, (rows) =>
        saidFrom(rows, asset_key, { from: start, count }, now),
      );
      for (const each of said) found.add(each);
      through += count;
      await turnOfOthers();
    }
    const { pos } = await reader.head();
    return { asset_key, total, from, through, names: found.names(), items: found.items, pos };
  });
  return { answer, pos: answer.pos };
}

type SaidLast = Omit<PartitionNumbers, "numbers"> & { metadata: SaidMetadata["metadata"] };

/** What the last materializations of neighbouring partitions said, of those that said anything. */
function saidFrom(
  rows: Rows,
  assetKey: string,
  { from, count }: { from: number; count: number },
  now: SaidMetadata["materialized_at"],
): SaidLast[] {
  const keys = keysFrom(assetView(rows, assetKey, { now }), from, count);
  needMetadata(
    rows,
    keys.map((key): Key => [assetKey, key]),
  );
  return keys.flatMap((key, at): SaidLast[] => {
    const row = partitionAt(rows, assetKey, key);
    const metadata = metadataAt(rows, assetKey, key);
    const materialized_at = row?.last_materialization_at ?? null;
    const pos = row?.last_materialization_pos ?? null;
    if (metadata === null || materialized_at === null || pos === null) return [];
    return [{ partition_key: key, ordinal: from + at, materialized_at, pos, metadata }];
  });
}

/** Numbers as they are found, within the names that an answer has room for. */
class FoundNumbers {
  readonly items: PartitionNumbers[] = [];
  characters = 0;
  readonly #only: readonly string[] | undefined;
  readonly #units = new Map<string, string | null>();

  constructor(only: readonly string[] | undefined) {
    this.#only = only;
  }

  add({ metadata, ...of }: SaidLast): void {
    this.characters += JSON.stringify(metadata).length;
    const numbers: [string, number][] = [];
    for (const { name, value, unit } of numbersIn(metadata)) {
      if (this.#only !== undefined && !this.#only.includes(name)) continue;
      if (!this.#units.has(name) && this.#units.size === NAMES_MAX) continue;
      this.#units.set(name, unit ?? null);
      numbers.push([name, value]);
    }
    if (numbers.length > 0) this.items.push({ ...of, numbers: Object.fromEntries(numbers) });
  }

  names(): AssetNumbers["names"] {
    return [...this.#units].map(([name, unit]) => ({ name, unit }));
  }
}

/** What can be asked about metadata over time and over partitions. */
export const METADATA_HANDLERS = {
  listPartitionMetadata,
  listPartitionNumbers,
} satisfies Handlers;
