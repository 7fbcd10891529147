import { assert } from "../../core/assert.ts";
import { PawlError } from "../../core/errors.ts";
import type { ShardKey } from "../../core/step-protocol.ts";
import type { Digest, KeyRange } from "../../shards/shard.ts";
import { tableAt, written } from "./decide-step.ts";
import { drain } from "./drain.ts";
import type { Stream } from "./stream.ts";

/** Whether every range was compared once; what changed since is compared as it is taken over. */
export function isCompared({ state, plan }: Stream): boolean {
  return state?.verified?.table === plan.tables.length;
}

/**
 * Compares the next range of the copy: the source's digest at some position, and the target's when
 * it stands at exactly that position. How far this got is kept with the stream.
 */
export async function verifyNextRange(stream: Stream): Promise<void> {
  const { state, plan, from, to } = stream;
  assert(state?.phase === "tail" && state.reaching === null, "a whole copy is compared");
  const { tables, scope } = plan;
  const at = { table: state.verified?.table ?? 0, below: state.verified?.below ?? null };
  const table = tableAt(plan, at.table);
  const rest = { table, scope, from: at.below };
  const survey = await to.survey(rest, stream.limits.verifyRows, 1);
  const upper = survey.bounds[0]?.upper ?? null;
  const range = { ...rest, below: upper };

  const source = await from.digest(range);
  await drain(stream, source.position);
  // The schema has changed on the way, and with it what a digest means.
  if (stream.plan.tables !== tables) return;
  const target = await to.digest(range);
  compare(stream, range, source, target);

  const drained = stream.state;
  assert(drained !== null, "a stream that was drained has a state");
  const next = upper === null ? { table: at.table + 1, below: null } : { ...at, below: upper };
  const verified = {
    ...next,
    from: drained.verified?.from ?? source.position,
    ranges: (drained.verified?.ranges ?? 0) + 1,
    rows: (drained.verified?.rows ?? 0) + target.rows,
  };
  const after = { ...drained, verified };
  await to.apply(written(plan, drained, after));
  stream.state = after;
}

function compare(stream: Stream, range: KeyRange, source: Digest, target: Digest): void {
  if (source.rows === target.rows && source.digest === target.digest) return;
  const { table } = range.table;
  const from = spelled(range.from ?? null);
  const below = spelled(range.below ?? null);
  throw new PawlError(
    "VERIFICATION_FAILED",
    `Table ${table} differs between the shards from ${from} to ${below}: ${source.rows} rows at ` +
      `the source, ${target.rows} at the target${source.rows === target.rows ? ", of other contents" : ""}. ` +
      "Roll back, and look for whoever wrote to the target.",
    { details: { stream: stream.plan.stream, table, from: range.from, below: range.below } },
  );
}

function spelled(key: ShardKey | null): string {
  return key === null ? "the end" : `(${key.join(", ")})`;
}
