import type { Key } from "../../kernel/table.ts";
import { entitySubject } from "../keys.ts";
import type {
  ControlledWork,
  KindStories,
  RowReader,
  Story,
  StoryReader,
  WorkKind,
} from "../kind.ts";
import { ROUTING_VERSIONS } from "../routing/rows.ts";
import { EVENTS_MAX, eventAt } from "../run/story.ts";
import { shardStepRuns, stepOf } from "../shard/look-up.ts";
import { advanceSplit, claimedSplit } from "./advance.ts";
import { endSplitAttempt, finishSplitStep, queueSplitStep, startSplitStep } from "./fold.ts";
import { OPEN_SPLITS, SPLITS, type SplitRow } from "./rows.ts";

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

const WORK: ControlledWork<"splits"> = {
  table: "splits",
  advance: advanceSplit,
  weight: 2.5,
  rounds: 8,
  open: [
    { where: [OPEN_SPLITS] },
    {
      where: [{ cell: "remove_after", is: "not null" }],
      order: [{ cell: "remove_after" }, { cell: "split_id" }],
    },
  ],
  page: 10_000,
  due: { cell: "due_at", where: [], order: [{ cell: "due_at" }], limit: 10_000, hasTimer: true },
};

/** Tenants of a shard that go to another while they are written. */
export const SPLIT: WorkKind = {
  name: "split",
  runs: {
    ...shardStepRuns("split", {
      touches: ({ split_id }) => [["splits", [split_id]]],
      queue: queueSplitStep,
      start: startSplitStep,
      endAttempt: endSplitAttempt,
      finish: finishSplitStep,
      claimed: claimedSplit,
    }),
    isEndless(run) {
      const step = stepOf("split", run)?.step;
      return step === "tail" || step === "reverse";
    },
    // While tenants are handed over, writes wait.
    isAwaited(run) {
      const step = stepOf("split", run)?.step;
      return step === "cutover" || step === "cutback";
    },
    // A cutover whose commit record stands is carried out to its end.
    isCommitted(rows, run) {
      const ref = stepOf("split", run);
      return ref !== null && rows.splits.get(ref.split_id)?.committing === 1;
    },
  },
  work: WORK,
  stories: SPLIT_STORIES,
};
