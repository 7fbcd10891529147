import type pg from "pg";
import { PawlError } from "../../core/errors.ts";
import type { ApplyRequest, TableShape } from "../shard.ts";
import { givenKeys, hasGivenKey, rowScopeSql } from "./conditions.ts";
import { replayDdl } from "./ddl.ts";
import {
  columnList,
  literal,
  literalArray,
  literalOrNull,
  quoted,
  tableName,
  tableSql,
} from "./identifiers.ts";
import { guardSql } from "./plans.ts";
import { BY_INDEX, type CopiedRows, keysDigestSql } from "./read.ts";
import { withSession } from "./session.ts";

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
  const statements = [
    "begin",
    ...applyingSql(isReplica),
    guardSql(guard),
    moveStreamSql(request),
    ...(changed.length === 0 ? [] : BY_INDEX),
    // Tables that others reference last, as foreign keys may be on.
    ...changed.toReversed().flatMap((each) => deletionSql(each, request, schema, isReplica)),
    ...changed.flatMap((each) => putSql(each, request, schema, isReplica)),
    ...(chunk === null || input === null || chunk.rows.count === 0
      ? []
      : [copySql(shapeNamed(request.tables, chunk.table), input, schema)]),
    ...expectSql(changed, request, schema),
    "commit",
  ];
  await withSession(pool, (session) => session.run(statements, input?.data));
}

type ChangedRows = { table: TableShape; rows: ApplyRequest["changes"][number]["rows"] };

function shapeNamed(tables: readonly TableShape[], name: string): TableShape {
  const found = tables.find(({ table }) => table === name);
  if (found === undefined) {
    throw new PawlError("INPUT_INVALID", `The table ${name} is not one of those that are copied.`);
  }
  return found;
}

function deletionSql(
  { table, rows }: ChangedRows,
  { scope }: ApplyRequest,
  schema: string,
  isReplica: boolean,
): string[] {
  // Where cascades would fire, rows that stay are updated in their place instead.
  const gone = isReplica ? rows : rows.filter(({ image }) => image === null);
  if (gone.length === 0) return [];
  const reference = tableSql(tableName(table.table, schema));
  const keys = gone.map(({ key }) => key);
  return [
    `delete from ${reference} as present using ${givenKeys(table, keys)}
    where ${hasGivenKey(table)} and ${rowScopeSql(table, scope, "present.")}`,
  ];
}

function putSql(
  { table, rows }: ChangedRows,
  { scope }: ApplyRequest,
  schema: string,
  isReplica: boolean,
): string[] {
  const images = rows.flatMap(({ image }) => (typeof image === "string" ? [image] : []));
  if (images.length === 0) return [];
  const reference = tableSql(tableName(table.table, schema));
  const columns = table.columns.map(({ name }) => name);
  // Read once for each row, not once for each column: hence the offset.
  const insert = `insert into ${reference} as present (${columnList(columns)}) overriding system value
    select ${columnList(columns, "(read).")}
    from (select image::${reference} as read from unnest(${literalArray(images)}) as image offset 0) as images`;
  if (isReplica) return [insert];

  const rest = columns.filter((name) => !table.key.includes(name));
  const set = (rest.length === 0 ? table.key : rest).map(
    (name) => `${quoted(name)} = excluded.${quoted(name)}`,
  );
  return [
    `with put as (
      ${insert}
      on conflict (${columnList(table.key)}) do update set ${set.join(", ")}
      where ${rowScopeSql(table, scope, "present.")} returning 1)
    select _pawl.expect_rows(${literal(table.table)}, count(*), ${images.length}) from put`,
  ];
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
