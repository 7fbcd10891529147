import { assert, PawlError } from "../../../kernel/errors.ts";
import type { Digest, KeyRange } from "../../../shards/shard.ts";
import type { ShardKey, SplitReport } from "../../../work/shard/step-protocol.ts";
import { advanceStream, drain, nextChunkRows } from "./advance-stream.ts";
import { tableAt, written } from "./decide-step.ts";
import { isVerified, releasable, type SplitWork, type Stream } from "./work.ts";

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

/** How far the copy of a stream is. */
export function copyReport({ state, plan, events, lastEvent }: Stream): SplitReport {
  const cursor = state?.cursor ?? { table: 0, key: null };
  const rows = state?.rows ?? [];
  return {
    rows_copied: rows.reduce((sum, count) => sum + count, 0),
    tables: plan.tables.map(({ table }, at) => ({
      table,
      rows: rows[at] ?? 0,
      cursor: at === cursor.table ? cursor.key : null,
      done: at < cursor.table,
    })),
    events_applied: events,
    ...(state?.position === null || state?.position === undefined
      ? {}
      : { position: state.position }),
    ...(lastEvent === null ? {} : { last_event_id: lastEvent.id, last_event_at: lastEvent.at }),
  };
}

/** How far a stream is that follows its source. The lag is measured by the worker's clock alone. */
export function tailReport(stream: Stream, lagEvents: number | null): SplitReport {
  const { caughtUpAt, state } = stream;
  const lagMs = lagOf(stream);
  return {
    ...copyReport(stream),
    ...(lagEvents === null ? {} : { lag_events: lagEvents }),
    ...(caughtUpAt === null || lagMs === null ? {} : { lag_ms: lagMs }),
    verification: {
      ok: true,
      ranges: state?.verified?.ranges ?? 0,
      rows: state?.verified?.rows ?? 0,
      finished: isCompared(stream),
      note: isCompared(stream) && !isVerified(stream) ? "what has changed is being compared" : null,
    },
  };
}

/** How long ago the source was as the target is now; null when that is not known yet. */
export function lagOf({ caughtUpAt, now }: Stream): number | null {
  return caughtUpAt === null ? null : Math.max(0, Math.round(now() - caughtUpAt));
}

/**
 * Follows the source until told to stop, and compares the copy range by range meanwhile. Once that
 * is done and the lag is below the limit, `caught_up` is recorded where it is asked for.
 */
export async function followSource(
  work: SplitWork,
  stream: Stream,
  record: "caught_up" | null,
): Promise<void> {
  const { pulse, host, limits, step } = work;
  let idleMs = limits.idleMs;
  while (!(await pulse.beat(() => spoken(work, stream)))) {
    const { isPresent, changes } = await advanceStream(stream, {});
    if (isPresent && !isCompared(stream)) {
      await verifyNextRange(stream);
      continue;
    }
    const lagMs = lagOf(stream);
    const isCaughtUp = isPresent && lagMs !== null && lagMs < step.lag_limit_ms;
    if (isCaughtUp && record !== null && !pulse.isRecorded) {
      if (await pulse.say(await reportOf(stream), record)) return;
    }
    idleMs = isPresent && changes === 0 ? Math.min(idleMs * 2, limits.idleMsMax) : limits.idleMs;
    if (isPresent) await host.pause(idleMs);
  }
}

/**
 * What is said once a second; then both shards may also forget what is not needed any more. Where a
 * stream leads to, that is everything: a stream the other way begins anew when its time has come.
 */
export async function spoken({ guard }: SplitWork, stream: Stream): Promise<SplitReport> {
  const { from, to } = stream;
  const position = releasable(stream);
  if (position !== null) await from.release(guard, position);
  await to.release(guard, await to.position());
  return reportOf(stream);
}

/** How far a stream is, with how many changes lie before it. */
export async function reportOf(stream: Stream): Promise<SplitReport> {
  const { state, from } = stream;
  if (state === null || state.phase === "copy" || state.position === null) {
    return copyReport(stream);
  }
  return tailReport(stream, (await from.lag(state.position)).events);
}

/** Copies until a short chunk has ended the last table, or until told to stop. */
export async function copyTables(work: SplitWork, stream: Stream): Promise<void> {
  const { limits } = stream;
  let chunkRows = limits.chunkRows;
  while (stream.state?.phase !== "tail") {
    if (await work.pulse.beat(() => spoken(work, stream))) return;
    const beganAt = stream.now();
    const { chunk } = await advanceStream(stream, { chunkRows });
    if (chunk !== null) {
      chunkRows = nextChunkRows(chunkRows, { ms: stream.now() - beganAt, ...chunk }, limits);
    }
  }
}
