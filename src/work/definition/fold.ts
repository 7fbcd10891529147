import { assert, present } from "../../kernel/errors.ts";
import { countIntervals, mergeIntervals, subtractIntervals } from "../../kernel/intervals.ts";
import type { EventData } from "../events.ts";
import type { Rows } from "../rows.ts";
import type { Folding, Recorded, Touch } from "../fold.ts";
import { noteMade } from "../requires/note-made.ts";
import { EVERY } from "../requires/rows.ts";
import { publishSchedule, removeSchedule } from "../schedule/fold.ts";
import { publishSensor, publishWebhook, removeSensor, removeWebhook } from "../sensor/fold.ts";

/** Where the state of what acts by itself is kept. */
const ENTITY_TABLES = { schedule: "schedules", sensor: "sensors", webhook: "webhooks" } as const;

function touchesOfEntity(kind: string, id: string | undefined): Touch[] {
  if (id === undefined) return [];
  return [[ENTITY_TABLES[kind as keyof typeof ENTITY_TABLES], [id]]];
}

/** What an asset requires, and what is required of it, may be another thing from now on. */
function touchesOfWaits(kind: string, name: string): Touch[] {
  return kind === "asset" ? [["awaitedAssets", [name]]] : [];
}

type Entry = EventData<"DefinitionsPublished">["specs"][number];

function publishEntity(rows: Rows, entry: Entry, event: Recorded<"DefinitionsPublished">): void {
  const { body } = entry;
  if (body.kind === "schedule") publishSchedule(rows, entry, body, event);
  if (body.kind === "sensor") publishSensor(rows, entry, body, event);
  if (body.kind === "webhook") publishWebhook(rows, entry, body, event);
}

function removeEntity(rows: Rows, kind: string, id: string | undefined, pos: number): void {
  if (id === undefined) return;
  if (kind === "schedule") removeSchedule(rows, id, pos);
  if (kind === "sensor") removeSensor(rows, id, pos);
  if (kind === "webhook") removeWebhook(rows, id, pos);
}

const definitionsPublished: Folding<"DefinitionsPublished"> = {
  subject: () => 0,
  touches: ({ specs, removed }) => [
    ["workspace", ["workspace"]],
    ...specs.flatMap(({ spec_hash, name, body, entity }) => [
      ["specs", [spec_hash]] as const,
      ["definitions", [body.kind, name]] as const,
      ...touchesOfEntity(body.kind, entity?.id),
      ...touchesOfWaits(body.kind, name),
    ]),
    ...removed.flatMap(({ kind, name, id }) => [
      ["definitions", [kind, name]] as const,
      ...touchesOfEntity(kind, id),
      ...touchesOfWaits(kind, name),
    ]),
  ],
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const version = rows.workspace.get("workspace")?.definition_version ?? 0;
    assert(data.definition_version === version + 1, "definition versions grow by one");
    rows.workspace.put({
      id: "workspace",
      definition_version: data.definition_version,
      row_version: pos,
    });
    for (const entry of data.specs) {
      const { spec_hash, name, body, entity } = entry;
      if (rows.specs.get(spec_hash) === null) {
        rows.specs.put({ spec_hash, kind: body.kind, name, body });
      }
      const before = rows.definitions.get(body.kind, name);
      const code_version = body.kind === "asset" ? body.code_version : null;
      const sameCode = before !== null && before.code_version === code_version;
      rows.definitions.put({
        kind: body.kind,
        name,
        spec_hash,
        origin: data.origin,
        definition_version: data.definition_version,
        published_at: occurred_at,
        code_version,
        code_version_at: sameCode ? before.code_version_at : occurred_at,
        entity_id: entity?.id ?? null,
        row_version: pos,
      });
      publishEntity(rows, entry, event);
      if (body.kind === "asset") noteMade(rows, name, EVERY, pos);
    }
    for (const { kind, name, id } of data.removed) {
      assert(rows.definitions.get(kind, name) !== null, "only what is defined can be removed");
      rows.definitions.delete(kind, name);
      removeEntity(rows, kind, id, pos);
      if (kind === "asset") noteMade(rows, name, EVERY, pos);
    }
  },
};

const partitionKeysAdded: Folding<"PartitionKeysAdded"> = {
  subject: () => 0,
  touches: ({ definition }) => [["dynamicDefinitions", [definition]]],
  apply(rows, { data, pos, occurred_at }) {
    const { definition, keys, first_ordinal } = data;
    const before = rows.dynamicDefinitions.get(definition);
    const count = before?.key_count ?? 0;
    assert(first_ordinal === count, "dynamic keys get the next ordinals");
    for (const [offset, partition_key] of keys.entries()) {
      const ordinal = first_ordinal + offset;
      rows.dynamicKeys.insert({ definition, ordinal, partition_key, added_at: occurred_at });
    }
    const removed = before?.removed ?? null;
    const key_count = count + keys.length;
    rows.dynamicDefinitions.put({ definition, key_count, removed, row_version: pos });
  },
};

const partitionKeysRemoved: Folding<"PartitionKeysRemoved"> = {
  // Found by where it stands: answers are forgotten, and then a request may come again by its name.
  subject: (_data, pos) => pos,
  touches: ({ definition }) => [["dynamicDefinitions", [definition]]],
  apply(rows, { data, pos }) {
    const { definition, numbers, keys } = data;
    const row = present(rows.dynamicDefinitions.get(definition), "only keys that are there go");
    const before = row.removed ?? [];
    const removed = mergeIntervals([...before, ...numbers]);
    assert((numbers.at(-1)?.[1] ?? 0) < row.key_count, "only numbers that were given are removed");
    assert(
      countIntervals(removed) === countIntervals(before) + keys.length &&
        countIntervals(numbers) === keys.length,
      "a key is removed once",
    );
    rows.dynamicDefinitions.put({ ...row, removed, row_version: pos });
  },
};

const partitionKeysRestored: Folding<"PartitionKeysRestored"> = {
  // As a removal.
  subject: (_data, pos) => pos,
  touches: ({ definition }) => [["dynamicDefinitions", [definition]]],
  apply(rows, { data, pos }) {
    const { definition, numbers, keys } = data;
    const row = present(rows.dynamicDefinitions.get(definition), "only removed keys come back");
    const before = row.removed ?? [];
    const removed = subtractIntervals(before, numbers);
    assert(
      countIntervals(removed) === countIntervals(before) - keys.length &&
        countIntervals(numbers) === keys.length,
      "only removed keys come back",
    );
    const left = removed.length === 0 ? null : removed;
    rows.dynamicDefinitions.put({ ...row, removed: left, row_version: pos });
  },
};

/** The foldings of definitions. */
export const DEFINITION_FOLDS = {
  DefinitionsPublished: definitionsPublished,
  PartitionKeysAdded: partitionKeysAdded,
  PartitionKeysRemoved: partitionKeysRemoved,
  PartitionKeysRestored: partitionKeysRestored,
};
