import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import { Refusal, type RoutedShard } from "../router/routed-shard.ts";
import { sqliteRoutedShard } from "../router/sqlite-routed-shard.ts";
import { asRefusal } from "../sqlite/enter.ts";
import { shardFailure } from "../sqlite/failures.ts";
import {
  parametersFromWire,
  ROWS_MAX,
  type SqlValue,
  type StatementResult,
  StatementsAnswer,
  type StatementsRequest,
  toWire,
  type WireValue,
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

const READS = new Set(["select", "with", "values", "explain"]);
const WRITES = new Set([...READS, "insert", "replace", "update", "delete"]);

/**
 * Refuses a statement that would get around the transaction it is run in, or change what Pawl keeps
 * in the shard. Whether a `with` reads or writes, the database knows.
 */
export function checkStatement(sql: string, mayWrite: boolean): void {
  const text = bareText(sql);
  const [word = ""] = /[a-z]+/i.exec(text.trimStart()) ?? [];
  const allowed = mayWrite ? WRITES : READS;
  if (!text.trimStart().startsWith(word) || !allowed.has(word.toLowerCase())) {
    throw new PawlError(
      "INPUT_INVALID",
      `A statement here begins with one of ${[...allowed].join(", ")}, not with ` +
        `${JSON.stringify(text.trim().slice(0, 20))}. The transaction is begun and ended for you, ` +
        "and `/ddl` changes the schema.",
      { details: { sql: sql.slice(0, 200) } },
    );
  }
  if (/(?:^|[^a-z0-9_$])_pawl_/i.test(text)) throw ownTable(sql);
}

/** Where tables of Pawl's, and their indexes, begin in the file. */
const OWN_PAGES = `
  select rootpage
  from sqlite_schema
  where rootpage > 0 and tbl_name like '\\_pawl\\_%' escape '\\'
`;

/** Where SQLite keeps the numbers that it has given out, Pawl's place in its log among them. */
const NUMBERS_PAGE = "select rootpage from sqlite_schema where name = 'sqlite_sequence'";

/**
 * What follows where SQLite itself opens that table to note a number, for a row of the statement or of
 * a trigger; no statement on the table goes on so.
 */
const NOTES_NUMBER = ["NotNull", "NewRowid", "MakeRecord", "Insert", "Close"];

/** A step of a compiled statement, as `explain` lists it. */
type Step = { addr: number; opcode: string; p1: number; p2: number; p3: number };

/**
 * Refuses a statement that would open a table of Pawl's, or set numbers that SQLite has given out,
 * however it names them: SQLite takes a text in single quotes for a name too, and a view is a name for
 * what it reads. So the database itself is asked what it is going to open; what triggers open, those
 * of Pawl among them, is their own affair.
 */
export function checkTables(db: Database.Database, sql: string, bound: readonly unknown[]): void {
  if (/^\s*explain\b/i.test(bareText(sql))) return;
  const steps = db.prepare<unknown[], Step>(`explain ${sql}`).all(...bound);
  // The programs of triggers follow that of the statement, each counted from 0 again.
  const triggersAt = steps.findIndex(({ addr }, at) => at > 0 && addr === 0);
  const program = triggersAt < 0 ? steps : steps.slice(0, triggersAt);
  const opened = new Set(program.flatMap(pageOf));
  const own = db.prepare<[], { rootpage: number }>(OWN_PAGES).all();
  if (own.some(({ rootpage }) => opened.has(rootpage))) throw ownTable(sql);
  const numbers = db.prepare<[], { rootpage: number }>(NUMBERS_PAGE).get();
  if (numbers !== undefined && setsNumbers(program, numbers.rootpage)) throw numbersSet(sql);
}

/** Whether a program writes to the table of numbers otherwise than SQLite does by itself. */
function setsNumbers(program: readonly Step[], page: number): boolean {
  return program.some((step, at) => {
    if (step.opcode === "OpenRead" || !pageOf(step).includes(page)) return false;
    return NOTES_NUMBER.some((opcode, next) => program[at + 1 + next]?.opcode !== opcode);
  });
}

/** The page of the main file that a step opens or empties. */
function pageOf({ opcode, p1, p2, p3 }: Step): number[] {
  if (opcode === "OpenRead" || opcode === "OpenWrite" || opcode === "ReopenIdx") {
    return p3 === 0 ? [p2] : [];
  }
  return opcode === "Clear" && p2 === 0 ? [p1] : [];
}

function ownTable(sql: string): PawlError {
  return new PawlError("FORBIDDEN", "Tables that begin with _pawl_ are Pawl's own.", {
    details: { sql: sql.slice(0, 200) },
  });
}

function numbersSet(sql: string): PawlError {
  return new PawlError(
    "FORBIDDEN",
    "Only SQLite writes to sqlite_sequence, where Pawl's place in its log of changes stands too. Give " +
      "rows the ids that they should have instead.",
    { details: { sql: sql.slice(0, 200) } },
  );
}

/** Texts, comments, and names in quotes; what is not closed goes to the end. */
const OPAQUE =
  /'(?:[^']|'')*(?:'|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|"(?:[^"]|"")*"?|`[^`]*`?|\[[^\]]*\]?/g;

/** The statement without its texts and comments; names in quotes stay. */
function bareText(sql: string): string {
  return sql.replaceAll(OPAQUE, (part) => {
    if (part.startsWith("'")) return "''";
    return part.startsWith("--") || part.startsWith("/*") ? " " : part;
  });
}

/** How long the answer to a mutation is kept for somebody who sends it again. */
const KEPT_MS = 24 * 3_600_000;

const INSTALL = `
  create table if not exists _pawl_requests (
    key text primary key,
    fingerprint text not null,
    answer text not null,
    at integer not null
  ) without rowid;
  create index if not exists _pawl_requests_at on _pawl_requests (at);
`;
const FIND = "select fingerprint, answer from _pawl_requests where key = ?";
const KEEP = "insert into _pawl_requests (key, fingerprint, answer, at) values (?, ?, ?, ?)";
/** A few with each new one, so that no write pays for many. */
const FORGET = `
  delete from _pawl_requests
  where key in (select key from _pawl_requests where at < ? order by at limit 10)
`;

/** The mutations that a shard has carried out, kept in the transaction that did so. */
export class RememberedRequests {
  readonly #find: Database.Statement<[string], { fingerprint: string; answer: string }>;
  readonly #keep: Database.Statement<[string, string, string, number]>;
  readonly #forget: Database.Statement<[number]>;

  constructor(db: Database.Database) {
    db.exec(INSTALL);
    this.#find = db.prepare(FIND);
    this.#keep = db.prepare(KEEP);
    this.#forget = db.prepare(FORGET);
  }

  /** The answer to a request that was carried out. Throws `IDEMPOTENCY_KEY_REUSED` for another one. */
  find(key: string, fingerprint: string): StatementsAnswer | null {
    const found = this.#find.get(key);
    if (found === undefined) return null;
    if (found.fingerprint === fingerprint) return StatementsAnswer.parse(JSON.parse(found.answer));
    throw new PawlError(
      "IDEMPOTENCY_KEY_REUSED",
      `The key ${JSON.stringify(key)} was used for other statements. Use a new one.`,
      { details: { idempotency_key: key } },
    );
  }

  /** Keeps an answer; call it in the transaction that it is about. */
  keep(key: string, fingerprint: string, answer: StatementsAnswer, nowMs: number): void {
    this.#keep.run(key, fingerprint, JSON.stringify(answer), nowMs);
    this.#forget.run(nowMs - KEPT_MS);
  }
}

/** What makes two requests the same: all but the epoch, which a repeat may have learnt anew. */
export function fingerprintOf({ tenant, statements }: StatementsRequest): string {
  return createHash("sha256")
    .update(JSON.stringify([tenant, statements]))
    .digest("hex");
}
