import { type Hindrance, idle, refused, type Transitions } from "../command.ts";
import type { SplitPhase, SplitRow, SplitWish } from "./rows.ts";

/** What decides whether a command about a split is legal. */
export type SplitFacts = Pick<
  SplitRow,
  | "split_id"
  | "source"
  | "target"
  | "tenants"
  | "grace_ms"
  | "phase"
  | "state_version"
  | "wanted"
  | "checks"
  | "step"
  | "step_state"
  | "run_pos"
  | "error"
  | "armed"
  | "committing"
  | "backfill_status"
  | "tail_status"
  | "verification"
> & {
  /** Whether what failed is being tried again; left out where nobody can tell. */
  isTriedAgain?(): boolean;
  /** Whether a change of the schema is asked for that is wanted already. */
  isWantedDdl?: boolean;
};

type Rule = (facts: SplitFacts) => Hindrance | null;

/** Whether a look at both schemas found nothing in the way. */
export function areChecksOk({ checks }: Pick<SplitRow, "checks">): boolean {
  return checks?.every(({ ok }) => ok) ?? false;
}

/** Whether nothing that the ledger knows of stands in the way of a cutover. */
export function isReadyToCutOver(
  split: Pick<SplitRow, "phase" | "tail_status" | "backfill_status" | "verification">,
): boolean {
  const { phase, tail_status, backfill_status, verification } = split;
  // The whole copy is there, was found equal to the source, and is kept so.
  const isVerified =
    backfill_status === "completed" && verification?.finished === true && verification.ok;
  return phase === "cutover_pending" && tail_status === "caught_up" && isVerified;
}

/** What the API says of a refusal, after the title. */
function saying(facts: SplitFacts, sentence: string, more: Record<string, unknown> = {}) {
  const { split_id, phase, state_version, wanted } = facts;
  const details = { split_id, phase, state_version, wanted, ...more };
  return { text: `is ${phase}; ${sentence}`, details };
}

const UNDER_WAY: Readonly<Record<SplitWish, string>> = {
  cutover: "A cutover is under way.",
  complete: "It is being completed.",
  rollback: "It is being rolled back.",
  ddl: "A change of the schema is under way.",
};

const COMPLETE = "The split is complete: there is no way back.";
const ROLLED_BACK =
  "The split was rolled back. Its plan can be run again, or the same tenants planned again.";

/** A wish waits while another one has not been come to. */
function whileWanted(action: string): Rule {
  return (facts) => {
    const { wanted } = facts;
    if (wanted === null) return null;
    const sentence = `${action} has to wait: ${wanted} is asked for and under way.`;
    return refused(UNDER_WAY[wanted], saying(facts, sentence));
  };
}

function whileFailed(action: string, whyOf?: (facts: SplitFacts) => string): Rule {
  return (facts) => {
    const { step, step_state, error } = facts;
    if (step_state !== "FAILED") return null;
    const sentence =
      `${action} has to wait: its step ${step} failed (${error?.message ?? "it does not say why"}). ` +
      "Put that right and try it again with `pawl split resume`.";
    const why = whyOf?.(facts) ?? `Its step ${step} failed. Resume it first.`;
    return refused(why, saying(facts, sentence, { step, error }));
  };
}

/** What was asked for has been come to, unless it is being taken back: a repeat changes nothing. */
function repeated(action: string, why: string): Rule {
  return (facts) => (facts.wanted === "rollback" ? whileWanted(action)(facts) : idle(why));
}

/** What the first of these finds in the way. */
function firstOf(...rules: readonly Rule[]): Rule {
  return (facts) => {
    for (const rule of rules) {
      const hindrance = rule(facts);
      if (hindrance !== null) return hindrance;
    }
    return null;
  };
}

const whileNotArmed =
  (why: string, sentence: string): Rule =>
  (facts) =>
    facts.armed === 1 ? null : refused(why, saying(facts, sentence));

