import { assert, PawlError, present } from "../../../kernel/errors.ts";
import type { Fence, Shard } from "../../../shards/shard.ts";
import type { ClaimedSplit, SplitReport, StepCheck } from "../../../work/shard/step-protocol.ts";
import { advanceStream, drainToPresent, schemaDifference } from "./advance-stream.ts";
import { endOf, written } from "./decide-step.ts";
import { isCompared, lagOf, reportOf, verifyNextRange } from "./verify-copy.ts";
import {
  type Direction,
  isVerified,
  openSplitStream,
  type SplitWork,
  type Stream,
  streamName,
} from "./work.ts";

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

/*
 * Who owns the tenants of a split follows from its commit records alone:
 *
 *   none                 the source, under the epochs of the plan; the target takes no writes
 *   that of the cutover  the target, under its version; the source says where they are
 *   that of the way back the source, under its version; the target says where they are
 *
 * Whoever goes on with a split first makes the fences so: this is what a cutover does after its
 * commit record, and what takes back one that did not come so far.
 */

/** Makes the fences of both shards what the commit records of the split say. */
export async function settleOwnership(work: SplitWork): Promise<void> {
  const { step, source, target } = work;
  const { routing_version_cutover: there, routing_version_rollback: back } = step;
  if (there === null) {
    await openAgain(work, source, step.epochs);
    return;
  }
  const direction = back === null ? "forward" : "back";
  const [from, to] = back === null ? [source, target] : [target, source];
  const epoch = back ?? there;
  const isMoved = await isAll(work, from, { state: "moved", epoch });
  if (isMoved && (await isAll(work, to, { state: "open", epoch }))) return;
  if (direction === "forward") await startWayBack(work, "missing");
  await handOver(work, direction);
}

async function isAll(
  { step }: SplitWork,
  shard: Shard,
  { state, epoch }: Pick<Fence, "state" | "epoch">,
): Promise<boolean> {
  const fences = await fencesOf(shard, step.tenants);
  return fences.every((fence) => fence.state === state && fence.epoch === epoch);
}

/** The epochs under which the tenants are written now, in the order of the tenants. */
export function presentEpochs(step: ClaimedSplit): number[] {
  const epoch = step.routing_version_rollback ?? step.routing_version_cutover;
  return epoch === null ? step.epochs : step.tenants.map(() => epoch);
}

/** Lets writes in again where a cutover had stopped them. */
export async function openAgain(
  { step, guard }: SplitWork,
  owner: Shard,
  epochs: readonly number[],
): Promise<void> {
  const fences = await fencesOf(owner, step.tenants);
  const stopped = fences.filter(({ state }) => state === "closed" || state === "held");
  if (stopped.length === 0) return;
  const open = step.tenants.flatMap((tenant, at) =>
    stopped.some((fence) => fence.tenant === tenant)
      ? [{ tenant, epoch: epochs[at] ?? 0, state: "open" as const, shard: null }]
      : [],
  );
  await owner.setFences(guard, open);
}

/** The fences of tenants under a split, which all have one. */
export async function fencesOf(shard: Shard, tenants: readonly string[]): Promise<Fence[]> {
  const fences = await shard.fences(tenants);
  return tenants.map((tenant) => {
    const fence = fences.find((each) => each.tenant === tenant);
    if (fence !== undefined) return fence;
    throw new PawlError(
      "STATE_ILLEGAL",
      `Tenant ${tenant} has no fence on a shard of its split. Somebody has removed what the split ` +
        "armed there; roll back.",
      { details: { tenant } },
    );
  });
}

/** Carries out the commit record of a direction: who had the tenants says where they are, who has them opens. */
export async function handOver(
  { step, guard, source, target }: SplitWork,
  direction: Direction,
): Promise<void> {
  const isForward = direction === "forward";
  const [from, to] = isForward ? [source, target] : [target, source];
  const epoch = isForward ? step.routing_version_cutover : step.routing_version_rollback;
  assert(epoch !== null, "only what is recorded is carried out");
  const shard = isForward ? step.target : step.source;
  const all = (fence: Pick<Fence, "state" | "shard">): Omit<Fence, "until">[] =>
    step.tenants.map((tenant) => ({ tenant, epoch, ...fence }));
  // The order is the point: nobody owns the tenants for a moment, so never do two.
  await from.setFences(guard, all({ state: "moved", shard }));
  await to.setFences(guard, all({ state: "open", shard: null }));
}

/**
 * Has the reverse stream begin where the target is, which nobody may write to yet: from then on both
 * are equal but for what the target logs. `anew` also where one has begun before.
 */
export async function startWayBack(work: SplitWork, when: "missing" | "anew"): Promise<void> {
  const { step, guard, scope, source, target } = work;
  const stream = streamName(step, "back");
  const before = await source.loadStream(stream);
  if (before !== null && when === "missing") return;
  const forward = present(
    await target.loadStream(streamName(step, "forward")),
    "a split that is cut over has a copy",
  );
  const tables = await source.describe(step.tables);
  const position = await target.position();
  const after = {
    ...forward,
    position,
    reaching: null,
    cursor: endOf(tables),
    rows: tables.map(() => 0),
    verified: {
      ranges: 0,
      rows: 0,
      ...forward.verified,
      table: tables.length,
      below: null,
      from: position,
    },
  };
  await source.apply(written({ guard, stream, tables, scope }, before, after));
}
