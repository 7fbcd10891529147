import { PawlError } from "../../core/errors.ts";
import type { ClaimedSplit, SplitReport } from "../../core/step-protocol.ts";
import { type Scope, tenantScope } from "../../core/topology.ts";
import type { Guard, Shard } from "../../shards/shard.ts";
import type { StepHost } from "../step-host.ts";
import { Pulse } from "./pulse.ts";
import type { SplitLimits } from "./split-limits.ts";
import { openStream, releasable, type Stream } from "./stream.ts";

/** A step of a split at work on its two shards. */
export type SplitWork = {
  readonly step: ClaimedSplit;
  readonly host: StepHost<SplitReport>;
  readonly limits: SplitLimits;
  readonly guard: Guard;
  readonly scope: Scope;
  readonly source: Shard;
  readonly target: Shard;
  readonly pulse: Pulse;
};

/** From the source to the target, or the way back. */
export type Direction = "forward" | "back";

/** Opens both shards and lets nobody but this step act on them for the split from now on. */
export async function takeSplit(
  step: ClaimedSplit,
  host: StepHost<SplitReport>,
  limits: SplitLimits,
): Promise<SplitWork> {
  const guard = { plan: step.split_id, token: host.token };
  const [source, target] = [await host.shard(step.source), await host.shard(step.target)];
  if (source.engine !== target.engine) {
    throw new PawlError(
      "INPUT_INVALID",
      `Shard ${step.source} is kept in ${source.engine} and ${step.target} in ${target.engine}. ` +
        "Split between shards of one engine.",
      { details: { source: source.engine, target: target.engine } },
    );
  }
  for (const shard of [source, target]) {
    await shard.install();
    await shard.take(guard);
  }
  const scope = tenantScope(step.tenants);
  const pulse = new Pulse(host, limits.sayEveryMs);
  return { step, host, limits, guard, scope, source, target, pulse };
}

/** Codes of a stream that cannot be made good: what it has missed nobody knows. */
const LOST = new Set(["SCHEMA_CHANGED", "VERIFICATION_FAILED"]);

/**
 * The failure of a stream, with what can be done about it where that is not what a shard advises: the
 * way back cannot be rolled back while it is broken, but it can be given up.
 */
export function advised(error: unknown, direction: Direction, { step }: SplitWork): unknown {
  if (direction === "forward" || !(error instanceof PawlError) || !LOST.has(error.code))
    return error;
  return new PawlError(
    error.code,
    `The way back of split ${step.split_id} is broken, so it cannot be rolled back now; ${step.target} ` +
      `serves on. If a schema was changed, put it back and resume; else complete the split, which gives the ` +
      `way back up. The reason: ${error.message}`,
    { details: { ...error.details }, cause: error },
  );
}

/** The name of a split's stream; the state of it is on the shard that it leads to. */
export function streamName(step: ClaimedSplit, direction: Direction): string {
  return direction === "forward" ? step.split_id : `${step.split_id}:back`;
}

/**
 * Opens the stream of a direction where it stands. What was given up because the stream had it must
 * not lie before it: then the shard that it leads to has gone back, and nobody knows what it lacks.
 */
export async function openSplitStream(work: SplitWork, direction: Direction): Promise<Stream> {
  const { step, host, limits, guard, scope, source, target } = work;
  const [from, to] = direction === "forward" ? [source, target] : [target, source];
  const stream = await openStream({
    from,
    to,
    policies: step.tables,
    limits,
    now: () => host.now(),
    plan: { guard, scope, stream: streamName(step, direction) },
  });
  const position = releasable(stream);
  if (position !== null) await from.release(guard, position);
  return stream;
}
