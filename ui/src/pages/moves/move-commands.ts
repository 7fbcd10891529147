import type { ListedMove, Segment } from "./move-texts.ts";

/** What can be asked of a move; named as on the command line. */
export type MoveCommand = "start" | "pause" | "resume" | "cancel" | "verify" | "retune" | "retry";

/** What can be asked of one segment. */
export type SegmentCommand = "retry" | "recopy" | "exclude";

/** What the server says that a command would do now; null when it makes no sense now. */
export function effectOf({ next }: ListedMove, command: MoveCommand): string | null {
  return next.commands.find((each) => each.command === command)?.effect ?? null;
}

/** Why a command makes no sense now; null when it does. */
export function whyNot(move: ListedMove, command: MoveCommand): string | null {
  if (effectOf(move, command) !== null) return null;
  const { state } = move;
  if (state === "CANCELLED") return "The move was cancelled.";
  if (state === "COMPLETE") return "The move is complete.";
  switch (command) {
    case "start":
      return whyNotStart(move);
    case "pause":
      return state === "PAUSED" ? "It is paused already." : "It has not started.";
    case "resume":
      return state === "RUNNING" ? "It is running." : "It is not paused.";
    case "verify":
      return "Nothing was copied yet.";
    case "retry":
      return "No segment was set aside.";
    default:
      return move.dry_run ? "It is only looked at." : "It makes no sense now.";
  }
}

function whyNotStart({ state, dry_run }: ListedMove): string {
  if (state === "RUNNING") return "It is running.";
  if (state === "PAUSED") return "It is paused. Resume it.";
  return dry_run
    ? "It was only looked at how large it would be. Plan it once more without the dry run."
    : "It cannot be started now.";
}

/** Why a command makes no sense for a segment now; null when it does. */
export function whyNotSegment(
  move: ListedMove,
  segment: Segment,
  command: SegmentCommand,
): string | null {
  if (move.state !== "RUNNING" && move.state !== "PAUSED") {
    return `The move is ${move.state.toLowerCase()}.`;
  }
  if (segment.run_id !== null && segment.running) {
    return "A run is under way for it. Wait for its end, or pause the move.";
  }
  if (segment.state === "POISONED") return null;
  if (command === "recopy") {
    return segment.state === "COPIED" ? null : "Only what is copied or set aside is copied again.";
  }
  return "It is not set aside.";
}
