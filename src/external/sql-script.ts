import { PawlError } from "../kernel/errors.ts";

/** The databases whose SQL is read here. */
export type SqlDialect = "postgres" | "sqlite";

/** A statement as its database takes it, and the names of its parameters, place by place. */
export type SqlStatement = { text: string; names: readonly string[] };

/** Statements that would end the one transaction that all of them are in. */
const TRANSACTION_WORDS = new Set(["abort", "begin", "commit", "end", "rollback", "start"]);

/**
 * The statements of a script, which end with `;`, or of a list, whose items are one statement each.
 * `:name` becomes a parameter wherever it is no part of a text, a name or a comment; nothing is ever
 * pasted into a statement. Throws `DEFINITION_INVALID` for what cannot be one transaction.
 */
export function sqlStatements(
  script: string | readonly string[],
  dialect: SqlDialect,
): SqlStatement[] {
  const read = (text: string, isSplit: boolean) => new SqlReader(text, dialect, isSplit).read();
  const statements =
    typeof script === "string" ? read(script, true) : script.flatMap((each) => read(each, false));
  if (statements.length === 0) {
    throw new PawlError("DEFINITION_INVALID", "sql() needs a statement; its script has none.");
  }
  for (const { text } of statements) {
    const word = /^[a-z]+/i.exec(text)?.[0].toLowerCase() ?? "";
    if (!TRANSACTION_WORDS.has(word)) continue;
    throw new PawlError(
      "DEFINITION_INVALID",
      `sql() has a statement that begins with ${JSON.stringify(word)}; all its statements are one ` +
        "transaction, which it begins and commits by itself.",
    );
  }
  return statements;
}

/** What may stand right before a `:` that begins no parameter, as in `list[low:high]`. */
const JOINED = /[\w\])]/;
const NAME = /[A-Za-z_]\w*/y;
const TAG = /\$(?:[A-Za-z_]\w*)?\$/y;

/** Reads SQL once, from left to right; it knows what is text and what is a comment, and no more. */
class SqlReader {
  readonly #sql: string;
  readonly #dialect: SqlDialect;
  readonly #isSplit: boolean;
  readonly #statements: SqlStatement[] = [];
  #at = 0;
  #text = "";
  #names: string[] = [];

  constructor(sql: string, dialect: SqlDialect, isSplit: boolean) {
    this.#sql = sql;
    this.#dialect = dialect;
    this.#isSplit = isSplit;
  }

  read(): SqlStatement[] {
    while (this.#at < this.#sql.length) this.#readNext();
    this.#endStatement();
    return this.#statements;
  }

  #readNext(): void {
    const character = this.#sql.charAt(this.#at);
    const next = this.#sql.charAt(this.#at + 1);
    if (character === "-" && next === "-") this.#leaveOut(this.#endOfLine());
    else if (character === "/" && next === "*") this.#leaveOut(this.#endOfComment());
    else if (character === "'" || character === '"' || character === "`") {
      this.#copy(this.#endOfQuoted(character));
    } else if (character === "$" && this.#dialect === "postgres" && this.#matches(TAG) !== "") {
      this.#copy(this.#endOfTagged(this.#matches(TAG)));
    } else if (character === ":" && (next === ":" || next === "=")) this.#copy(this.#at + 2);
    else if (character === ":" && !JOINED.test(this.#sql.charAt(this.#at - 1))) this.#parameter();
    else if (character === ";" && this.#isSplit) {
      this.#at++;
      this.#endStatement();
    } else this.#copy(this.#at + 1);
  }

  #parameter(): void {
    this.#at++;
    const name = this.#matches(NAME);
    if (name === "") {
      this.#text += ":";
      return;
    }
    this.#at += name.length;
    this.#names.push(name);
    // A place of its own for each: PostgreSQL finds a type for every place.
    this.#text += this.#dialect === "postgres" ? `$${this.#names.length}` : "?";
  }

  #endStatement(): void {
    const text = this.#text.trim();
    if (text !== "") this.#statements.push({ text, names: this.#names });
    this.#text = "";
    this.#names = [];
  }

  #copy(end: number): void {
    this.#text += this.#sql.slice(this.#at, end);
    this.#at = end;
  }

  /** A comment parts what is around it, as a space does. */
  #leaveOut(end: number): void {
    this.#text += " ";
    this.#at = end;
  }

  #endOfLine(): number {
    const end = this.#sql.indexOf("\n", this.#at);
    return end === -1 ? this.#sql.length : end;
  }

  /** PostgreSQL's comments may have comments in them. */
  #endOfComment(): number {
    const mark = /\/\*|\*\//g;
    mark.lastIndex = this.#at + 2;
    let depth = 1;
    for (let found = mark.exec(this.#sql); found !== null; found = mark.exec(this.#sql)) {
      if (found[0] === "*/") depth--;
      else if (this.#dialect === "postgres") depth++;
      if (depth === 0) return mark.lastIndex;
    }
    return this.#sql.length;
  }

  /** A doubled quote stands for itself; behind an E, so does one with a backslash before it. */
  #endOfQuoted(quote: string): number {
    const before = this.#sql.slice(Math.max(0, this.#at - 2), this.#at);
    const escapes = quote === "'" && this.#dialect === "postgres" && /(?:^|\W)e$/i.test(before);
    for (let at = this.#at + 1; at < this.#sql.length; at++) {
      const character = this.#sql.charAt(at);
      if (escapes && character === "\\") at++;
      else if (character === quote && this.#sql.charAt(at + 1) === quote) at++;
      else if (character === quote) return at + 1;
    }
    return this.#sql.length;
  }

  #endOfTagged(tag: string): number {
    const end = this.#sql.indexOf(tag, this.#at + tag.length);
    return end === -1 ? this.#sql.length : end + tag.length;
  }

  /** What a sticky pattern finds right here; nothing when it does not. */
  #matches(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#sql)?.[0] ?? "";
  }
}
