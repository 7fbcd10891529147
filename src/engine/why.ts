import { PawlError } from "../kernel/errors.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type { Story, StoryReader, WorkKind } from "../work/kind.ts";
import { KINDS, kindOf } from "../work/kinds.ts";
import { reporterIn } from "../work/asset/fold-partitions.ts";
import { loadPartitions } from "../work/asset/partition-blocks.ts";
import type { RunRow } from "../work/run/rows.ts";
import { eventsAbout, isAboutTasks, runById, runEvents, tasksFor } from "../work/run/story.ts";
import type { Reader } from "../store/store.ts";
import { eventPages } from "./ledger/refold.ts";

/**
 * The events that led to an entity's present state, oldest first. An entity is a backfill id, a
 * chunk id (`<backfill>:<index>`), a run id, a tick id, an evaluation id, a segment id
 * (`<sync>:<index>` or `<move>:<index>`), a partition (`<asset>@<key>`), a schedule, a sensor, a
 * sync, a split or a move.
 */
export async function whyChain(ledger: Reader, entity: string): Promise<RecordedEvent[]> {
  const reader: StoryReader = {
    load: (table, keys) => ledger.load(table, keys),
    find: (find) => ledger.find(find),
    events: (filter) => ledger.events(filter),
    eventPages: (filter) => eventPages(ledger, filter),
    requestStory: async (id) =>
      (await ofKinds(({ stories }) => stories.request?.(reader, id) ?? null)) ?? [],
  };
  const found =
    (await ofKinds(({ stories }) => stories.byId(reader, entity))) ??
    (await whyRun(reader, entity)) ??
    (await whyPartition(reader, entity)) ??
    (await ofKinds(({ stories }) => stories.byName?.(reader, entity) ?? null));
  if (found !== null) return inOrder(found);
  throw new PawlError(
    "EVENT_NOT_FOUND",
    `Nothing is known of ${JSON.stringify(entity)}. Give a backfill id, a chunk id ` +
      "(<backfill>:<index>), a run id, a tick id, an evaluation id, a segment id (<sync>:<index> " +
      "or <move>:<index>), a partition (<asset>@<key>), a schedule, a sensor, a sync, a split or a " +
      "move.",
    { details: { entity } },
  );
}

/** What the first kind tells that knows of it. */
async function ofKinds(
  tell: (kind: WorkKind) => Promise<Story | null> | null,
): Promise<Story | null> {
  for (const kind of KINDS) {
    const story = await tell(kind);
    if (story !== null) return story;
  }
  return null;
}

function inOrder(events: readonly RecordedEvent[]): RecordedEvent[] {
  const byPos = new Map(events.map((event) => [event.pos, event]));
  return [...byPos.values()].toSorted((a, b) => a.pos - b.pos);
}

async function whyRun(reader: StoryReader, runId: string): Promise<Story | null> {
  const run = await runById(reader, runId);
  if (run === null) return null;
  return [...(await originOf(reader, run)), ...(await eventsAbout(reader, run.run_pos))];
}

/** How a run came to be asked for. */
async function originOf(reader: StoryReader, run: RunRow): Promise<Story> {
  return (await kindOf(run)?.stories.origin(reader, run)) ?? [];
}

async function whyPartition(reader: StoryReader, entity: string): Promise<Story | null> {
  const at = entity.indexOf("@");
  const [assetKey, key] = at < 0 ? [entity, ""] : [entity.slice(0, at), entity.slice(at + 1)];
  const [row] = await loadPartitions(reader, [[assetKey, key]]);
  if (row === undefined) return null;
  const runIds = [row.last_materialization_run_id, row.last_attempt_run_id];
  const events: Story = [];
  for (const runId of new Set(runIds)) {
    if (reporterIn(runId) !== null) {
      const pos = row.last_materialization_pos ?? row.row_version;
      events.push(...(await reader.events({ after: pos - 1, through: pos, limit: 1 })));
      continue;
    }
    const run = runId === null ? null : await runById(reader, runId);
    if (run === null) continue;
    const tasks = await tasksFor(reader, run, assetKey, key);
    const own = await runEvents(reader, run.run_pos, (event) => isAboutTasks(event, tasks));
    events.push(...(await originOf(reader, run)), ...own);
  }
  return events;
}
