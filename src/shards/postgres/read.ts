import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import {
  type RowChange,
  type Digest,
  type Position,
  type ReadAnswer,
  type ReadRequest,
  type RowBatch,
  type TableShape,
  wentBack,
} from "../shard.ts";
import { uncapturedSql } from "./capture.ts";
import { catalogueSql, readFingerprint, readWidths } from "./catalogue.ts";
import { changesSql, FLUSH, POSITION, readChanges } from "./changes.ts";
import {
  digestSql,
  givenKeys,
  hasGivenKey,
  keyOrder,
  rangeSql,
  rowDigest,
  rowScopeSql,
} from "./conditions.ts";
import { fieldCount, lastRow } from "./copy-text.ts";
import { columnList, literal, tableName, tableSql } from "./identifiers.ts";
import type { ResultRows, ScriptResult } from "./script.ts";
import { onlyValue, type Session, withTransaction } from "./session.ts";

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
  const { from, to, tables, chunk } = request;
  if (chunk !== null && to !== undefined && to !== null) {
    throw new PawlError("INPUT_INVALID", "A chunk is read at the present position, not up to one.");
  }
  const named = tables.map(({ table }) => table);
  const locked = named.map((table) => tableSql(tableName(table, schema)));
  return withTransaction(pool, async (session) => {
    const result = await session.run([
      "begin isolation level repeatable read read only",
      ...(locked.length === 0 ? [] : [`lock table ${locked.join(", ")} in access share mode`]),
      `select ${POSITION}, ${from === null ? "false" : isLater(from)}`,
      catalogueSql(named, schema),
      ...(from === null ? [] : [uncapturedSql(tables, schema), changesSql(request, from, schema)]),
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

/**
 * Puts the present row in the place of images that may have been written while the table had other
 * columns, or other types of them, and was put back since: nobody can read them any more. What has happened to the row after the image
 * comes later in the log, or is what was read; a row that is gone, or not in scope any more, has its
 * deletion there.
 */
async function withFittingImages(
  session: Session,
  { changes, older }: { changes: RowChange[]; older: ReadonlySet<string> },
  widths: readonly number[],
  { tables, scope }: ReadRequest,
  schema: string,
): Promise<RowChange[]> {
  const strange = changes.filter(({ id, table, image }) => {
    const at = tables.findIndex((each) => each.table === table);
    return typeof image === "string" && (older.has(id) || fieldCount(image) !== widths[at]);
  });
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
  const reference = tableSql(tableName(table.table, schema));
  return `select ${digestSql(rowDigest(table, "present."))}
    from ${givenKeys(table, keys)}, ${reference} as present
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
