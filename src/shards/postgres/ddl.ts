import type pg from "pg";
import { PawlError } from "../../core/errors.ts";
import type { TablePolicy } from "../../core/shard-spec.ts";
import type { ApplyRequest, Guard, TableShape } from "../shard.ts";
import { captureFunctions } from "./capture-sql.ts";
import { catalogueSql, readFingerprint, readShapes } from "./catalogue.ts";
import { canonicalName, literal, tableName } from "./identifiers.ts";
import { guardSql } from "./plans.ts";
import { onlyValue, type Session, withTransaction } from "./session.ts";
import { inTurns, TURN_MS } from "./turns.ts";

const LOCK_TURN = `set local lock_timeout = '${TURN_MS}ms'`;
const TRANSACTION = "select pg_current_xact_id()";

/** Runs a statement that changes the schema and captures it as a change, in one transaction. */
export async function runDdl(
  pool: pg.Pool,
  schema: string,
  guard: Guard,
  sql: string,
  tables: readonly TablePolicy[],
): Promise<void> {
  await inTurns("change the schema", () =>
    withTransaction(pool, async (session) => {
      await session.run(["begin", guardSql(guard), LOCK_TURN]);
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
  await inTurns("change the schema", () =>
    withTransaction(pool, async (session) => {
      await session.run([
        "begin",
        "select set_config('pawl.applying', 'on', true)",
        guardSql(guard),
        moveStream,
        LOCK_TURN,
      ]);
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

/** Runs a statement of the user, which may be several, and makes sure that it left our transaction open. */
async function runWithin(session: Session, sql: string): Promise<void> {
  const before = onlyValue(await session.rows(TRANSACTION));
  await session.run([sql]);
  const after = onlyValue(await session.rows(TRANSACTION));
  if (before !== after) {
    throw new PawlError(
      "INPUT_INVALID",
      "The change of the schema ended the transaction it was run in. Leave out BEGIN, COMMIT and ROLLBACK.",
      { details: { sql } },
    );
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
