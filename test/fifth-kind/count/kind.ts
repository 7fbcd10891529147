import { judgedCommands } from "../command.ts";
import { entitySubject } from "../keys.ts";
import type { ControlledWork, KindStories, KindSurface, StoryReader, WorkKind } from "../kind.ts";
import { EVENTS_MAX } from "../run/story.ts";
import { workOfRun } from "../run/tasks.ts";
import { partRuns } from "../step-runs.ts";
import { advanceCount } from "./advance.ts";
import { COUNT_COMMANDS, COUNT_RULES, CountInput, makeCount } from "./commands.ts";
import { COUNT_EVENTS } from "./events.ts";
import { COUNT_FOLDS, COUNT_STEPS } from "./fold.ts";
import { type CountRow, COUNTS } from "./rows.ts";

const WORK: ControlledWork<"counts"> = {
  table: "counts",
  advance: advanceCount,
  weight: 1,
  rounds: 4,
  open: [{ where: [{ cell: "state", is: "in", values: ["RUNNING", "CANCELLED"] }] }],
  page: 1_000,
};

async function storyOf(reader: StoryReader, id: string) {
  const [row] = await reader.load(COUNTS, [[id]]);
  if (row === undefined) return null;
  const subjects = [entitySubject(id)];
  return reader.events({ after: row.created_pos - 1, subjects, limit: EVENTS_MAX });
}

const STORIES: KindStories = {
  byId: storyOf,
  origin: async (reader, run) => (await storyOf(reader, workOfRun(run)?.id ?? "")) ?? [],
};

const SURFACE: KindSurface = {
  about: "count to a number, in chunks",
  states: {
    RUNNING: "goes on",
    PAUSED: "waits",
    FAILED: "waits",
    COMPLETE: "ended well",
    CANCELLED: "ended",
  },
  input: CountInput,
  create: (input) => makeCount(CountInput.parse(input)),
  commands: COUNT_COMMANDS,
  judged: (row: CountRow) => judgedCommands(COUNT_RULES, row.state, row),
  progress: ({ counted, failed, to, chunk_size }: CountRow) => ({
    done: counted,
    failed: failed.length * chunk_size,
    total: to,
    unit: "numbers",
  }),
  details: ({ asset_key, chunk_size, failed }: CountRow) => ({
    asset: asset_key,
    chunk_size,
    failed_chunks: failed,
  }),
};

/** Counts to a number, in chunks, each a run of an asset. */
export const COUNT: WorkKind = {
  name: "count",
  runs: partRuns("count", COUNT_STEPS),
  work: WORK,
  stories: STORIES,
  parts: { tables: { counts: COUNTS }, events: COUNT_EVENTS, folds: COUNT_FOLDS },
  surface: SURFACE,
};
