import { createHash } from "node:crypto";
import type { TableShape } from "../shard.ts";
import {
  canonicalName,
  columnList,
  columnType,
  exactText,
  hasOneText,
  isExactType,
  literal,
  quoted,
  tableName,
  tableSql,
} from "./sql-text.ts";

type Event = "insert" | "update" | "delete";
const EVENTS: readonly Event[] = ["insert", "update", "delete"];

/** What the triggers of Pawl are called; `truncate` is refused, the others are captured. */
export const CAPTURE_TRIGGERS: readonly string[] = [...EVENTS, "truncate"].map(triggerName);

function triggerName(event: string): string {
  return `_pawl_${event}`;
}

/** The function that captures an event of a table; one each, so that its statements stay planned. */
function functionName(canonical: string, event: Event): string {
  const hash = createHash("sha256").update(canonical).digest("hex").slice(0, 16);
  return `_pawl.${quoted(`capture_${event}_${hash}`)}`;
}

/**
 * The settings that texts of values must be made with, whatever the writer's session has: one key
 * in the texts of two time zones would be taken for two.
 */
const EXACT_TEXTS =
  "set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set extra_float_digits = 1 " +
  "set lc_monetary = 'C' set bytea_output = 'hex' set timezone = 'UTC'";

/**
 * Makes the functions that capture changes of a table, or makes them anew after its schema changed.
 * `home` is the schema that the types of its key may be in.
 */
export function captureFunctions(
  table: TableShape,
  schema: string,
  home: string = tableName(table.table, schema).schema,
): string[] {
  const place = tableName(table.table, schema);
  return EVENTS.map((event) => {
    const name = functionName(canonicalName(place), event);
    return `create or replace function ${name}() returns trigger
      language plpgsql security definer
      set search_path = ${searchPath(table, home)}
      ${EXACT_TEXTS} set row_security = off set enable_seqscan = off
      as ${literal(captureBody(table, event, schema))}`;
  });
}

/** Whether the keys of a table are compared by operators that come with PostgreSQL. */
function hasPlainKey(table: TableShape): boolean {
  return table.key.every((column) => isExactType(columnType(table, column)));
}

/**
 * Where the functions look for operators. They run with the rights of whoever armed the table, so
 * schemas that others may write to are left out, unless a type of the key needs its own operators.
 */
function searchPath(table: TableShape, schema: string): string {
  return hasPlainKey(table)
    ? "pg_catalog, pg_temp"
    : `pg_catalog, ${quoted(schema)}, public, pg_temp`;
}

/** Takes the functions of a table away; its triggers must be gone. */
export function dropFunctions(canonical: string): string[] {
  return EVENTS.map((event) => `drop function if exists ${functionName(canonical, event)}()`);
}

/** Makes the triggers of a table. They fire for replication too: what it writes is also a change. */
export function captureTriggers(table: TableShape, schema: string): string[] {
  const place = tableName(table.table, schema);
  const target = tableSql(place);
  const transition: Record<Event, string> = {
    insert: "new table as new_rows",
    update: "old table as old_rows new table as new_rows",
    delete: "old table as old_rows",
  };
  return [
    ...EVENTS.map(
      (event) =>
        `create or replace trigger ${triggerName(event)} after ${event} on ${target}
        referencing ${transition[event]} for each statement
        execute function ${functionName(canonicalName(place), event)}()`,
    ),
    `create or replace trigger ${triggerName("truncate")} before truncate on ${target}
      for each statement execute function _pawl.refuse_truncate()`,
    `alter table ${target} ${CAPTURE_TRIGGERS.map((name) => `enable always trigger ${name}`).join(", ")}`,
  ];
}

/** Takes the triggers of a table away. */
export function dropTriggers(target: string): string[] {
  return CAPTURE_TRIGGERS.map((name) => `drop trigger if exists ${name} on ${target}`);
}

/** Statements that change no row and let each trigger leave its mark, when they fire at all. */
export function markStatements(table: TableShape, schema: string, mark: string): string[] {
  const target = tableSql(tableName(table.table, schema));
  const columns = table.columns.map(({ name }) => quoted(name)).join(", ");
  const key = quoted(table.key[0] ?? "");
  return [
    `select set_config('pawl.mark', ${literal(mark)}, true)`,
    `insert into ${target} (${columns}) overriding system value select ${columns} from ${target} where false`,
    // A column that the database numbers takes no other value than this.
    `update ${target} set ${key} = default where false`,
    `delete from ${target} where false`,
    "select set_config('pawl.mark', '', true)",
    `with marked as (delete from _pawl.changes where op = 'mark' and image = ${literal(mark)} returning 1)
      select count(*) = ${EVENTS.length} from marked`,
  ];
}

