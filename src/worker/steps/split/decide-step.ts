import { assert, PawlError, present } from "../../../kernel/errors.ts";
import type { Scope } from "../../../work/shard/spec.ts";
import type {
  ApplyRequest,
  RowChange,
  Guard,
  Position,
  ReadAnswer,
  StreamCursor,
  StreamState,
  TableShape,
} from "../../../shards/shard.ts";

/*
 * A stream takes rows in the order of their keys, and changes of those it has taken, from one shard
 * to another:
 *
 *   copy, position P ──(chunk and all changes up to Q)──► copy, Q, cursor further; tail at the end
 *   any, P ──(some of the changes up to Q)──► the same, reaching Q ──(the rest)──► the same, Q
 *
 * A chunk is only taken together with all changes up to its snapshot: a stream that reaches for a
 * position takes none. Changes beyond the cursor are left out, as a later chunk has them in it.
 */

/** What a stream carries, and for whom. */
export type StreamPlan = {
  readonly guard: Guard;
  readonly stream: string;
  readonly tables: readonly TableShape[];
  readonly scope: Scope;
};

/** What is written because of an answer, and what of the changes it holds. */
export type StepDecision = {
  readonly request: ApplyRequest;
  /** Changes that were taken or left out. */
  readonly changes: readonly RowChange[];
};

/** The next write of a stream, from what was read for it; `to` is what the request was bounded by. */
export function decideStep(
  plan: StreamPlan,
  before: StreamState | null,
  answer: ReadAnswer,
  to: Position | null,
): StepDecision {
  const state = before ?? newStream(plan.tables.length, answer.fingerprint);
  const ddlAt = answer.changes.findIndex(({ op }) => op === "ddl");
  if (ddlAt === 0) return takeDdl(plan, before, answer);
  if (ddlAt > 0) {
    // What comes before a change of the schema has the shape of before it, so it goes on its own.
    const changes = answer.changes.slice(0, ddlAt);
    return takeSome(plan, before, answer, changes, present(changes.at(-1), "changes before it").id);
  }
  if (!answer.complete) {
    const through = present(answer.through_id, "an incomplete answer has looked at something");
    return takeSome(plan, before, answer, answer.changes, through);
  }
  // A bounded read has the fingerprint of the present, which a pending change may have made.
  if (to === null && answer.fingerprint !== state.fingerprint) throw schemaChanged(plan);

  const changed = answer.changes.every(({ covered }) => covered) ? answer.changed : null;
  const isCompared = to === null && (changed !== null || answer.changes.length === 0);
  const { verified } = state;
  const after = {
    ...(answer.chunk === null ? state : withChunk(plan, state, answer.chunk)),
    position: answer.position,
    reaching: null,
    verified: verified !== null && isCompared ? { ...verified, from: answer.position } : verified,
  };
  const chunk =
    answer.chunk === null || answer.chunk.rows.count === 0
      ? null
      : { table: tableAt(plan, state.cursor.table).table, rows: answer.chunk.rows };
  const changes = lastImages(plan, answer.changes);
  const request = { ...written(plan, before, after), changes, chunk, changed };
  return { request, changes: answer.changes };
}

/** A write that changes nothing but the state of a stream. */
export function written(
  plan: StreamPlan,
  before: StreamState | null,
  after: StreamState,
): ApplyRequest {
  return { ...plan, before, after, changes: [], ddl: null, chunk: null, changed: null };
}

/** The cursor that has passed everything. */
export function endOf(tables: readonly TableShape[]): StreamCursor {
  return { table: tables.length, key: null };
}

function newStream(tables: number, fingerprint: string): StreamState {
  return {
    position: null,
    reaching: null,
    cursor: { table: 0, key: null },
    phase: "copy",
    rows: Array.from({ length: tables }, () => 0),
    fingerprint,
    verified: null,
  };
}

function takeDdl(
  plan: StreamPlan,
  before: StreamState | null,
  { changes: [change], position }: ReadAnswer,
): StepDecision {
  const state = present(before, "a stream that has changes");
  const { id, ddl } = present(change, "a change of the schema");
  const { sql, fingerprint } = present(ddl, "a change of the schema has a statement");
  // Rows look different from now on, so they are compared anew.
  const after = { ...state, reaching: { to: position, after_id: id }, fingerprint, verified: null };
  return {
    request: { ...written(plan, state, after), ddl: sql },
    changes: change === undefined ? [] : [change],
  };
}

function takeSome(
  plan: StreamPlan,
  before: StreamState | null,
  { position }: ReadAnswer,
  changes: readonly RowChange[],
  after_id: string,
): StepDecision {
  const state = present(before, "a stream that has changes");
  const after = { ...state, reaching: { to: position, after_id } };
  return {
    request: { ...written(plan, state, after), changes: lastImages(plan, changes) },
    changes,
  };
}

function withChunk(
  { tables }: StreamPlan,
  state: StreamState,
  chunk: NonNullable<ReadAnswer["chunk"]>,
): StreamState {
  assert(state.phase === "copy", "only a copy takes chunks");
  const { table } = state.cursor;
  const rows = state.rows.map((count, at) => (at === table ? count + chunk.rows.count : count));
  if (!chunk.ended) {
    const key = present(chunk.last, "a chunk that does not end its table has a last key");
    return { ...state, rows, cursor: { table, key } };
  }
  const cursor = { table: table + 1, key: null };
  return { ...state, rows, cursor, phase: cursor.table === tables.length ? "tail" : "copy" };
}

/** The last image of each covered key, by table in the order of the tables. */
function lastImages(
  { tables }: StreamPlan,
  changes: readonly RowChange[],
): { table: string; rows: { key: RowChange["key"]; image: unknown }[] }[] {
  const images = new Map(tables.map(({ table }) => [table, new Map<string, RowChange>()]));
  for (const change of changes) {
    if (!change.covered) continue;
    present(images.get(change.table), "a change is of a table of the stream").set(
      JSON.stringify(change.key),
      change,
    );
  }
  return [...images]
    .filter(([, keys]) => keys.size > 0)
    .map(([table, keys]) => ({
      table,
      rows: [...keys.values()].map(({ key, op, image }) => ({
        key,
        image: op === "delete" ? null : image,
      })),
    }));
}

/** The table at a place of the order in which tables are taken. */
export function tableAt({ tables }: Pick<StreamPlan, "tables">, index: number): TableShape {
  return present(tables[index], "the cursor is at a table");
}

function schemaChanged({ stream, tables }: StreamPlan): PawlError {
  const names = tables.map(({ table }) => table);
  return new PawlError(
    "SCHEMA_CHANGED",
    `The schema of ${names.join(", ")} is not the one that stream ${stream} began with. Change ` +
      "schemas through `pawl split ddl` while a split is under way; put it back as it was on both shards and resume, or roll back.",
    { details: { stream, tables: names } },
  );
}
