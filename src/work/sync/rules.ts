import { type CommandRules, idle, legal, refused, type When } from "../command.ts";
import type { SegmentStatus, SyncRow, SyncState } from "./rows.ts";

/** What decides whether a command about a sync is legal. */
export type SyncFacts = Pick<SyncRow, "name" | "target_key"> & {
  /** The last block that is planned; null before the plan. */
  planned_to: number | null;
  /** Whether code names it, so that it would come back. */
  isInCode(): boolean;
};

const REMOVED = { REMOVED: refused("The sync was removed.") };

function inEveryState(when: When<SyncFacts>): Record<SyncState, When<SyncFacts>> {
  return {
    PENDING: when,
    RUNNING: when,
    PAUSED: when,
    COMPLETE: when,
    FOLLOWING: when,
    ...REMOVED,
  };
}

const LIVING = inEveryState(true);

const whilePlanned = inEveryState(({ planned_to }) =>
  planned_to === null ? idle("Nothing of the sync is planned yet.") : null,
);

/** What can be asked of a sync, and when. */
export const SYNC_RULES = {
  pause: {
    action: "pausing",
    effect: "stops its segments, which keep how far they got; verifications go on",
    when: {
      ...legal<SyncState>("PENDING", "RUNNING", "COMPLETE", "FOLLOWING"),
      ...REMOVED,
    },
  },
  resume: {
    action: "resuming",
    effect: "goes on where it stood",
    when: { PAUSED: true, ...REMOVED },
  },
  retune: {
    action: "retuning",
    effect: "changes how many segments run at once, or how urgent they are",
    when: LIVING,
  },
  "set-head": {
    action: "setting its head",
    effect: "says where the head of its source is; what is planned beyond it goes",
    when: LIVING,
  },
  verify: {
    action: "verifying",
    effect: "compares complete segments with the source",
    when: whilePlanned,
  },
  repair: {
    action: "repairing",
    effect: "undoes what was stored of a range, and fetches it again",
    when: whilePlanned,
  },
  retry: {
    action: "a retry",
    effect: "fetches a quarantined segment again",
    when: LIVING,
  },
  exclude: {
    action: "excluding",
    effect: "lets a quarantined segment stay unfetched, on record",
    when: LIVING,
  },
  remove: {
    action: "removing",
    effect: "ends it for good; what it stored stays where it is",
    when: inEveryState((facts) => {
      if (!facts.isInCode()) return null;
      const { name, target_key } = facts;
      return refused(
        "Code names this target: take it out there and publish that with `pawl deploy`.",
        {
          code: "DEFINITION_INVALID",
          text:
            "is named by code; take it out there and publish that with `pawl deploy`. Pausing and " +
            "resuming work from here too.",
          details: { kind: "sync", name, target_key },
        },
      );
    }),
  },
} as const satisfies CommandRules<SyncFacts, SyncState>;

const NOT_ASIDE = refused("Only a quarantined segment can be decided on.");
const SET_ASIDE = {
  PENDING: NOT_ASIDE,
  RUNNING: NOT_ASIDE,
  COMPLETE: NOT_ASIDE,
  FAILED: NOT_ASIDE,
  QUARANTINED: true,
} as const;

/** What can be asked of one segment of a sync, and in which of its states. */
export const SEGMENT_RULES = {
  retry: { action: "a retry", effect: "is fetched again", when: SET_ASIDE },
  exclude: { action: "excluding", effect: "stays unfetched, on record", when: SET_ASIDE },
} as const satisfies CommandRules<unknown, SegmentStatus>;
