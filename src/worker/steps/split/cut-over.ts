import type { StepCheck, ClaimedSplit, SplitReport } from "../../../work/shard/step-protocol.ts";
import { schemaDifference, advanceStream, drainToPresent } from "./advance-stream.ts";
import { fencesOf, presentEpochs, handOver, openAgain, startWayBack } from "./settle-ownership.ts";
import {
  type Direction,
  type SplitWork,
  isVerified,
  type Stream,
  openSplitStream,
} from "./work.ts";
import { lagOf, isCompared, verifyNextRange } from "./verify-copy.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { Shard } from "../../../shards/shard.ts";
import { reportOf } from "./follow-source.ts";

/** What must hold before writes are stopped for a cutover. */
export async function cutoverChecks(
  { step }: SplitWork,
  stream: Stream,
  direction: Direction,
): Promise<StepCheck[]> {
  const { from, to, policies, state } = stream;
  const { tenants, lag_limit_ms } = step;
  const difference = schemaDifference(await from.describe(policies), await to.describe(policies));
  const lagMs = lagOf(stream);
  const epochs = presentEpochs(step);
  const shut = (await fencesOf(from, tenants)).filter(
    ({ state: is, epoch }, at) => is !== "open" || epoch !== epochs[at],
  );
  const ready = direction === "forward" ? "incoming" : "moved";
  const early = (await fencesOf(to, tenants)).filter(({ state: is }) => is !== ready);
  return [
    checked("schemas alike", difference),
    checked("copy complete", state?.phase === "tail" ? null : "the copy is not complete"),
    checked("copy verified", isVerified(stream) ? null : "not all of the copy was compared"),
    checked(
      "lag below the limit",
      lagMs !== null && lagMs < lag_limit_ms
        ? null
        : `the lag is ${lagMs ?? "not known"} ms, the limit ${lag_limit_ms} ms`,
    ),
    checked("owner takes writes", shut.length === 0 ? null : `${names(shut)} cannot be written`),
    checked("other side waits", early.length === 0 ? null : `${names(early)} should not be there`),
  ];
}

/** Characters of what a check has to say: a report takes no more. */
const NOTE_MAX = 2_000;

/** A check that has failed when there is something to say. */
export function checked(check: string, problem: string | null): StepCheck {
  const isLong = problem !== null && problem.length > NOTE_MAX;
  const note = isLong ? `${problem.slice(0, NOTE_MAX - 1)}…` : problem;
  return { check, ok: problem === null, note };
}

function names(fences: readonly { tenant: string }[]): string {
  return fences.map(({ tenant }) => tenant).join(", ");
}

/** How often a tail that is behind is tried again before the cutover is given up. */
const ROUNDS_MAX = 20;

/**
 * Hands the tenants over to the other shard:
 *
 *   checks ─► fences closed ─► drained and verified ─► fences held ─► COMMIT RECORD ─► owner settled
 *
 * Up to the commit record everything that fails opens the fences again (closed ones also open by
 * themselves); after it, whoever goes on can only go forward. While it is not known whether it was
 * recorded, the fences stay held.
 */
export async function performCutover(work: SplitWork, direction: Direction): Promise<SplitReport> {
  const { step, host, pulse } = work;
  const recorded =
    direction === "forward" ? step.routing_version_cutover : step.routing_version_rollback;
  if (recorded !== null) return {};

  const stream = await openSplitStream(work, direction);
  if (await isStoppedBeforeReady(work, stream)) return reportOf(stream);
  const checks = await cutoverChecks(work, stream, direction);
  const report = { ...(await reportOf(stream)), checks };
  await pulse.say(report, null);
  refuseFailed(checks);
  // Before writes are stopped, as it takes a moment that nobody should have to wait for.
  if (direction === "forward") await startWayBack(work, "anew");
  // What was written during all that need not be taken over while writes stand still, and the
  // connections that the same needs then are open.
  await allEnded([advanceStream(stream, { insist: true }), advanceSequences(stream)]);

  const beganAt = host.now();
  await stopWrites(work, stream, direction);
  const version = await commit(work, stream.from, report);
  await handOver({ ...work, step: withRecord(step, direction, version) }, direction);
  return { ...report, write_pause_ms: Math.max(0, host.now() - beganAt) };
}

/** Follows until all is compared and the lag is small, without stopping anybody. */
async function isStoppedBeforeReady(work: SplitWork, stream: Stream): Promise<boolean> {
  const { pulse, step } = work;
  // Copies that are not whole are not made so here: the checks say what is missing.
  if (stream.state?.phase !== "tail") return false;
  let rounds = 0;
  while (rounds < ROUNDS_MAX) {
    if (await pulse.beat(() => reportOf(stream))) return true;
    const { isPresent } = await advanceStream(stream, { insist: true });
    if (!isPresent) continue;
    if (!isCompared(stream)) {
      await verifyNextRange(stream);
      continue;
    }
    const lagMs = lagOf(stream);
    if (isVerified(stream) && lagMs !== null && lagMs < step.lag_limit_ms) return false;
    rounds += 1;
  }
  return false;
}

