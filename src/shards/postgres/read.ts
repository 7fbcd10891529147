import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import {
  type Digest,
  type Position,
  type ReadAnswer,
  type ReadRequest,
  type RowBatch,
  type RowChange,
  type StreamCursor,
  type TableShape,
  wentBack,
} from "../shard.ts";
import { uncapturedSql } from "./capture.ts";
import { catalogueSql, readFingerprint, readWidths } from "./catalogue.ts";
import {
  onlyValue,
  type ResultRows,
  type ScriptResult,
  type Session,
  withSession,
  withTransaction,
} from "./session.ts";
import {
  canonicalName,
  columnList,
  columnType,
  digestSql,
  fieldCount,
  givenKeys,
  hasGivenKey,
  keyOrder,
  keySql,
  lastRow,
  literal,
  rangeSql,
  rowDigest,
  rowScopeSql,
  scopeSql,
  tableName,
  tableSql,
} from "./sql-text.ts";

/** Rows as `copy` writes and reads them. */
export type CopiedRows = { readonly columns: readonly string[]; readonly data: Buffer };

/** Keys are looked up along the index, however large the planner takes a list of them to be. */
export const BY_INDEX = [
  "set local enable_seqscan = off",
  "set local enable_hashjoin = off",
  "set local enable_mergejoin = off",
];

type Chunk = NonNullable<ReadRequest["chunk"]>;

/**
 * Reads position, changes and rows in one snapshot. The tables are locked before it is taken: a
 * table that is rewritten between the two would look empty.
 */
export async function read(
  pool: pg.Pool,
  schema: string,
  request: ReadRequest,
): Promise<ReadAnswer> {
  const { from, to, chunk } = request;
  if (chunk !== null && to !== undefined && to !== null) {
    throw new PawlError("INPUT_INVALID", "A chunk is read at the present position, not up to one.");
  }
  const opening = snapshotSql(request, schema);
  const atOnce = await readAtOnce(pool, schema, request, opening);
  if (atOnce !== null) return atOnce;
  return withTransaction(pool, async (session) => {
    const result = await session.run([
      ...opening,
      ...(chunk === null ? [] : [chunkSql(chunk, schema)]),
      ...(from === null ? ["commit", ...FLUSH] : []),
    ]);
    const [positions, catalogue, uncaptured, changeRows] = result.results;
    const present = onlyValue(positions);
    const fingerprint = readFingerprint(catalogue ?? []);
    const rows = chunk === null ? null : readChunk(result, chunk);
    if (from === null) {
      const none = { changes: [], through_id: null, complete: true, changed: null };
      return { position: present, fingerprint, chunk: rows, ...none };
    }
    if (positions?.[0]?.[2] === "t") throw wentBack(from, present);
    refuseUncaptured(uncaptured ?? []);
    const found = readChanges(changeRows ?? [], request, schema);
    const { throughId, complete } = found;
    const widths = readWidths(catalogue ?? []);
    const changes = await withFittingImages(session, found, widths, request, schema);
    const isPresent = to === undefined || to === null;
    const wanted = complete && isPresent ? changedSql(changes, request, schema) : null;
    // What is read up to a position has been flushed when that was read.
    const flush = isPresent ? FLUSH : [];
    const { results } = await session.run([...(wanted ?? []), "commit", ...flush]);
    return {
      position: isPresent ? present : to,
      changes,
      through_id: throughId,
      complete,
      chunk: rows,
      fingerprint,
      changed:
        wanted === null ? null : summed(results.slice(0, results.length - (isPresent ? 1 : 0))),
    };
  });
}

/** Opens a snapshot and reads its position, what the tables are like, and changes. */
function snapshotSql(request: ReadRequest, schema: string): string[] {
  const { from, tables } = request;
  const named = tables.map(({ table }) => table);
  const locked = named.map((table) => tableSql(tableName(table, schema)));
  return [
    "begin isolation level repeatable read read only",
    ...(locked.length === 0 ? [] : [`lock table ${locked.join(", ")} in access share mode`]),
    `select ${POSITION}, ${from === null ? "false" : isLater(from)}`,
    catalogueSql(named, schema),
    ...(from === null ? [] : [uncapturedSql(tables, schema), changesSql(request, from, schema)]),
  ];
}

/**
 * Reads changes with the digests of their rows in one round trip, where somebody waits for it: the
 * shard looks for the changes twice. Null where it is not asked for, or a second look is needed.
 */
