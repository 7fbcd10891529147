import type { TableShape, Position, ReadAnswer, ReadRequest } from "../../../shards/shard.ts";
import { PawlError } from "../../../kernel/errors.ts";
import { decideStep, tableAt, written } from "./decide-step.ts";
import type { Stream, SplitLimits } from "./work.ts";

/** How the tables of two shards differ, in a sentence; null when rows of one fit the other. */
export function schemaDifference(
  source: readonly TableShape[],
  target: readonly TableShape[],
): string | null {
  for (const ours of source) {
    const theirs = target.find(({ table }) => table === ours.table);
    if (theirs === undefined) return `the target has no table ${ours.table}`;
    if (theirs.fingerprint !== ours.fingerprint) return differenceOf(ours, theirs);
  }
  return null;
}

function differenceOf(source: TableShape, target: TableShape): string {
  const spelled = ({ columns }: TableShape): string[] =>
    columns.map(({ name, type }) => `${name} ${type}`);
  const [ours, theirs] = [spelled(source), spelled(target)];
  const only = (these: string[], those: string[]): string[] =>
    these.filter((column) => !those.includes(column));
  const parts = [
    ...only(ours, theirs).map((column) => `only the source has ${column}`),
    ...only(theirs, ours).map((column) => `only the target has ${column}`),
  ];
  if (source.key.join() !== target.key.join()) {
    parts.push(`the key is (${source.key.join(", ")}) there and (${target.key.join(", ")}) here`);
  }
  return `table ${source.table} differs: ${parts.join("; ") || "in constraints or order of columns"}`;
}

/** What one turn should take: a chunk of so many rows, or changes up to a position only. */
export type Turn = {
  readonly chunkRows?: number;
  readonly to?: Position;
  /** Move the position on even where nothing happened. */
  readonly insist?: boolean;
  /** Writes stand still until it is done. */
  readonly isAwaited?: boolean;
};

/** What one turn took. */
export type Advanced = {
  /** Whether everything that had happened when the turn began has been taken over. */
  readonly isPresent: boolean;
  readonly changes: number;
  readonly chunk: { readonly rows: number; readonly bytes: number } | null;
};

/** One turn of a stream: reads, decides and writes. */
export async function advanceStream(stream: Stream, turn: Turn): Promise<Advanced> {
  try {
    return await takeTurn(stream, turn);
  } catch (error) {
    if (error instanceof PawlError && error.code === "SCHEMA_CHANGED") await forgetCompared(stream);
    throw error;
  }
}

/** A schema that was changed and put back may have changed rows too, so all are compared again. */
async function forgetCompared(stream: Stream): Promise<void> {
  const { state, plan, to } = stream;
  if (state === null || state.verified === null) return;
  const after = { ...state, verified: null };
  await to.apply(written(plan, state, after));
  stream.state = after;
}

async function takeTurn(stream: Stream, turn: Turn): Promise<Advanced> {
  const beganAt = stream.now();
  const isReaching = (stream.state?.reaching ?? null) !== null;
  const { answer, to } = isReaching ? await readRest(stream) : await readNext(stream, turn);
  const isPresent = answer.complete && to === null;
  const { request, changes } = decideStep(stream.plan, stream.state, answer, to);
  if (turn.insist !== true && isIdle(stream, answer)) {
    stream.caughtUpAt = beganAt;
    return { isPresent, changes: 0, chunk: null };
  }
  if (request.ddl !== null && !stream.allowsDdl) throw ddlNotAllowed(stream, request.ddl);
  await stream.to.apply(request).catch(async (error: unknown) => {
    throw await explained(stream, error);
  });
  stream.state = request.after;
  stream.events += changes.length;
  stream.lastEvent = changes.at(-1) ?? stream.lastEvent;
  if (request.ddl !== null) await lookAtTables(stream);
  const isApplied = isPresent && request.after.reaching === null;
  if (isApplied) stream.caughtUpAt = beganAt;
  const taken = request.chunk?.rows ?? null;
  const chunk = taken === null ? null : { rows: taken.count, bytes: taken.bytes };
  return { isPresent: isApplied, changes: changes.length, chunk };
}

/** What a worker may not do by itself it may not do because a log says so. */
function ddlNotAllowed({ plan }: Stream, sql: string): PawlError {
  return new PawlError(
    "DDL_NOT_ALLOWED",
    `Stream ${plan.stream} has come to a change of the schema (${sql.slice(0, 200)}), and this worker ` +
      "changes no schemas. Say `allowDdl: true` in shards() of its project and resume. If nobody has " +
      "asked for the statement, roll back, or complete a split that was cut over.",
    { details: { stream: plan.stream, sql } },
  );
}

/** Nothing was there to take, not even something to pass. */
function isIdle({ state }: Stream, answer: ReadAnswer): boolean {
  if (state === null || state.reaching !== null || answer.chunk !== null) return false;
  const isCompared = state.verified === null || state.verified.from === state.position;
  return answer.complete && answer.through_id === null && isCompared;
}

/** An answer, and what it was bounded by. */
type Bounded = { readonly answer: ReadAnswer; readonly to: Position | null };

async function readRest(stream: Stream): Promise<Bounded> {
  const reaching = stream.state?.reaching ?? null;
  const to = reaching?.to ?? null;
  const after_id = reaching?.after_id ?? null;
  return { answer: await stream.from.read({ ...requested(stream), to, after_id }), to };
}

