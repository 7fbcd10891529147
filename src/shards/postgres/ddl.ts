import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import {
  parseSchemaChange,
  requireTable,
  type SchemaChange,
} from "../../work/shard/schema-change.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { ApplyRequest, Guard, TableShape } from "../shard.ts";
import { captureFunctions } from "./capture-sql.ts";
import { catalogueSql, readFingerprint, readShapes } from "./catalogue.ts";
import { sqlState } from "./failures.ts";
import { canonicalName, literal, quoted, tableName } from "./identifiers.ts";
import { guardSql } from "./install.ts";
import { type Session, withTransaction, inTurns, TURN_MS } from "./session.ts";

const LOCK_TURN = `set local lock_timeout = '${TURN_MS}ms'`;

/** Runs a statement that changes the schema and captures it as a change, in one transaction. */
export async function runDdl(
  pool: pg.Pool,
  schema: string,
  guard: Guard,
  sql: string,
  tables: readonly TablePolicy[],
): Promise<void> {
  const change = parseSchemaChange(sql);
  requireTable(change, tables, schema);
  await inTurns("change the schema", () =>
    withTransaction(pool, async (session) => {
      await session.run(["begin", guardSql(guard), LOCK_TURN]);
      await requireIndexOfTable(session, change, tables, schema);
      await runWithin(session, sql);
      const named = tables.map(({ table }) => table);
      const rows = await session.rows(catalogueSql(named, schema));
      await renewFunctions(session, schema, readShapes(rows, tables, schema));
      await session.run([
        `insert into _pawl.changes (table_name, op, key, ddl, fingerprint)
        values ('', 'ddl', '{}', ${literal(sql)}, ${literal(readFingerprint(rows))})`,
        "commit",
      ]);
    }),
  );
}

/** Runs a change of the schema that was captured elsewhere, with the state of its stream. */
export async function replayDdl(
  pool: pg.Pool,
  schema: string,
  { guard, tables }: ApplyRequest,
  sql: string,
  moveStream: string,
): Promise<void> {
  const change = parseSchemaChange(sql);
  requireTable(change, tables, schema);
  await inTurns("change the schema", () =>
    withTransaction(pool, async (session) => {
      await session.run([
        "begin",
        "select set_config('pawl.applying', 'on', true)",
        guardSql(guard),
        moveStream,
        LOCK_TURN,
      ]);
      await requireIndexOfTable(session, change, tables, schema);
      await runWithin(session, sql);
      const rows = await session.rows(
        catalogueSql(
          tables.map(({ table }) => table),
          schema,
        ),
      );
      await renewFunctions(session, schema, readShapes(rows, tables, schema));
      await session.run(["commit"]);
    }),
  );
}

/** Refuses to drop an index of another table; one that is not there the database speaks of. */
async function requireIndexOfTable(
  session: Session,
  change: SchemaChange,
  tables: readonly TablePolicy[],
  schema: string,
): Promise<void> {
  if (change.what !== "drop index") return;
  const place = [change.schema, change.name].flatMap((name) =>
    name === null ? [] : [quoted(name.isQuoted ? name.text : name.text.toLowerCase())],
  );
  const [row] = await session.rows(`
select n.nspname || '.' || c.relname
from pg_index i
join pg_class c on c.oid = i.indrelid
join pg_namespace n on n.oid = c.relnamespace
where i.indexrelid = to_regclass(${literal(place.join("."))})`);
  const named = row?.[0] ?? null;
  if (named !== null) requireTable(change, tables, schema, named);
}

/** Runs the statement of a user; what it says of the statement is for its author. */
async function runWithin(session: Session, sql: string): Promise<void> {
  try {
    await session.run([sql]);
  } catch (error) {
    if (!/^(?:0A|42)/.test(sqlState(error)) || sqlState(error) === "42501") throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The statement was not run: ${reason}.`, {
      details: { sql },
      cause: error,
    });
  }
}

/** Functions that capture changes name columns, so they are made anew where they are. */
async function renewFunctions(
  session: Session,
  schema: string,
  shapes: readonly TableShape[],
): Promise<void> {
  const captured = await session.rows("select distinct table_name from _pawl.captures");
  const names = new Set(captured.map(([name]) => name));
  const statements = shapes
    .filter(({ table }) => names.has(canonicalName(tableName(table, schema))))
    .flatMap((shape) => captureFunctions(shape, schema));
  if (statements.length > 0) await session.run(statements);
}