async function readAtOnce(
  pool: pg.Pool,
  schema: string,
  request: ReadRequest,
  opening: readonly string[],
): Promise<ReadAnswer | null> {
  const { from, to, chunk } = request;
  const isPresent = to === undefined || to === null;
  if (request.isAwaited !== true || from === null || !isPresent || chunk !== null) return null;
  const digests = changedDigestsSql(request, from, schema);
  const { results } = await withTransaction(pool, (session) =>
    session.run([...opening, ...BY_INDEX, digests, "commit", ...FLUSH]),
  );
  const [positions, catalogue, uncaptured, changeRows, found] = results;
  const position = onlyValue(positions);
  if (positions?.[0]?.[2] === "t") throw wentBack(from, position);
  refuseUncaptured(uncaptured ?? []);
  const looked = readChanges(changeRows ?? [], request, schema);
  const { changes, throughId: through_id, complete } = looked;
  if (strangeImages(looked, readWidths(catalogue ?? []), request).length > 0) return null;
  return {
    position,
    changes,
    through_id,
    complete,
    chunk: null,
    fingerprint: readFingerprint(catalogue ?? []),
    changed: complete ? summed((found ?? []).map((row) => [row])) : null,
  };
}

/** Images that nobody may be able to read any more. */
function strangeImages(
  { changes, older }: { changes: readonly RowChange[]; older: ReadonlySet<string> },
  widths: readonly number[],
  { tables }: ReadRequest,
): RowChange[] {
  return changes.filter(({ id, table, image }) => {
    const at = tables.findIndex((each) => each.table === table);
    return typeof image === "string" && (older.has(id) || fieldCount(image) !== widths[at]);
  });
}

/**
 * Puts the present row in the place of images that may have been written while the table had other
 * columns, or other types of them, and was put back since: nobody can read them any more. What has happened to the row after the image
 * comes later in the log, or is what was read; a row that is gone, or not in scope any more, has its
 * deletion there.
 */
async function withFittingImages(
  session: Session,
  looked: { changes: RowChange[]; older: ReadonlySet<string> },
  widths: readonly number[],
  request: ReadRequest,
  schema: string,
): Promise<RowChange[]> {
  const { changes } = looked;
  const { tables, scope } = request;
  const strange = strangeImages(looked, widths, request);
  if (strange.length === 0) return changes;
  // What comes before a change of the schema through Pawl has the columns of before it.
  const rows = await session.rows("select max(id) from _pawl.changes where op = 'ddl'");
  const changedAt = BigInt(rows[0]?.[0] ?? 0);
  const present = new Map<string, string>();
  for (const table of tables) {
    const unfit = strange.filter(
      (change) => change.table === table.table && BigInt(change.id) > changedAt,
    );
    if (unfit.length === 0) continue;
    const keys = table.key.map((_, part) => `given.k${part}`).join(", ");
    const found = await session.rows(
      ...BY_INDEX,
      `select to_json(array[${keys}]), present::text
      from ${givenKeys(
        table,
        unfit.map(({ key }) => key),
      )}, ${tableSql(tableName(table.table, schema))} as present
      where ${hasGivenKey(table)} and ${rowScopeSql(table, scope, "present.")}`,
    );
    const images = new Map(found.map(([key, image]) => [key ?? "", image ?? ""]));
    for (const { id, key } of unfit) {
      const image = images.get(JSON.stringify(key));
      present.set(id, image ?? "");
    }
  }
  if (present.size === 0) return changes;
  return changes.map((change) => {
    const image = present.get(change.id);
    if (image === undefined) return change;
    return image === "" ? { ...change, op: "delete", image: null } : { ...change, image };
  });
}

/** Whether a position is of a later time than the snapshot at hand. */
function isLater(position: Position): string {
  return `pg_snapshot_xmax(${literal(position)}::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())`;
}

function refuseUncaptured(rows: ResultRows): void {
  if (rows.length === 0) return;
  const tables = rows.map(([name]) => name);
  throw new PawlError(
    "SCHEMA_CHANGED",
    `Changes of ${tables.join(", ")} are not captured any more: its triggers were taken away or disabled. Roll back and begin again.`,
    { details: { tables } },
  );
}

function chunkSql(chunk: Chunk, schema: string): string {
  const { table, limit } = chunk;
  const columns = columnList(table.columns.map(({ name }) => name));
  return `copy (
    select ${columns} from ${tableSql(tableName(table.table, schema))}
    where ${rangeSql(chunk)} order by ${keyOrder(table)} limit ${Math.trunc(limit)}
  ) to stdout`;
}

function readChunk({ tags, copied }: ScriptResult, { table, limit }: Chunk): ReadAnswer["chunk"] {
  const tag = tags.find((text) => text.startsWith("COPY "));
  const count = Number(tag?.slice("COPY ".length) ?? 0);
  const columns = table.columns.map(({ name }) => name);
  const body: CopiedRows = { columns, data: copied };
  const rows: RowBatch = { count, bytes: copied.length, body };
  return { rows, last: lastKey(copied, table, columns), ended: count < limit };
}

