import type { Key } from "../../kernel/table.ts";
import { entitySubject } from "../keys.ts";
import type { KindStories, RowReader, Story, StoryReader } from "../kind.ts";
import { ROUTING_VERSIONS } from "../routing/rows.ts";
import { EVENTS_MAX, eventAt } from "../run/story.ts";
import { stepOf } from "../shard/step-runs.ts";
import { type SplitRow, SPLITS } from "./rows.ts";

/** The split with this id; null when there is none. */
export async function splitAt(reader: RowReader, splitId: string): Promise<SplitRow | null> {
  return (await reader.load(SPLITS, [[splitId]]))[0] ?? null;
}

/** How a split came to where it stands: its plan, phases, wishes, steps and commit records. */
async function splitStory(reader: StoryReader, split: SplitRow): Promise<Story> {
  const { split_id, created_pos } = split;
  const own = await reader.events({
    after: created_pos - 1,
    subjects: [entitySubject(split_id)],
    limit: EVENTS_MAX,
  });
  const planned = await eventAt(reader, created_pos);
  return [...planned, ...own, ...(await routingOf(reader, split))];
}

/** The changes of the routing that were its commit records. */
async function routingOf(reader: StoryReader, split: SplitRow): Promise<Story> {
  const versions = [split.routing_version_cutover, split.routing_version_rollback];
  const keys = versions.flatMap((version): Key[] => (version === null ? [] : [[version]]));
  if (keys.length === 0) return [];
  const rows = await reader.load(ROUTING_VERSIONS, keys);
  const events: Story = [];
  for (const { row_version: pos } of rows) {
    events.push(...(await eventAt(reader, pos)));
  }
  return events;
}

async function byId(reader: StoryReader, id: string): Promise<Story | null> {
  const split = await splitAt(reader, id);
  return split === null ? null : splitStory(reader, split);
}

/** Stories of splits. */
export const SPLIT_STORIES: KindStories = {
  byId,
  origin: async (reader, run) => (await byId(reader, stepOf("split", run)?.split_id ?? "")) ?? [],
};
