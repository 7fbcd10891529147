import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { ApplyRequest, TableShape } from "../shard.ts";
import {
  columnList,
  givenKeys,
  hasGivenKey,
  literal,
  literalArray,
  literalOrNull,
  rowScopeSql,
  tableName,
  tableSql,
} from "./sql-text.ts";
import { refuseActing } from "./catalogue.ts";
import { replayDdl } from "./capture.ts";
import { guardSql } from "./install.ts";
import { BY_INDEX, type CopiedRows, keysDigestSql } from "./read.ts";
import { withTransaction } from "./session.ts";

/**
 * Past capture and fences for the rest of the transaction; where the role may, also past triggers
 * and foreign keys, which did their work on the shard that the rows come from.
 */
export function applyingSql(isReplica: boolean): string[] {
  const replica = isReplica ? ["set local session_replication_role = replica"] : [];
  return ["select set_config('pawl.applying', 'on', true)", ...replica];
}

/** The statement that moves a stream on, if it is where the request says. */
export function moveStreamSql({ guard, stream, before, after }: ApplyRequest): string {
  const states = [before, after].map((state) =>
    literalOrNull(state === null ? null : JSON.stringify(state)),
  );
  return `select _pawl.move_stream(${literal(guard.plan)}, ${literal(stream)}, ${states.join(", ")})`;
}

/** Writes changes, rows and the state of a stream in one transaction and one round trip. */
export async function apply(
  pool: pg.Pool,
  schema: string,
  isReplica: boolean,
  request: ApplyRequest,
): Promise<void> {
  if (request.ddl !== null) {
    await replayDdl(pool, schema, request, request.ddl, moveStreamSql(request));
    return;
  }
  const { chunk, changes, guard } = request;
  const changed = changes
    .filter(({ rows }) => rows.length > 0)
    .map(({ table, rows }) => ({ table: shapeNamed(request.tables, table), rows }));
  const input = chunk === null ? null : (chunk.rows.body as CopiedRows);
  const opening = [
    "begin",
    ...applyingSql(isReplica),
    guardSql(guard),
    moveStreamSql(request),
    ...(changed.length === 0 ? [] : BY_INDEX),
  ];
  const closing = [
    ...(chunk === null || input === null || chunk.rows.count === 0
      ? []
      : [copySql(shapeNamed(request.tables, chunk.table), input, schema)]),
    ...expectSql(changed, request, schema),
    "commit",
  ];
  await withTransaction(pool, async (session) => {
    if (isReplica || changed.length === 0) {
      const written = anewSql(changed, request, schema);
      await session.run([...opening, ...written, ...closing], input?.data);
      return;
    }
    const shapes = changed.map(({ table }) => table);
    await refuseActing(session, schema, shapes, opening);
    const written = amongConstraintsSql(changed, request, schema);
    await session.run([...written, ...closing], input?.data);
  });
}

type ChangedRows = { table: TableShape; rows: ApplyRequest["changes"][number]["rows"] };

function shapeNamed(tables: readonly TableShape[], name: string): TableShape {
  const found = tables.find(({ table }) => table === name);
  if (found === undefined) {
    throw new PawlError("INPUT_INVALID", `The table ${name} is not one of those that are copied.`);
  }
  return found;
}

/** Deletes changed rows, then inserts their images: no constraint looks but that values are unique. */
function anewSql(changed: readonly ChangedRows[], request: ApplyRequest, schema: string): string[] {
  return [
    ...changed.map((each) => deletionSql(each, request, schema)),
    ...changed.flatMap((each) => {
      const images = imagesOf(each);
      return images.length === 0 ? [] : [insertSql(each, images, schema)];
    }),
  ];
}

/**
 * Writes all changes of all tables in one statement, so that foreign keys look when everything is in
 * its place: a parent that is written anew has been there all the time. Deferrable constraints look
 * at the end.
 */
function amongConstraintsSql(
  changed: readonly ChangedRows[],
  request: ApplyRequest,
  schema: string,
): string[] {
  const deletions = changed.map((each) => deletionSql(each, request, schema));
  const puts = changed.flatMap((each) => {
    const images = imagesOf(each);
    // Nothing is inserted before all deletions are counted.
    return images.length === 0
      ? []
      : [insertSql(each, images, schema, "cross join gone where gone.rows >= 0")];
  });
  const parts = [
    ...deletions.map((sql, at) => `gone${at} as (${sql} returning 1)`),
    `gone as materialized (select ${deletions.map((_, at) => `(select count(*) from gone${at})`).join(" + ")} as rows)`,
    ...puts.map((sql, at) => `put${at} as (${sql})`),
  ];
  return ["set constraints all deferred", `with ${parts.join(",\n")}\nselect rows from gone`];
}

function deletionSql(
  { table, rows }: ChangedRows,
  { scope }: ApplyRequest,
  schema: string,
): string {
  const keys = rows.map(({ key }) => key);
  return `delete from ${tableSql(tableName(table.table, schema))} as present using ${givenKeys(table, keys)}
    where ${hasGivenKey(table)} and ${rowScopeSql(table, scope, "present.")}`;
}

function imagesOf({ rows }: ChangedRows): string[] {
  return rows.flatMap(({ image }) => (typeof image === "string" ? [image] : []));
}

function insertSql(
  { table }: ChangedRows,
  images: readonly string[],
  schema: string,
  after = "",
): string {
  const reference = tableSql(tableName(table.table, schema));
  const columns = table.columns.map(({ name }) => name);
  // Read once for each row, not once for each column: hence the offset.
  return `insert into ${reference} as present (${columnList(columns)}) overriding system value
    select ${columnList(columns, "(read).")}
    from (select image::${reference} as read from unnest(${literalArray(images)}) as image offset 0) as images
    ${after}`;
}

function copySql(table: TableShape, { columns }: CopiedRows, schema: string): string {
  return `copy ${tableSql(tableName(table.table, schema))} (${columnList(columns)}) from stdin`;
}

/** Fails unless the rows of the changed keys are what the source had. */
function expectSql(
  changed: readonly ChangedRows[],
  { changed: wanted, scope }: ApplyRequest,
  schema: string,
): string[] {
  if (wanted === null) return [];
  const digests = changed.map(({ table, rows }) =>
    keysDigestSql(
      table,
      rows.map(({ key }) => key),
      scope,
      schema,
    ),
  );
  const all = ["select 0::bigint, 0::numeric", ...digests].join("\nunion all\n");
  return [
    `select _pawl.expect_digest(sum(rows), sum(digest), ${Math.trunc(wanted.rows)}, ${literal(wanted.digest)})
    from (${all}) as found(rows, digest)`,
  ];
}
