import { hindranceOf, whyNot as whyNotNow } from "../../../../src/work/command.ts";
import { MOVE_RULES, MOVE_SEGMENT_RULES } from "../../../../src/work/move/rules.ts";
import type { ListedMove, Segment } from "./move-texts.ts";

/** What can be asked of a move; named as on the command line. */
export type MoveCommand = "start" | "pause" | "resume" | "cancel" | "verify" | "retune" | "retry";

/** What can be asked of one segment. */
export type SegmentCommand = keyof typeof MOVE_SEGMENT_RULES;

/** What the server says that a command would do now; null when it makes no sense now. */
export function effectOf({ next }: ListedMove, command: MoveCommand): string | null {
  return next.commands.find((each) => each.command === command)?.effect ?? null;
}

/** Why a command makes no sense now; null when it does. */
export function whyNot(move: ListedMove, command: MoveCommand): string | null {
  return whyNotNow(MOVE_RULES[command], move.state, move);
}

/** Why a command makes no sense for a segment now; null when it does. */
export function whyNotSegment(
  move: ListedMove,
  segment: Segment,
  command: SegmentCommand,
): string | null {
  const ofMove = hindranceOf(MOVE_RULES[command], move.state, move);
  if (ofMove !== null && ofMove.isIdle !== true) return ofMove.why;
  const facts = { ...segment, isActive: segment.run_id !== null && segment.running };
  return whyNotNow(MOVE_SEGMENT_RULES[command], segment.state, facts);
}