async function readNext(stream: Stream, turn: Turn): Promise<Bounded> {
  const { to } = turn;
  if (to !== undefined) return { answer: await stream.from.read({ ...requested(stream), to }), to };
  const again = await readAgain(stream, turn);
  if (again !== null) return { answer: again, to: null };
  try {
    const chunk = nextChunk(stream, turn);
    const { isAwaited = false } = turn;
    return { answer: await stream.from.read({ ...requested(stream), chunk, isAwaited }), to: null };
  } catch (error) {
    return readAcross(stream, error);
  }
}

/**
 * A change of the schema that a stream has yet to take over can make rows unreadable for now. It is
 * in the log, which is read up to a position without looking at the tables.
 */
async function readAcross(stream: Stream, error: unknown): Promise<Bounded> {
  const difference = stream.state === null ? null : await differenceNow(stream, error);
  if (difference === null) throw error;
  const to = await stream.from.position();
  const answer = await stream.from.read({ ...requested(stream), to });
  const isPending = !answer.complete || answer.changes.some(({ op }) => op === "ddl");
  if (!isPending) throw unlike(stream, difference, error);
  return { answer, to };
}

/**
 * Reads what was taken over without having been compared once more, together with what is new:
 * to write the last image of a key again changes nothing. Null where there is none, or too much of
 * it; then the copy is compared as a whole again.
 */
async function readAgain(stream: Stream, { isAwaited = false }: Turn): Promise<ReadAnswer | null> {
  const { state, limits } = stream;
  const from = state?.verified?.from ?? null;
  if (state === null || from === null || from === state.position) return null;
  const changesMax = limits.recheckMax;
  const answer = await stream.from.read({ ...requested(stream), from, changesMax, isAwaited });
  if (answer.complete && answer.changes.every(({ op }) => op !== "ddl")) return answer;
  const after = { ...state, verified: null };
  await stream.to.apply(written(stream.plan, state, after));
  stream.state = after;
  return null;
}

function requested({ plan, state, limits }: Stream): ReadRequest {
  return {
    tables: plan.tables,
    scope: plan.scope,
    from: state?.position ?? null,
    cursor: state?.phase === "tail" ? null : (state?.cursor ?? { table: 0, key: null }),
    changesMax: limits.changesMax,
    chunk: null,
  };
}

function nextChunk({ plan, state }: Stream, { chunkRows }: Turn): ReadRequest["chunk"] {
  if (chunkRows === undefined || state?.phase === "tail") return null;
  const { table, key } = state?.cursor ?? { table: 0, key: null };
  return { table: tableAt(plan, table), scope: plan.scope, after: key, limit: chunkRows };
}

async function lookAtTables(stream: Stream): Promise<void> {
  stream.plan = { ...stream.plan, tables: await stream.to.describe(stream.policies) };
}

const EXPLAINED = new Set([
  "COORDINATOR_STALE",
  "DDL_NOT_ALLOWED",
  "SHARD_BUSY",
  "SHARD_UNREACHABLE",
  "STREAM_MOVED",
]);

/** How the schemas differ, if that can be why something failed. */
async function differenceNow(stream: Stream, error: unknown): Promise<string | null> {
  if (error instanceof PawlError && EXPLAINED.has(error.code)) return null;
  const source = await stream.from.describe(stream.policies);
  return schemaDifference(source, await stream.to.describe(stream.policies));
}

/** A write that failed because the schemas differ says so. */
async function explained(stream: Stream, error: unknown): Promise<unknown> {
  const difference = await differenceNow(stream, error);
  return difference === null ? error : unlike(stream, difference, error);
}

function unlike({ plan }: Stream, difference: string, cause: unknown): PawlError {
  return new PawlError(
    "SCHEMA_CHANGED",
    `Stream ${plan.stream} cannot go on: ${difference}. Put the tables back as they were and resume, or roll back.`,
    { details: { stream: plan.stream }, cause },
  );
}

/** How many rows the next chunk should have, after one that took so long and had so many bytes. */
export function nextChunkRows(
  asked: number,
  took: { readonly ms: number; readonly rows: number; readonly bytes: number },
  limits: SplitLimits,
): number {
  const { chunkRowsMin, chunkRowsMax, chunkBytes, chunkMs } = limits;
  // One slow or quick chunk says little, so the size at most doubles or halves.
  const factor = Math.min(2, Math.max(0.5, chunkMs / Math.max(1, took.ms)));
  const inBytes = took.bytes === 0 ? chunkRowsMax : (chunkBytes * took.rows) / took.bytes;
  return Math.max(chunkRowsMin, Math.floor(Math.min(asked * factor, inBytes, chunkRowsMax)));
}

/** Takes changes over up to exactly a position, which is not before that of the stream. */
export async function drain(stream: Stream, to: Position): Promise<void> {
  while (stream.state?.position !== to || stream.state.reaching !== null) {
    await advanceStream(stream, { to, insist: true });
  }
}

/**
 * Takes over everything that had happened when it was called, and `keepOn` may throw between turns.
 * It ends with the position of a snapshot that was taken after that; unless it insists on that, with
 * one after which nothing has happened.
 */
export async function drainToPresent(
  stream: Stream,
  keepOn: () => void,
  { insist }: { insist: boolean } = { insist: true },
): Promise<void> {
  for (;;) {
    keepOn();
    if ((await advanceStream(stream, { insist, isAwaited: true })).isPresent) return;
  }
}