/** Both shards have been looked at, and fit together. */
const whileUnfit: Rule = (facts) => {
  const { run_pos, step_state, checks, source, target } = facts;
  if (run_pos === null && areChecksOk(facts)) return null;
  if (run_pos !== null || step_state === null) {
    return refused(
      "Both shards are still being looked at.",
      saying(facts, "both shards are still being looked at. Wait until that has ended."),
    );
  }
  const failed = checks?.filter(({ ok }) => !ok) ?? [];
  const faults = failed.map(({ check, note }) => (note === null ? check : `${check}: ${note}`));
  return refused(
    `${source} and ${target} do not fit together. Put that right, then resume.`,
    saying(
      facts,
      `what the look at both shards found stands in the way: ${faults.join("; ") || "nobody said"}. ` +
        "Put it right and have them looked at again with `pawl split resume`.",
      { checks: failed },
    ),
  );
};

const whileNotReady: Rule = (facts) => {
  if (isReadyToCutOver(facts)) return null;
  const { tail_status, verification } = facts;
  return refused(
    "The copy has to be caught up and verified again first.",
    saying(
      facts,
      `its copy has to be caught up and verified again first (the tail is ${tail_status}).`,
      { tail_status, verification },
    ),
  );
};

/** There is something that failed, or was found wrong, and nobody tries it again yet. */
const whileNothingFailed: Rule = (facts) => {
  const { step, step_state, checks } = facts;
  const isUnfit = step === "check" && !areChecksOk(facts);
  if (step_state === "FAILED" || (isUnfit && step_state === "SUCCEEDED")) return null;
  if ((isUnfit && checks !== null) || facts.isTriedAgain?.() === true) {
    return idle("It is being tried again.");
  }
  const state = step_state === null ? "done" : step_state.toLowerCase();
  const last = step === null ? "it has done nothing yet" : `its last step, ${step}, is ${state}`;
  return refused(
    "Nothing has failed, so there is nothing to try again.",
    saying(
      facts,
      `there is nothing to resume: ${last}. \`pawl split status\` says what can be done now.`,
      { step, step_state },
    ),
  );
};

const whileCommitting: Rule = (facts) => {
  if (facts.wanted === "rollback") return idle(UNDER_WAY.rollback);
  if (facts.committing === 0) return null;
  return refused(
    "A cutover is being carried out. Roll back after that.",
    saying(facts, "its cutover is recorded and being carried out. Roll back after that."),
  );
};

const START = "starting its dual write";
const isStarted: Rule = (facts) =>
  repeated(
    START,
    facts.armed === 1 ? "Changes are captured already." : "The dual write has started already.",
  )(facts);

const COPY = "running its backfill";
const isCopied = repeated(COPY, "The rows are copied already.");
const whileCopying: Rule = (facts) =>
  facts.step_state === "FAILED"
    ? whileWanted(COPY)(facts)
    : repeated(COPY, "The rows are being copied.")(facts);

const CUT_OVER = "its cutover";
const notCaughtUp = refused("Only once the copy is caught up and verified.");
const whileCuttingOver: Rule = ({ wanted }) =>
  wanted === "cutover" ? idle(UNDER_WAY.cutover) : null;

const notCutOver = refused("Only after the cutover, while there is a way back.");
const whileCompleting: Rule = ({ wanted }) =>
  wanted === "complete" ? idle(UNDER_WAY.complete) : null;

const DDL = "changing the schema";
const mayChangeSchema = firstOf(
  ({ isWantedDdl }) => (isWantedDdl === true ? idle(UNDER_WAY.ddl) : null),
  whileWanted(DDL),
  whileNotArmed(
    "Changes are not captured yet. Until then, run the statement on both shards.",
    "the capture of changes is not armed yet, so nothing would carry the statement over. Run it on " +
      "both shards, or wait until that has ended.",
  ),
);

/** Whom a split is about, in words. */
function whoOf({ tenants }: SplitFacts): string {
  return tenants.length === 1 ? "the tenant" : `${tenants.length} tenants`;
}

/** A grace time in its largest unit. */
function graceText(ms: number): string {
  const units: [number, string][] = [
    [86_400_000, "day"],
    [3_600_000, "hour"],
    [60_000, "minute"],
    [1_000, "second"],
  ];
  const [unit, name] = units.find(([size]) => ms >= size) ?? [1, "millisecond"];
  const count = Math.round((ms / unit) * 10) / 10;
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}