function lastKey(copied: Buffer, table: TableShape, columns: readonly string[]): ShardKey | null {
  const last = lastRow(copied);
  if (last === null) return null;
  return table.key.map((column) => last[columns.indexOf(column)] ?? "");
}

/** Digests of the rows in scope that covered changes are about, table by table. */
function changedSql(changes: readonly RowChange[], request: ReadRequest, schema: string): string[] {
  const keys = new Map<string, Map<string, ShardKey>>();
  for (const { table, key, covered, op } of changes) {
    if (!covered || op === "ddl") continue;
    const ofTable = keys.get(table) ?? new Map<string, ShardKey>();
    keys.set(table, ofTable.set(JSON.stringify(key), key));
  }
  const digests = request.tables.flatMap((table) => {
    const ofTable = keys.get(table.table);
    if (ofTable === undefined) return [];
    return [keysDigestSql(table, [...ofTable.values()], request.scope, schema)];
  });
  return digests.length === 0 ? [] : [...BY_INDEX, ...digests];
}

/** Count and digest of the rows in scope that have one of these keys. */
export function keysDigestSql(
  table: TableShape,
  keys: readonly ShardKey[],
  scope: ReadRequest["scope"],
  schema: string,
): string {
  return givenDigestSql(table, givenKeys(table, keys), scope, schema);
}

/** The same of the rows that covered changes are about, found anew: table by table, unless there are too many. */
function changedDigestsSql(request: ReadRequest, from: Position, schema: string): string {
  const { tables, scope, cursor, changesMax } = request;
  const digests = tables.map((table, index) => {
    const type = columnType(table, table.shard_by);
    const key = table.key.map((_, part) => `c.key[${part + 1}] as k${part}`);
    const given = `(
      select distinct ${key.join(", ")} from changed as c
      where (select count(*) from changed) <= ${Math.trunc(changesMax)}
        and case when c.op <> 'ddl' and c.table_name = ${nameLiteral(table, schema)}
          then ${scopeSql(scope, `c.tenant::${type}`, type)} and ${coversSql(table, index, cursor)}
          else false end) as given`;
    return givenDigestSql(table, given, scope, schema);
  });
  return `with changed as materialized (
    select c.op, c.table_name, c.tenant, c.key from ${changesBetweenSql(request, from)})
  ${digests.join("\nunion all\n")}`;
}

function givenDigestSql(
  table: TableShape,
  given: string,
  scope: ReadRequest["scope"],
  schema: string,
): string {
  const reference = tableSql(tableName(table.table, schema));
  return `select ${digestSql(rowDigest(table, "present."))}
    from ${given}, ${reference} as present
    where ${hasGivenKey(table)} and ${rowScopeSql(table, scope, "present.")}`;
}

function summed(results: readonly ResultRows[]): Digest {
  let rows = 0;
  let digest = 0n;
  for (const [row] of results) {
    rows += Number(row?.[0] ?? 0);
    digest += BigInt(row?.[1] ?? 0);
  }
  return { rows, digest: digest.toString() };
}

/** Most changes that are counted behind a position. */
const LAG_MAX = 100_000;

/**
 * The position of a snapshot, with a note of how much had been written to the WAL by then: the end of
 * every transaction that the position covers is in it.
 */
export const POSITION =
  "pg_current_snapshot(), set_config('pawl.wal', pg_current_wal_insert_lsn()::text, false)";

/**
 * Has that much of the WAL flushed, after the transaction that read a position and before the position
 * is used. Else a crash could forget transactions that it covers, committed or given up, whose numbers
 * are then given out again: changes made under them would count as taken over. As a rule others have
 * flushed it by now; if not, a commit that is waited for does. (A number alone would not do: a commit
 * that wrote nothing before is not waited for.)
 */
export const FLUSH: readonly string[] = [
  "begin",
  `select pg_logical_emit_message(true, 'pawl', '')
    where pg_current_wal_flush_lsn() < current_setting('pawl.wal')::pg_lsn`,
  "commit",
];

/** An instant as a text that every reader of dates knows. */
const INSTANT = `'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`;

