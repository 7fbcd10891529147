import { PawlError } from "../../core/errors.ts";

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
  if (!/(?:^|[^a-z0-9_$])_pawl_/i.test(text)) return;
  throw new PawlError("FORBIDDEN", "Tables that begin with _pawl_ are Pawl's own.", {
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
