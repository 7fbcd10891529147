import { whyNot as whyNotNow } from "../../../../src/work/command.ts";
import { SPLIT_RULES, type SplitFacts } from "../../../../src/work/split/rules.ts";
import { isBusy, isEnded, type Split } from "./split-texts.ts";

/** What can be asked of a split; named as on the command line. */
export type SplitCommand = keyof typeof SPLIT_RULES;

/** What the rules ask about a split, as far as its document tells. */
function factsOf(split: Split): SplitFacts {
  const { step, routing_version_cutover: cutover, routing_version_rollback: rollback } = split;
  const version = step?.step === "cutover" ? cutover : step?.step === "cutback" ? rollback : null;
  return {
    ...split,
    step: step?.step ?? null,
    step_state: step?.state ?? null,
    run_pos: isBusy(split) ? 0 : null,
    armed: Number(split.armed),
    // A step that hands tenants over and is not done with it, though the routing has them already.
    committing: Number(version !== null && step?.state !== null),
    backfill_status: split.backfill.status,
    tail_status: split.tail.status,
  };
}

/** What the server says that a command would do now; null when it makes no sense now. */
export function effectOf({ next }: Split, command: SplitCommand): string | null {
  return next.commands.find((each) => each.command === command)?.effect ?? null;
}

/** Why a command makes no sense now; null when the server offers it. */
export function whyNot(split: Split, command: SplitCommand): string | null {
  if (effectOf(split, command) !== null) return null;
  return whyNotNow(SPLIT_RULES[command], split.phase, factsOf(split)) ?? "It is not possible now.";
}

/** The command that leads on from here; null where it goes on by itself or has ended. */
export function leadingCommand(split: Split): SplitCommand | null {
  if (isEnded(split) && effectOf(split, "resume") === null) return null;
  const order = ["resume", "start-dual-write", "run-backfill", "cutover", "complete"] as const;
  return order.find((command) => effectOf(split, command) !== null) ?? null;
}
