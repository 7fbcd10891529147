import type { Found, PlainSyncCode } from "./plain-sync-code.ts";
import type { SegmentRun } from "./run-segment.ts";
import { segmentContext } from "./segment-context.ts";

/** Looks at what is stored of a segment, but for blocks that were set aside; null without a way to. */
export async function verifyStored(
  run: SegmentRun,
  verify: PlainSyncCode["verify"],
): Promise<Found | null> {
  if (verify === null) return null;
  const { attempt, segment, progress } = run;
  const context = segmentContext(attempt, segment, null, () => run.turn());
  let found: Found = { ok: true, note: null };
  const aside = progress.setAside.map(({ block }) => block);
  for (const { from, to } of piecesBetween(segment.from_block, segment.to_block, aside)) {
    const range = { from, to, undo: null, isLive: segment.is_live };
    found = await run.ask(null, () => verify(range, context));
    attempt.signal.throwIfAborted();
    attempt.progressed(null);
    if (!found.ok) return found;
  }
  return found;
}

/** What lies between single blocks, which come in their order. */
export function piecesBetween(
  from: number,
  to: number,
  blocks: readonly number[],
): { from: number; to: number }[] {
  const pieces: { from: number; to: number }[] = [];
  let next = from;
  for (const block of blocks) {
    if (block > next) pieces.push({ from: next, to: block - 1 });
    next = block + 1;
  }
  if (next <= to) pieces.push({ from: next, to });
  return pieces;
}
