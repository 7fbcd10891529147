import { isEnded, type Split } from "./split-texts.ts";

/** What can be asked of a split; named as on the command line. */
export type SplitCommand =
  | "start-dual-write"
  | "run-backfill"
  | "cutover"
  | "complete"
  | "rollback"
  | "resume"
  | "ddl";

const UNDER_WAY = {
  cutover: "A cutover is under way.",
  complete: "It is being completed.",
  rollback: "It is being rolled back.",
  ddl: "A change of the schema is under way.",
} as const;

/** What the server says that a command would do now; null when it makes no sense now. */
export function effectOf({ next }: Split, command: SplitCommand): string | null {
  return next.commands.find((each) => each.command === command)?.effect ?? null;
}

/** Why a command makes no sense now; null when it does. */
export function whyNot(split: Split, command: SplitCommand): string | null {
  if (effectOf(split, command) !== null) return null;
  if (command === "resume") return "Nothing has failed, so there is nothing to try again.";
  if (split.phase === "completed") return "The split is complete: there is no way back.";
  if (split.phase === "rolled_back") {
    return "The split was rolled back. Its plan can be run again, or the same tenants planned again.";
  }
  if (split.wanted !== null) return UNDER_WAY[split.wanted];
  switch (command) {
    case "start-dual-write":
      return whyNotStart(split);
    case "run-backfill":
      return whyNotCopy(split);
    case "cutover":
      return whyNotCutOver(split);
    case "complete":
      return "Only after the cutover, while there is a way back.";
    case "ddl":
      return "Changes are not captured yet. Until then, run the statement on both shards.";
    case "rollback":
      return whyNotBack(split);
  }
}

function whyNotStart({ phase, armed, checks, step, source, target }: Split): string {
  if (phase !== "planning") {
    return armed ? "Changes are captured already." : "The dual write has started already.";
  }
  if (step?.state === "FAILED") return "The look at both shards failed. Resume it first.";
  if (checks === null || step?.state === "RUNNING" || step?.state === "QUEUED") {
    return "Both shards are still being looked at.";
  }
  return `${source} and ${target} do not fit together. Put that right, then resume.`;
}

function whyNotCopy({ phase }: Split): string {
  if (phase === "planning") return "Only once the dual write has started.";
  if (phase === "dual_write") return "The capture of changes is not armed yet.";
  return phase === "backfill" ? "The rows are being copied." : "The rows are copied already.";
}

function whyNotCutOver({ phase }: Split): string {
  if (phase === "reversible") return "It has cut over already.";
  return phase === "cutover_pending"
    ? "The copy has to be caught up and verified again first."
    : "Only once the copy is caught up and verified.";
}

function whyNotBack({ phase, armed, source, step }: Split): string {
  if (phase !== "reversible") return "A cutover is being carried out. Roll back after that.";
  if (!armed) return "The way back is being taken down.";
  return step?.state === "FAILED"
    ? `The stream back to ${source} failed, so ${source} is not up to date. Resume it first.`
    : "A cutover is being carried out. Roll back after that.";
}

/** The command that leads on from here; null where it goes on by itself or has ended. */
export function leadingCommand(split: Split): SplitCommand | null {
  if (isEnded(split) && effectOf(split, "resume") === null) return null;
  const order = ["resume", "start-dual-write", "run-backfill", "cutover", "complete"] as const;
  return order.find((command) => effectOf(split, command) !== null) ?? null;
}