/** The statement that reads one change more than asked for: it tells whether any is left. */
export function changesSql(request: ReadRequest, from: Position, schema: string): string {
  const scopes = request.tables.map((table) => {
    const type = columnType(table, table.shard_by);
    return `when ${nameLiteral(table, schema)} then ${scopeSql(request.scope, `c.tenant::${type}`, type)}`;
  });
  const covers = request.tables.map(
    (table, index) =>
      `when ${nameLiteral(table, schema)} then ${coversSql(table, index, request.cursor)}`,
  );
  const older = request.tables.map(
    (table) => `when ${nameLiteral(table, schema)} then ${isOlderSql(table, schema)}`,
  );
  return `
select c.id, c.op, c.table_name, to_json(c.key), c.image, c.ddl, c.fingerprint,
  to_char(c.at, ${INSTANT}), c.covered, c.older
from (
  select c.id,
    case when c.op = 'ddl' or h.hit then c.op end as op,
    case when h.hit then c.table_name end as table_name,
    case when h.hit then c.key end as key,
    case when h.hit then c.image end as image,
    c.ddl, c.fingerprint, c.at,
    case when h.hit then case c.table_name ${covers.join(" ")} end else true end as covered,
    case when h.hit then case c.table_name ${older.join(" ")} end end as older
  from ${changesBetweenSql(request, from)}
  cross join lateral (
    select c.op <> 'ddl' and coalesce(case c.table_name ${scopes.join(" ")} end, false) as hit) h
) c
order by c.id`;
}

function changesBetweenSql({ to, after_id, changesMax }: ReadRequest, from: Position): string {
  const upto = to === undefined || to === null ? null : to;
  const snapshot = upto === null ? "pg_current_snapshot()" : `${literal(upto)}::pg_snapshot`;
  const above = after_id === undefined || after_id === null ? "0" : `${literal(after_id)}::bigint`;
  return `_pawl.changes_between(
    ${literal(from)}::pg_snapshot, ${snapshot}, ${above}, ${Math.trunc(changesMax) + 1}) c`;
}

function nameLiteral(table: TableShape, schema: string): string {
  return literal(canonicalName(tableName(table.table, schema)));
}

/**
 * Whether a change is from before the last change of its table's columns, of whatever kind, or from the
 * same transaction. Columns that are older than ids can tell have a negative age, and count for nothing.
 */
function isOlderSql(table: TableShape, schema: string): string {
  const reference = literal(tableSql(tableName(table.table, schema)));
  return `age(c.xid::xid) >= (
    select min(age(a.xmin)) from pg_attribute a
    where a.attrelid = to_regclass(${reference}) and a.attnum > 0 and age(a.xmin) >= 0)`;
}

/** Whether a cursor has passed a change's key. */
function coversSql(table: TableShape, index: number, cursor: StreamCursor | null): string {
  if (cursor === null || index < cursor.table) return "true";
  if (index > cursor.table || cursor.key === null) return "false";
  const parts = table.key.map((column, part) => `c.key[${part + 1}]::${columnType(table, column)}`);
  return keySql(table, "<=", cursor.key, parts);
}

/** What `changesSql` found: at most as many as asked for, of those the ones that matter. */
export function readChanges(
  rows: ResultRows,
  request: ReadRequest,
  schema: string,
): { changes: RowChange[]; older: Set<string>; throughId: string | null; complete: boolean } {
  const names = new Map(
    request.tables.map(({ table }) => [canonicalName(tableName(table, schema)), table]),
  );
  const looked = rows.slice(0, request.changesMax);
  const changes = looked.flatMap((row): RowChange[] => {
    const [id, op, table, key, image, ddl, fingerprint, at, covered] = row;
    if (op !== "put" && op !== "delete" && op !== "ddl") return [];
    return [
      {
        id: id ?? "",
        op,
        table: names.get(table ?? "") ?? "",
        key: key === null || key === undefined ? [] : (JSON.parse(key) as string[]),
        covered: covered === "t",
        image: image ?? null,
        ddl: op === "ddl" ? { sql: ddl ?? "", fingerprint: fingerprint ?? "" } : null,
        at: at ?? "",
      },
    ];
  });
  return {
    changes,
    older: new Set(looked.flatMap((row) => (row[9] === "t" ? (row[0] ?? []) : []))),
    throughId: looked.at(-1)?.[0] ?? null,
    complete: rows.length <= request.changesMax,
  };
}

/** The present position. */
export async function presentPosition(pool: pg.Pool): Promise<Position> {
  const { results } = await withSession(pool, (session) =>
    session.run([`select ${POSITION}`, ...FLUSH]),
  );
  return onlyValue(results[0]);
}

/** How many changes lie behind a position, and since when. */
export async function lag(
  pool: pg.Pool,
  from: Position,
): Promise<{ events: number; oldest_at: string | null }> {
  const since = `${literal(from)}::pg_snapshot`;
  const [row] = await withSession(pool, (session) =>
    session.rows(`
select count(*), to_char(min(at), ${INSTANT}) from (
  select at from _pawl.changes
  where xid >= pg_snapshot_xmin(${since}) and not pg_visible_in_snapshot(xid, ${since})
  limit ${LAG_MAX}) behind`),
  );
  return { events: Number(row?.[0] ?? 0), oldest_at: row?.[1] ?? null };
}