/** What can be asked of a split, and in which phases. A phase without an entry does not compile. */
export const SPLIT_RULES = {
  resume: {
    action: "resuming",
    effect: "tries the step that failed, or found something wrong, once more",
    when: {
      planning: whileNothingFailed,
      dual_write: whileNothingFailed,
      backfill: whileNothingFailed,
      tailing: whileNothingFailed,
      cutover_pending: whileNothingFailed,
      reversible: whileNothingFailed,
      completed: whileNothingFailed,
      rolled_back: refused(ROLLED_BACK),
    },
  },
  "start-dual-write": {
    action: START,
    effect: ({ source, target, phase }) => {
      const arms = `arms the capture of changes and the fences in ${source}; nothing is copied yet`;
      return phase === "rolled_back"
        ? `runs the plan again: looks at ${source} and ${target} once more and ${arms}`
        : arms;
    },
    when: {
      planning: firstOf(whileFailed(START), whileUnfit),
      dual_write: isStarted,
      backfill: isStarted,
      tailing: isStarted,
      cutover_pending: isStarted,
      reversible: isStarted,
      completed: repeated(START, COMPLETE),
      rolled_back: true,
    },
  },
  "run-backfill": {
    action: COPY,
    effect: (facts) =>
      `copies the rows of ${whoOf(facts)} to ${facts.target} and follows what is written from then on`,
    when: {
      planning: refused("Only once the dual write has started."),
      dual_write: firstOf(
        whileWanted(COPY),
        whileFailed(COPY),
        whileNotArmed(
          "The capture of changes is not armed yet.",
          "the capture of changes is not armed yet. Wait until that has ended.",
        ),
      ),
      backfill: whileCopying,
      tailing: isCopied,
      cutover_pending: isCopied,
      reversible: isCopied,
      completed: repeated(COPY, COMPLETE),
      rolled_back: refused(ROLLED_BACK),
    },
  },
  cutover: {
    action: CUT_OVER,
    effect: (facts) =>
      `holds the writes of ${whoOf(facts)} for a moment and hands them over to ${facts.target}`,
    when: {
      planning: notCaughtUp,
      dual_write: notCaughtUp,
      backfill: notCaughtUp,
      tailing: notCaughtUp,
      cutover_pending: firstOf(
        whileCuttingOver,
        whileWanted(CUT_OVER),
        whileFailed(CUT_OVER),
        whileNotReady,
      ),
      reversible: repeated(CUT_OVER, "It has cut over already."),
      completed: repeated(CUT_OVER, COMPLETE),
      rolled_back: refused(ROLLED_BACK),
    },
  },
  complete: {
    action: "completing",
    effect: (facts) =>
      `ends the way back; the rows of ${whoOf(facts)} are removed from ${facts.source} after ` +
      graceText(facts.grace_ms),
    when: {
      planning: notCutOver,
      dual_write: notCutOver,
      backfill: notCutOver,
      tailing: notCutOver,
      cutover_pending: notCutOver,
      reversible: firstOf(whileCompleting, whileWanted("completing")),
      completed: idle(COMPLETE),
      rolled_back: refused(ROLLED_BACK),
    },
  },
  ddl: {
    action: DDL,
    effect: "changes the schema of both shards at the same place in the stream",
    when: {
      planning: refused(
        "Changes are not captured yet. Until then, run the statement on both shards.",
      ),
      dual_write: mayChangeSchema,
      backfill: mayChangeSchema,
      tailing: mayChangeSchema,
      cutover_pending: mayChangeSchema,
      reversible: mayChangeSchema,
      completed: refused(COMPLETE),
      rolled_back: refused(ROLLED_BACK),
    },
  },
  rollback: {
    action: "rolling back",
    effect: (facts) =>
      facts.phase === "reversible"
        ? `hands ${whoOf(facts)} back to ${facts.source}, with all that was written since, and ` +
          `discards what is on ${facts.target}`
        : `discards the copy on ${facts.target} and disarms the capture; the routing stays as it is`,
    when: {
      planning: true,
      dual_write: whileCommitting,
      backfill: whileCommitting,
      tailing: whileCommitting,
      cutover_pending: whileCommitting,
      reversible: firstOf(
        whileCommitting,
        whileNotArmed(
          "The way back is being taken down.",
          "the way back is being taken down, as it is to be completed.",
        ),
        whileFailed(
          "rolling back",
          ({ source }) =>
            `The stream back to ${source} failed, so ${source} is not up to date. Resume it first.`,
        ),
      ),
      completed: refused(COMPLETE),
      rolled_back: idle(ROLLED_BACK),
    },
  },
} as const satisfies Transitions<SplitFacts, SplitPhase>;
