import { assert, PawlError, present } from "../../../kernel/errors.ts";
import type { ClaimedSplit } from "../../../work/shard/step-protocol.ts";
import type { Fence, Shard } from "../../../shards/shard.ts";
import { endOf, written } from "./decide-step.ts";
import { type Direction, type SplitWork, streamName } from "./work.ts";

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
