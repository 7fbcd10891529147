import type { EventDocument } from "../../../../src/work/server-api.ts";
import { clippedText } from "../../parts/visible-text.ts";

/** Something that an event names, and where it is shown. */
export type EventLink = { kind: string; id: string; text: string; href: string };

/** Links of one event; one that names hundreds of things leads to the first of them. */
const LINKS_MAX = 12;
const NAMES_MAX = 3;

type Fields = Readonly<Record<string, unknown>>;

/** What an event is about, with links to it. */
export function eventLinks({ data }: Pick<EventDocument, "data">): EventLink[] {
  const found = new Map<string, EventLink>();
  collect(fieldsOf(data), (link) => {
    const known = found.get(`${link.kind} ${link.id}`);
    if (known === undefined) found.set(`${link.kind} ${link.id}`, link);
  });
  return [...found.values()].slice(0, LINKS_MAX);
}

/** The page of an entity, if one of these events names it. */
export function entityLink(events: readonly EventDocument[], entity: string): EventLink | null {
  for (const event of events) {
    const link = eventLinks(event).find(({ id }) => id === entity);
    if (link !== undefined) return link;
  }
  return null;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

type Add = (link: EventLink) => void;

function collect(data: Fields, add: Add): void {
  collectParts(data, add);
  collectWholes(data, add);
  collectAssets(data, add);
  for (const name of ["trigger_source_ref", "segment", "shard_work", "work"]) {
    if (data[name] !== undefined) collect(fieldsOf(data[name]), add);
  }
  for (const name of ["syncs", "run_requests"]) {
    for (const item of listOf(data[name]).slice(0, NAMES_MAX)) collectWholes(fieldsOf(item), add);
  }
}

/** Things with an id and a page of their own. */
function collectWholes(data: Fields, add: Add): void {
  for (const kind of ["backfill", "run", "schedule", "sensor", "sync", "split", "move"]) {
    const id = data[`${kind}_id`];
    if (typeof id === "string") {
      // The id of a run says itself what it is.
      const text = id.startsWith(`${kind}_`) ? shortId(id) : `${kind} ${shortId(id)}`;
      add({ kind, id, text, href: `/${kind}s/${encodeURIComponent(id)}` });
    }
  }
}

/** Parts of such things: chunks, ticks, evaluations, segments. */
function collectParts(data: Fields, add: Add): void {
  const { backfill_id, chunk_index, schedule_id, tick_id, sensor_id, eval_id } = data;
  if (typeof backfill_id === "string" && typeof chunk_index === "number") {
    const href = `/backfills/${encodeURIComponent(backfill_id)}?chunk=${chunk_index}`;
    const id = `${backfill_id}:${chunk_index}`;
    add({ kind: "chunk", id, text: `chunk ${chunk_index}`, href });
  }
  if (typeof schedule_id === "string" && typeof tick_id === "string") {
    const href = `/schedules/${encodeURIComponent(schedule_id)}?tick=${encodeURIComponent(tick_id)}`;
    add({ kind: "tick", id: tick_id, text: "tick", href });
  }
  if (typeof sensor_id === "string" && typeof eval_id === "string") {
    const href = `/sensors/${encodeURIComponent(sensor_id)}?eval=${encodeURIComponent(eval_id)}`;
    add({ kind: "evaluation", id: eval_id, text: "evaluation", href });
  }
  for (const kind of ["sync", "move"]) {
    const id = data[`${kind}_id`];
    const index = data["segment_index"];
    if (typeof id === "string" && typeof index === "number") {
      const href = `/${kind}s/${encodeURIComponent(id)}?segment=${index}`;
      add({ kind: "segment", id: `${id}:${index}`, text: `segment ${index}`, href });
    }
  }
}

/** Assets and partitions; runs of syncs and of work on shards have names there that are no assets. */
function collectAssets(data: Fields, add: Add): void {
  const { type } = fieldsOf(data["trigger_source_ref"]);
  if ((type === "sync" || type === "shards" || data["segment"]) ?? data["shard_work"]) return;
  const assets = listOf(data["asset_selection"]).slice(0, NAMES_MAX);
  const keys = listOf(data["partition_selection"]).slice(0, NAMES_MAX);
  for (const asset of assets) {
    if (typeof asset !== "string") continue;
    add({ kind: "asset", id: asset, text: shortName(asset), href: assetHref(asset) });
    for (const key of keys) if (typeof key === "string") add(partitionLink(asset, key));
  }
  const results = [...listOf(data["results"]), data["result"]].slice(0, NAMES_MAX);
  for (const result of results) {
    const { asset_key, partition_keys } = fieldsOf(result);
    if (typeof asset_key !== "string") continue;
    for (const key of listOf(partition_keys).slice(0, NAMES_MAX)) {
      if (typeof key === "string") add(partitionLink(asset_key, key));
    }
  }
}

function assetHref(asset: string): string {
  return `/assets/${encodeURIComponent(asset)}`;
}

function partitionLink(asset: string, key: string): EventLink {
  if (key === "") {
    return { kind: "asset", id: asset, text: shortName(asset), href: assetHref(asset) };
  }
  const href = `${assetHref(asset)}?partition=${encodeURIComponent(key)}`;
  const text = `${shortName(asset)} ${shortName(key)}`;
  return { kind: "partition", id: `${asset}@${key}`, text, href };
}

function shortName(name: string): string {
  return clippedText(name, 40);
}

function shortId(id: string): string {
  return id.length > 14 ? `${id.slice(0, 5)}…${id.slice(-6)}` : id;
}

/** Where the events of something are. */
export function historyHref(entity: string): string {
  return `/ledger/${encodeURIComponent(entity)}`;
}

/** Where it is told how something came to where it stands. */
export function whyHref(entity: string): string {
  return `${historyHref(entity)}?view=why`;
}
