import { idle, refused, type Transitions, type When } from "../command.ts";
import type { MoveRow, MoveSegmentRow, MoveSegmentState, MoveState } from "./rows.ts";

/** What decides whether a command about a move is legal, and what comes of it. */
export type MoveFacts = Pick<MoveRow, "move_id" | "segments_poisoned"> & {
  dry_run: number | boolean;
  keep_source: boolean;
};

const OVER = {
  COMPLETE: refused("The move is complete."),
  CANCELLED: refused("The move was cancelled."),
};

const NOT_COPIED = refused("Nothing was copied yet.");

function isDryRun({ dry_run }: MoveFacts): boolean {
  return Number(dry_run) === 1;
}

const whileDryRun: When<MoveFacts> = (facts) => {
  if (!isDryRun(facts)) return null;
  return refused(
    "It was only looked at how large it would be. Plan it once more without the dry run.",
    {
      text:
        "was planned as a dry run, to see how large it would be. Plan it once more without that, " +
        "and start that one.",
      details: { move_id: facts.move_id, dry_run: true },
    },
  );
};

const whileNothingAside: When<MoveFacts> = ({ segments_poisoned }) =>
  segments_poisoned === 0 ? idle("No segment was quarantined.") : null;

/** Of commands about one segment, as far as they depend on its move. */
const OF_SEGMENTS = {
  ...OVER,
  PLANNED: NOT_COPIED,
  RUNNING: whileNothingAside,
  PAUSED: whileNothingAside,
};

/** What can be asked of a move, and in which states. A state without an entry does not compile. */
export const MOVE_RULES = {
  start: {
    action: "starting",
    effect: ({ keep_source }) =>
      keep_source
        ? "copies the rows; they stay on the shards that they came from as well"
        : "copies the rows and then removes them from the shards that they came from",
    when: {
      ...OVER,
      PLANNED: whileDryRun,
      RUNNING: refused("It is running."),
      PAUSED: refused("It is paused. Resume it."),
    },
  },
  pause: {
    action: "pausing",
    effect: "stops it; segments keep how far they got",
    when: {
      ...OVER,
      PLANNED: idle("It has not started."),
      RUNNING: true,
      PAUSED: refused("It is paused already."),
    },
  },
  resume: {
    action: "resuming",
    effect: "lets it go on",
    when: {
      ...OVER,
      PLANNED: refused("It is not paused."),
      RUNNING: refused("It is running."),
      PAUSED: true,
    },
  },
  retry: {
    action: "retrying a segment",
    effect: "tries quarantined segments once more",
    when: OF_SEGMENTS,
  },
  recopy: {
    action: "copying a segment again",
    effect: "copies a segment again from its beginning",
    when: OF_SEGMENTS,
  },
  exclude: {
    action: "excluding a segment",
    effect: "lets a quarantined segment stay where it is, on record",
    when: OF_SEGMENTS,
  },
  verify: {
    action: "verifying",
    effect: "compares everything that was copied once more",
    when: {
      CANCELLED: OVER.CANCELLED,
      PLANNED: NOT_COPIED,
      RUNNING: true,
      PAUSED: true,
      COMPLETE: true,
    },
  },
  retune: {
    action: "retuning",
    effect: "changes how many segments are copied at once, or how fast",
    when: {
      ...OVER,
      PLANNED: (facts) => (isDryRun(facts) ? idle("It is only looked at.") : null),
      RUNNING: true,
      PAUSED: true,
    },
  },
  cancel: {
    action: "cancelling",
    effect: "ends it for good; what was copied stays where it is",
    when: { ...OVER, PLANNED: true, RUNNING: true, PAUSED: true },
  },
} as const satisfies Transitions<MoveFacts, MoveState>;

/** What decides whether a command about a segment is legal. */
export type MoveSegmentFacts = Pick<MoveSegmentRow, "segment_index" | "state" | "step"> & {
  isActive: boolean;
};

const whileActive: When<MoveSegmentFacts> = ({ segment_index, state, step, isActive }) => {
  if (!isActive) return null;
  return refused("A run is under way for it. Wait for its end, or pause the move.", {
    text: `has a run (${step}) under way; wait for its end, or pause the move.`,
    details: { segment_index, state, step },
  });
};

const NOT_ASIDE = refused("It is not quarantined.");
const ASIDE_ONLY = {
  PENDING: NOT_ASIDE,
  COPIED: NOT_ASIDE,
  REMOVED: NOT_ASIDE,
  EXCLUDED: NOT_ASIDE,
  POISONED: whileActive,
};
const NOT_COPIED_OR_ASIDE = refused("Only what is copied or quarantined is copied again.");

/** What can be asked of one segment of a move, and in which of its states. */
export const MOVE_SEGMENT_RULES = {
  retry: {
    action: "retrying",
    effect: "goes on where it stood",
    when: ASIDE_ONLY,
  },
  recopy: {
    action: "copying again",
    effect: "is copied again from its beginning",
    when: {
      PENDING: NOT_COPIED_OR_ASIDE,
      COPIED: whileActive,
      POISONED: whileActive,
      REMOVED: NOT_COPIED_OR_ASIDE,
      EXCLUDED: NOT_COPIED_OR_ASIDE,
    },
  },
  exclude: {
    action: "excluding",
    effect: "stays where it is, on record",
    when: ASIDE_ONLY,
  },
} as const satisfies Transitions<MoveSegmentFacts, MoveSegmentState>;
