import type Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";

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

/** A step of a compiled statement, as `explain` lists it. */
type Step = { addr: number; opcode: string; p1: number; p2: number; p3: number };

/**
 * Refuses a statement that would open a table of Pawl's, however it names it: SQLite takes a text in
 * single quotes for a name too, and a view is a name for what it reads. So the database itself is
 * asked what it is going to open; what triggers open, those of Pawl among them, is their own affair.
 */
export function checkTables(db: Database.Database, sql: string, bound: readonly unknown[]): void {
  if (/^\s*explain\b/i.test(bareText(sql))) return;
  const steps = db.prepare<unknown[], Step>(`explain ${sql}`).all(...bound);
  // The programs of triggers follow that of the statement, each counted from 0 again.
  const triggersAt = steps.findIndex(({ addr }, at) => at > 0 && addr === 0);
  const opened = new Set((triggersAt < 0 ? steps : steps.slice(0, triggersAt)).flatMap(pageOf));
  const own = db.prepare<[], { rootpage: number }>(OWN_PAGES).all();
  if (own.some(({ rootpage }) => opened.has(rootpage))) throw ownTable(sql);
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