/** The parts of statements that log the rows of a table. */
function logSql(table: TableShape, schema: string) {
  const place = tableName(table.table, schema);
  const name = literal(canonicalName(place));
  const tenant = (row: string): string => exactText(`${row}.${quoted(table.shard_by)}`);
  const key = (row: string): string =>
    `array[${table.key.map((column) => exactText(`${row}.${quoted(column)}`)).join(", ")}]`;
  const same = table.key.map((column) => `_pawl_row.${quoted(column)} = x.${quoted(column)}`);
  // The offset keeps the planner to one look-up for each row, by the key.
  const present = `lateral (
    select ${tenant("_pawl_row")} as tenant, ${key("_pawl_row")} as key, _pawl_row::text as image
    from ${tableSql(place)} _pawl_row where ${same.join(" and ")} offset 0) present`;
  // A key that is written otherwise than before is another one to whoever reads the log, though it
  // may be the same to the table: 'a' and 'A', 1.5 and 1.50.
  const respelled = table.key.filter((column) => !hasOneText(columnType(table, column)));
  const keys = [
    columnList(table.key, "x."),
    ...respelled.map((column, at) => `${exactText(`x.${quoted(column)}`)} as _pawl_text_${at}`),
  ].join(", ");
  const isOther = respelled.length === 0 ? "false" : `present.key <> ${key("x")}`;
  const log = "insert into _pawl.changes (table_name, op, tenant, key, image)";
  return {
    name,
    touched: (rows: string): string => `select ${tenant("x")} as tenant from ${rows} x`,
    keys: (rows: string): string => `select ${keys} from ${rows} x`,
    owned: (rows: string): string => `select ${keys}, ${tenant("x")} from ${rows} x`,
    deletions: `${log}
    select ${name}, 'delete', ${tenant("x")}, ${key("x")}, null
    from old_rows x left join ${present} on true
    where present.image is null or present.tenant is distinct from ${tenant("x")} or ${isOther}`,
    puts: (rows: string): string => `${log}
    select ${name}, 'put', present.tenant, present.key, present.image
    from ${rows} x cross join ${present}`,
  };
}

/**
 * The function's body. It logs the rows as they are when it runs, not as the statement left them:
 * a trigger of the user, a cascade or a function within the statement may have changed a row once
 * more, and that change was logged first. So whatever the order, the last entry of a key that a
 * transaction leaves is its last state. Deletions come first: a key may have gone to another row.
 *
 * Its statements stay planned with the number of rows of the first time, so none may join the rows
 * of a statement in a way that is slow for many: sets are compared by `except`, tables looked up by
 * key.
 */
function captureBody(table: TableShape, event: Event, schema: string): string {
  const { name, touched, keys, owned, deletions, puts } = logSql(table, schema);
  const logging: Record<Event, string> = {
    insert: `${puts("new_rows")};`,
    // Most updates leave key and tenant alone. A key that the statement gave up may have been taken
    // by something within it, whose entry is then before the deletion.
    update: `
  if exists (${owned("old_rows")} except ${owned("new_rows")}) then
    ${deletions};
    ${puts(`(${keys("old_rows")} except ${keys("new_rows")})`)};
  end if;
  ${puts("new_rows")};`,
    delete: `${deletions};
  ${puts("old_rows")};`,
  };
  const rows: Record<Event, string> = {
    insert: touched("new_rows"),
    update: `${touched("old_rows")} union all ${touched("new_rows")}`,
    delete: touched("old_rows"),
  };
  return `
declare
  refused text;
begin
  if current_setting('pawl.applying', true) = 'on' then return null; end if;
  if current_setting('pawl.mark', true) <> '' then
    insert into _pawl.changes (table_name, op, key, image)
    values (${name}, 'mark', '{}', current_setting('pawl.mark'));
    return null;
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    perform _pawl.check_snapshot();
  end if;
  select x.tenant into refused
  from (${rows[event]}) x cross join lateral (
    select from _pawl.fences f
    where f.tenant = x.tenant and f.tenant <> all (
      coalesce(nullif(current_setting('pawl.entered', true), ''), '{}')::text[]) offset 0) f
  limit 1;
  if found then perform _pawl.refuse_unentered(refused, ${name}); end if;
  ${logging[event]}
  return null;
end`;
}
