import type { Client } from "../../client/client.ts";
import type { RunDocument } from "../../work/run/api.ts";
import { shortId } from "../base/terminal.ts";
import { StaleReason, type StaleReasons } from "../../kernel/keyspace/selector.ts";

/** Who or what asked for a run. */
export type TriggerSource = RunDocument["trigger_source_ref"];

/** Names of schedules and sensors by their ids, as far as they are known. */
export type Names = ReadonlyMap<string, string>;

/** The names of what asked for runs by itself; nothing is asked of the server without any. */
export async function namesBehind(
  client: Client,
  sources: readonly TriggerSource[],
): Promise<Names> {
  const names = new Map<string, string>();
  if (sources.some(({ type }) => type === "schedule")) {
    const query = { status: "ACTIVE,PAUSED,DELETED", limit: 200 };
    const { items } = await client.call("listSchedules", { query });
    for (const { schedule_id, name } of items) names.set(schedule_id, name);
  }
  if (sources.some(({ type }) => type === "sensor")) {
    const query = { status: "ACTIVE,PAUSED,ERROR,DELETED", limit: 200 };
    const { items } = await client.call("listSensors", { query });
    for (const { sensor_id, name } of items) names.set(sensor_id, name);
  }
  return names;
}

/** Who or what asked for a run, in a few words. */
export function triggerText(source: TriggerSource, names: Names): string {
  switch (source.type) {
    case "backfill":
      return `backfill ${shortId(source.backfill_id)}:${source.chunk_id.split(":").at(-1)}`;
    case "schedule":
      return `schedule ${names.get(source.schedule_id) ?? shortId(source.schedule_id)}`;
    case "sensor":
      return `sensor ${names.get(source.sensor_id) ?? shortId(source.sensor_id)}`;
    case "sync":
      return `sync ${shortId(source.sync_id)}:${source.segment_index}`;
    case "shards":
      return source.work.work === "split"
        ? `split ${shortId(source.work.split_id)}`
        : `move ${shortId(source.work.move_id)}`;
    case "manual":
      return source.user_id;
  }
}

/** The same with the tick or the request that it was. */
export function triggerDetail(source: TriggerSource, names: Names): string {
  const text = triggerText(source, names);
  switch (source.type) {
    case "backfill":
      return `backfill ${source.backfill_id}, chunk ${source.chunk_id.split(":").at(-1)}`;
    case "schedule":
      return `${text}, tick ${source.tick_id}`;
    case "sensor":
      return `${text}, evaluation ${source.eval_id}`;
    case "sync":
      return `sync ${source.sync_id}, segment ${source.segment_index}, ${source.purpose}`;
    case "shards":
      return source.work.work === "split"
        ? `split ${source.work.split_id}, step ${source.work.n}, ${source.work.step}`
        : `move ${source.work.move_id}, ${source.work.step} ${source.work.index ?? ""}`.trimEnd();
    case "manual":
      return `${text}, request ${source.request_id}`;
  }
}

/** How many partitions are stale, for whatever reason. */
export function staleCount(reasons: StaleReasons | null): number {
  return reasons === null ? 0 : StaleReason.options.reduce((sum, each) => sum + reasons[each], 0);
}

/**
 * Says for which reasons how many partitions are stale. Of those that were never materialized, the
 * ones that failed are called that where it is known, as wherever they are counted.
 */
export function staleReasonsText(reasons: StaleReasons, failed = 0): string {
  const parts = StaleReason.options.flatMap((reason): [number, string][] =>
    reason === "NEVER_MATERIALIZED"
      ? [
          [reasons[reason] - failed, wordsOf(reason)],
          [failed, "failed"],
        ]
      : [[reasons[reason], wordsOf(reason)]],
  );
  const texts = parts.filter(([count]) => count > 0).map(([count, text]) => `${count} ${text}`);
  return texts.length === 0 ? "none" : texts.join(", ");
}

/** A reason as a person says it. */
function wordsOf(reason: StaleReason): string {
  return reason === "FRESHNESS_POLICY" ? "out of date" : reason.toLowerCase().replaceAll("_", " ");
}
