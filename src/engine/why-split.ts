import type { RecordedEvent } from "../core/events/envelope.ts";
import { entitySubject } from "../core/fold/entity-subject.ts";
import type { RoutingVersionRow } from "../core/rows/routing-rows.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import type { Key } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

const EVENTS_MAX = 10_000;

/** The split with this id; null when there is none. */
export async function splitAt(reader: Reader, splitId: string): Promise<SplitRow | null> {
  return ((await reader.load(TABLES.splits, [[splitId]])) as SplitRow[])[0] ?? null;
}

/** How a split came to where it stands: its plan, phases, wishes, steps and commit records. */
export async function splitStory(reader: Reader, split: SplitRow): Promise<RecordedEvent[]> {
  const { split_id, created_pos } = split;
  const own = await reader.events({
    after: created_pos - 1,
    subjects: [entitySubject(split_id)],
    limit: EVENTS_MAX,
  });
  const planned = await reader.events({ after: created_pos - 1, through: created_pos, limit: 1 });
  return [...planned, ...own, ...(await routingOf(reader, split))];
}

/** The changes of the routing that were its commit records. */
async function routingOf(reader: Reader, split: SplitRow): Promise<RecordedEvent[]> {
  const versions = [split.routing_version_cutover, split.routing_version_rollback];
  const keys = versions.flatMap((version): Key[] => (version === null ? [] : [[version]]));
  if (keys.length === 0) return [];
  const rows = (await reader.load(TABLES.routingVersions, keys)) as RoutingVersionRow[];
  const events: RecordedEvent[] = [];
  for (const { row_version: pos } of rows) {
    events.push(...(await reader.events({ after: pos - 1, through: pos, limit: 1 })));
  }
  return events;
}