function refuseFailed(checks: readonly StepCheck[]): void {
  const failed = checks.filter(({ ok }) => !ok);
  if (failed.length === 0) return;
  const said = failed.map(({ check, note }) => (note === null ? check : `${check}: ${note}`));
  const code = failed.some(({ check }) => check === "schemas alike") ? "SCHEMA_CHANGED" : "NOT_YET";
  throw new PawlError(code, `The cutover is not possible now. ${said.join(". ")}.`, {
    details: { failed: failed.map(({ check }) => check) },
  });
}

/** Stops writes, takes over and compares what there is, and holds the fences until it is decided. */
async function stopWrites(work: SplitWork, stream: Stream, direction: Direction): Promise<void> {
  const { step, guard, host } = work;
  const { tenants, fence_wait_ms: waitMs, fence_hold_ms: holdMs } = step;
  const { from } = stream;
  try {
    await from.closeFences(guard, tenants, { waitMs, holdMs });
    const closedAt = host.now();
    const keepOn = (): void => {
      host.signal.throwIfAborted();
      if (host.now() - closedAt > holdMs) throw expired(step, direction);
    };
    // Both at once, as writes stand still: keys that were given out are not given out again there.
    await allEnded([drainToPresent(stream, keepOn), advanceSequences(stream)]);
    await from.holdFences(guard, tenants);
    // A clock that was set on and back may have let somebody in. From here on nobody comes in, and
    // every position that is read has all that was acknowledged in it.
    await drainToPresent(stream, keepOn, { insist: false });
    if (!isVerified(stream)) throw tooMuch(step);
  } catch (error) {
    await openFencesAfter(work, from);
    throw error;
  }
}

async function advanceSequences({ from, to, plan }: Stream): Promise<void> {
  await to.advanceSequences(await from.sequences(plan.tables));
}

/** Waits for all of them, also when one fails: what goes on then must not meet what is still under way. */
async function allEnded(parts: readonly Promise<unknown>[]): Promise<void> {
  for (const part of await Promise.allSettled(parts)) {
    if (part.status === "rejected") throw part.reason;
  }
}

/** Opens what was closed. If it cannot, closed fences run out and held ones are for the next attempt. */
async function openFencesAfter(work: SplitWork, owner: Shard): Promise<void> {
  await openAgain(work, owner, presentEpochs(work.step)).catch(() => undefined);
}

function expired({ split_id, fence_hold_ms }: ClaimedSplit, direction: Direction): PawlError {
  return new PawlError(
    "FENCE_EXPIRED",
    `The cutover of ${split_id} (${direction}) took longer than ${fence_hold_ms} ms; writes go on as ` +
      "before. Ask for it again when the lag is small.",
    { details: { split_id, fence_hold_ms } },
  );
}

function tooMuch({ split_id }: ClaimedSplit): PawlError {
  return new PawlError(
    "NOT_YET",
    `So much has changed during the cutover of ${split_id} that the copy has to be compared as a ` +
      "whole again. Ask for it again when the tail has caught up.",
    { details: { split_id } },
  );
}

/** Refusals of the ledger that say that nothing was recorded. */
const REFUSED = new Set(["STATE_ILLEGAL", "STATE_VERSION_MISMATCH"]);

/** Has the commit record made, and asks until it is known whether it was. */
async function commit(work: SplitWork, owner: Shard, report: SplitReport): Promise<number> {
  const { host, limits, step } = work;
  let isFirst = true;
  for (;;) {
    try {
      const { status, routing_version } = await host.say(report, "commit");
      if (routing_version !== null) return routing_version;
      throw new PawlError(
        status === "lost" ? "LEASE_LOST" : "STATE_ILLEGAL",
        `The cutover of ${step.split_id} was not recorded. Look at the split, and ask for it again.`,
        { details: { split_id: step.split_id } },
      );
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
      if (isFirst && REFUSED.has(error.code)) await openFencesAfter(work, owner);
      if (!error.retryable) throw error;
    }
    isFirst = false;
    await host.pause(limits.askAgainMs);
    host.signal.throwIfAborted();
  }
}

function withRecord(step: ClaimedSplit, direction: Direction, version: number): ClaimedSplit {
  return direction === "forward"
    ? { ...step, routing_version_cutover: version }
    : { ...step, routing_version_rollback: version };
}
