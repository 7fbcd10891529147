import type { RecordedEvent } from "../envelope.ts";
import type { EventData } from "../events.ts";
import { entitySubject } from "../keys.ts";
import type {
  ControlledWork,
  KindStories,
  RowReader,
  Story,
  StoryReader,
  WorkKind,
} from "../kind.ts";
import { EVENTS_MAX, eventsOfRun } from "../run/story.ts";
import { shardStepRuns, stepOf } from "../shard/look-up.ts";
import { advanceMove } from "./advance.ts";
import {
  endMoveAttempt,
  finishMoveStep,
  queueMoveStep,
  startMoveStep,
  touchesOfMoveStep,
} from "./fold-steps.ts";
import { claimedMove } from "./request.ts";
import { MOVE_SEGMENTS, MOVES, type MoveRow, type MoveSegmentRow, OPEN_MOVES } from "./rows.ts";
import { moveStepEnd } from "./settle.ts";

/** What is told of a move; its segments have stories of their own. */
const TOLD_OF_MOVE = [
  "MovePlanned",
  "MoveStateChanged",
  "MoveRetuned",
  "MoveVerifyRequested",
  "MoveSegmentsPlanned",
];

/** The move with this id; null when there is none. */
async function moveAt(reader: RowReader, moveId: string): Promise<MoveRow | null> {
  return (await reader.load(MOVES, [[moveId]]))[0] ?? null;
}

/** The segment of a move with an id such as `{move_id}:{segment_index}`; null when there is none. */
export async function moveSegmentAt(
  reader: RowReader,
  segmentId: string,
): Promise<MoveSegmentRow | null> {
  const [, moveId, index] = /^(.+):(\d{1,15})$/.exec(segmentId) ?? [];
  if (moveId === undefined) return null;
  const rows = await reader.load(MOVE_SEGMENTS, [[moveId, Number(index)]]);
  return rows[0] ?? null;
}

/** How a move came to where it stands, with the segments that were quarantined or excluded. */
async function moveStory(reader: StoryReader, move: MoveRow): Promise<Story> {
  // On their own: what becomes of many segments would leave no room for what became of the move.
  const own = await eventsOf(reader, move, TOLD_OF_MOVE);
  const events = await eventsOf(reader, move, ["MoveSegmentChanged", "MoveChecked"]);
  const told = events.filter(({ type, data: text }) => {
    if (type === "MoveSegmentChanged") {
      const { becomes } = JSON.parse(text) as EventData<"MoveSegmentChanged">;
      return becomes === "poisoned" || becomes === "excluded";
    }
    const { segment_index, ok } = JSON.parse(text) as EventData<"MoveChecked">;
    return segment_index === null || !ok;
  });
  return [...own, ...told];
}

/** How a segment came to where it stands, but for its runs. */
async function moveSegmentStory(
  reader: StoryReader,
  move: MoveRow,
  { segment_index: index }: MoveSegmentRow,
): Promise<Story> {
  const types = [
    "MovePlanned",
    "MoveSegmentsPlanned",
    "MoveSegmentSplit",
    "MoveSegmentChanged",
    "MoveChecked",
  ];
  return (await eventsOf(reader, move, types)).filter((event) => isAbout(event, index));
}

function isAbout({ type, data: text }: RecordedEvent, index: number): boolean {
  switch (type) {
    case "MoveSegmentsPlanned": {
      const { first_index, segments } = JSON.parse(text) as EventData<"MoveSegmentsPlanned">;
      return index >= first_index && index < first_index + segments.length;
    }
    case "MoveSegmentSplit": {
      const { segment_index, rest } = JSON.parse(text) as EventData<"MoveSegmentSplit">;
      return segment_index === index || rest.segment_index === index;
    }
    case "MoveSegmentChanged":
      return (JSON.parse(text) as EventData<"MoveSegmentChanged">).segment_index === index;
    case "MoveChecked":
      return (JSON.parse(text) as EventData<"MoveChecked">).segment_index === index;
    default:
      return true;
  }
}

function eventsOf(
  reader: StoryReader,
  { move_id, created_pos }: MoveRow,
  types: readonly string[],
): Promise<Story> {
  const subjects = [entitySubject(move_id)];
  return reader.events({ after: created_pos - 1, subjects, types, limit: EVENTS_MAX });
}

async function ofSegment(
  reader: StoryReader,
  id: string,
): Promise<{ story: Story; run_id: string | null } | null> {
  const segment = await moveSegmentAt(reader, id);
  const move = segment === null ? null : await moveAt(reader, segment.move_id);
  if (segment === null || move === null) return null;
  return { story: await moveSegmentStory(reader, move, segment), run_id: segment.run_id };
}

async function ofMove(reader: StoryReader, id: string): Promise<Story | null> {
  const move = await moveAt(reader, id);
  return move === null ? null : moveStory(reader, move);
}

/** Stories of moves, and of their segments as `<move>:<index>`. */
export const MOVE_STORIES: KindStories = {
  async byId(reader, id) {
    const story = await ofMove(reader, id);
    const found = story === null ? await ofSegment(reader, id) : null;
    if (found === null) return story;
    return [...found.story, ...(await eventsOfRun(reader, found.run_id))];
  },
  async origin(reader, run) {
    const ref = stepOf("move", run);
    if (ref === null) return [];
    const isSegment = ref.step !== "survey" && ref.index !== null;
    const found = isSegment ? await ofSegment(reader, `${ref.move_id}:${ref.index}`) : null;
    return found?.story ?? (await ofMove(reader, ref.move_id)) ?? [];
  },
};

const WORK: ControlledWork<"moves"> = {
  table: "moves",
  advance: advanceMove,
  weight: 2.5,
  rounds: 8,
  open: [{ where: [OPEN_MOVES] }],
  page: 10_000,
};

/** Rows of tables from shard to shard, in segments that are verified. */
export const MOVE: WorkKind = {
  name: "move",
  runs: {
    ...shardStepRuns("move", {
      touches: touchesOfMoveStep,
      queue: queueMoveStep,
      start: startMoveStep,
      endAttempt: endMoveAttempt,
      finish: finishMoveStep,
      claimed: claimedMove,
    }),
    ended: (rows, { run, outcome }, context) => ({
      after: moveStepEnd(rows, run, outcome, context),
    }),
  },
  work: WORK,
  stories: MOVE_STORIES,
};
