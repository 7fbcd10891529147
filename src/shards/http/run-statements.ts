import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import { Refusal, type RoutedShard } from "../router/routed-shard.ts";
import { sqliteRoutedShard } from "../router/sqlite-routed-shard.ts";
import { asRefusal } from "../sqlite/enter.ts";
import { shardFailure } from "../sqlite/failures.ts";
import { checkStatement, checkTables } from "./check-statement.ts";
import { fingerprintOf, RememberedRequests } from "./remembered-requests.ts";
import { parametersFromWire, type SqlValue, toWire, type WireValue } from "./sql-values.ts";
import {
  ROWS_MAX,
  type StatementResult,
  type StatementsAnswer,
  type StatementsRequest,
} from "./statement-protocol.ts";

/** Most bytes of texts and blobs in an answer: 64 MiB. */
const ANSWER_BYTES_MAX = 67_108_864;

/** Runs an application's statements on a shard's file. */
export interface StatementRunner {
  query(request: StatementsRequest): Promise<StatementsAnswer>;
  /** Once for a key; a repeat gives the first answer again. */
  mutate(
    request: StatementsRequest,
    key: string,
  ): Promise<{ answer: StatementsAnswer; isReplayed: boolean }>;
  close(): void;
}

/** Opens a shard's file for an application's statements. Throws `SHARD_UNREACHABLE`. */
export function openStatementRunner(file: string): StatementRunner {
  const { db, remembered } = openFile(file);
  const shard = sqliteRoutedShard("this", db);
  const totals = db.prepare("select changes(), last_insert_rowid()").raw().safeIntegers();
  const counted = (): [bigint, bigint] => totals.get() as [bigint, bigint];

  function runAll(request: StatementsRequest, mayWrite: boolean): StatementsAnswer {
    const budget = { bytes: ANSWER_BYTES_MAX };
    const results = request.statements.map(({ sql, params }, index) => {
      try {
        checkStatement(sql, mayWrite);
        const statement = db.prepare<unknown[], SqlValue[]>(sql);
        if (!mayWrite && !statement.readonly) throw writesInQuery();
        const parameters = parametersFromWire(params);
        const bound = Array.isArray(parameters) ? parameters : [parameters];
        checkTables(db, sql, bound);
        return runOne(statement, bound, counted, budget);
      } catch (error) {
        throw asRefusal(error) === null ? statementError(error, index, request) : error;
      }
    });
    return { results };
  }

  return {
    query: (request) => entered(shard, "read", request, () => runAll(request, false)),
    async mutate(request, key) {
      const fingerprint = fingerprintOf(request);
      try {
        return await entered(shard, "write", request, () => {
          const before = remembered.find(key, fingerprint);
          if (before !== null) return { answer: before, isReplayed: true };
          const answer = runAll(request, true);
          remembered.keep(key, fingerprint, answer, Date.now());
          return { answer, isReplayed: false };
        });
      } catch (error) {
        // Whoever lost the answer must hear that it was done, though it could not be done now.
        const before = remembered.find(key, fingerprint);
        if (before === null) throw error;
        return { answer: before, isReplayed: true };
      }
    },
    close: () => db.close(),
  };
}

function openFile(file: string): { db: Database.Database; remembered: RememberedRequests } {
  const isNew = !existsSync(file);
  let db: Database.Database | null = null;
  try {
    // Waiting inside SQLite would stop everybody whom this process serves.
    db = new Database(file, { timeout: 0 });
    // The file is the application's, but one that is made here lets readers go on beside a writer.
    if (isNew) db.pragma("journal_mode = wal");
    // A commit is told to somebody else, so it must outlive a loss of power.
    db.pragma("synchronous = extra");
    return { db, remembered: new RememberedRequests(db) };
  } catch (error) {
    db?.close();
    throw shardFailure(error, file);
  }
}

async function entered<Answer>(
  shard: RoutedShard,
  how: "read" | "write",
  { tenant, epoch }: StatementsRequest,
  work: () => Answer,
): Promise<Answer> {
  try {
    return (await shard[how]({ tenant, epoch, isolation: null }, work)) as Answer;
  } catch (error) {
    throw error instanceof Refusal ? error.refusal : error;
  }
}

function runOne(
  statement: Database.Statement<unknown[], SqlValue[]>,
  bound: readonly unknown[],
  counted: () => [bigint, bigint],
  budget: { bytes: number },
): StatementResult {
  let columns: string[] = [];
  const rows: WireValue[][] = [];
  if (statement.reader) {
    columns = statement.columns().map(({ name }) => name);
    for (const row of statement
      .raw()
      .safeIntegers()
      .iterate(...bound)) {
      if (rows.length === ROWS_MAX) throw tooMuch(`${ROWS_MAX} rows`);
      for (const value of row) budget.bytes -= sizeOf(value);
      if (budget.bytes < 0) throw tooMuch(`${ANSWER_BYTES_MAX} bytes`);
      rows.push(row.map(toWire));
    }
  } else {
    statement.run(...bound);
  }
  const [changes, rowid] = counted();
  return {
    columns,
    rows,
    changes: statement.readonly ? 0 : Number(changes),
    last_insert_rowid: toWire(rowid),
  };
}

function sizeOf(value: SqlValue): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : 8;
}

function tooMuch(limit: string): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `An answer has at most ${limit}. Ask for less, in the order of a key and page by page.`,
  );
}

function writesInQuery(): PawlError {
  return new PawlError("INPUT_INVALID", "A query may not write. Send it to `/mutation`.");
}

/** What keeps the whole shard from working; everything else is about the statement. */
const BROKEN = /^SQLITE_(?:IOERR|FULL|CORRUPT|CANTOPEN|NOTADB|READONLY|NOMEM|PROTOCOL)/;

function statementError(error: unknown, index: number, request: StatementsRequest): unknown {
  if (!(error instanceof Error)) return error;
  const count = request.statements.length;
  const where = count === 1 ? "The statement" : `Statement ${index + 1} of ${count}`;
  if (error instanceof PawlError) {
    if (count === 1) return error;
    return new PawlError(error.code, `${where}: ${error.message}`, { details: error.details });
  }
  const code = (error as { code?: unknown }).code ?? null;
  if (typeof code === "string" && code.startsWith("SQLITE_BUSY")) return error;
  if (typeof code === "string" && BROKEN.test(code)) {
    return new PawlError("SHARD_UNREACHABLE", `The shard's file fails: ${error.message}.`, {
      cause: error,
      details: { sqlite_code: code },
    });
  }
  const sentence = error.message.replace(/\.$/, "");
  return new PawlError("INPUT_INVALID", `${where} cannot be run: ${sentence}.`, {
    cause: error,
    details: { statement: index, sqlite_code: code },
  });
}
