import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "./spec.ts";

/*
 * The changes of a schema that a split carries out. A statement is run with the rights of a worker,
 * on two databases, so it is read here from its first to its last character, and what is not one of
 * these forms is not run: no expression, no function, nothing that reads or writes a row's values.
 *
 *   alter table T add [column] [if not exists] C type [not null | null | default V | unique | collate N]…
 *   alter table T drop [column] [if exists] C [restrict]
 *   alter table T rename [column] C to C
 *   alter table T alter [column] C [set data] type … | set default V | drop default | set not null | drop not null
 *   create [unique] index [if not exists] [N] on T [using N] (C [collate N] [asc | desc] [nulls first | last], …)
 *   drop index [if exists] N [restrict]
 *
 * where V is a number, a text, true, false or null. `add`, `drop` and `alter` may be several, with commas.
 */

/** A name as a statement writes it: in quotes it is meant to the letter. */
export type SqlName = { readonly text: string; readonly isQuoted: boolean };

/** What a statement changes: a table, or an index whose table the database knows. */
export type SchemaChange = {
  readonly what: "alter table" | "create index" | "drop index";
  readonly schema: SqlName | null;
  readonly name: SqlName;
};

type Token = { readonly kind: "word" | "name" | "text" | "number" | "sign"; readonly text: string };

const ALLOWED =
  "one statement that adds, drops, renames or alters columns of a table, or creates or drops an index, without expressions";

/** Pawl's own mark in a statement: the only comment that is read. */
const MARK = /^\/\* pawl [\w:-]+ \*\//;
const PATTERNS: readonly (readonly [Token["kind"], RegExp])[] = [
  // Databases fold other letters in ways of their own: those names need quotes.
  ["word", /^[A-Za-z_][A-Za-z0-9_]*(?![\u0080-\u{10FFFF}])/u],
  ["name", /^"(?:[^"\0]|"")+"/],
  ["text", /^'(?:[^'\\\0]|'')*'/],
  ["number", /^(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?(?![A-Za-z0-9_.])/i],
  ["sign", /^(?:::|[(),.;[\]+-])/],
];

/** Words that end a name where one might stand, so that a constraint is not taken for a column. */
const NO_COLUMN = new Set([
  "column",
  "constraint",
  "primary",
  "foreign",
  "unique",
  "check",
  "exclude",
  "table",
  "if",
  "to",
]);

/** Words that begin something else where a type might stand. */
const NO_TYPE = new Set(["as", "check", "constraint", "generated", "primary", "references"]);

/** Reads a statement that changes the schema. Throws INPUT_INVALID for anything but the forms above. */
export function parseSchemaChange(sql: string): SchemaChange {
  const reader = new Reader(sql, tokensOf(sql));
  const change = reader.statement();
  reader.end();
  return change;
}

/**
 * Refuses a statement on a table that is none of these. `schema` is where tables without one in their
 * name are; null where schemas are not told apart, and neither are upper and lower case.
 */
export function requireTable(
  change: SchemaChange,
  tables: readonly TablePolicy[],
  schema: string | null,
  named: string | null = null,
): void {
  if (change.what === "drop index" && named === null) return;
  const wanted = named ?? spelled(change, schema);
  const known = tables.map(({ table }) => table);
  const isKnown = known.some((table) =>
    schema === null
      ? isAlike(table, wanted)
      : (table.includes(".") ? table : `${schema}.${table}`) === wanted,
  );
  if (isKnown) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The statement is about ${wanted}, which is none of the tables that move with a tenant: ${known.join(", ")}.`,
    { details: { table: wanted, tables: known } },
  );
}

/** A table's own name is enough where schemas are not told apart. */
function isAlike(table: string, wanted: string): boolean {
  const [one, other] = [table.toLowerCase(), wanted.toLowerCase()];
  return one === other || one.endsWith(`.${other}`) || other.endsWith(`.${one}`);
}

function spelled({ schema, name }: SchemaChange, home: string | null): string {
  const text = ({ text: given, isQuoted }: SqlName): string =>
    isQuoted || home === null ? given : given.toLowerCase();
  const place = schema === null ? home : text(schema);
  return place === null ? text(name) : `${place}.${text(name)}`;
}

function tokensOf(sql: string): Token[] {
  const tokens: Token[] = [];
  let rest = sql;
  for (;;) {
    rest = rest.replace(/^[ \t\r\n]+/, "");
    if (rest === "") return tokens;
    const mark = MARK.exec(rest);
    if (mark !== null) {
      rest = rest.slice(mark[0].length);
      continue;
    }
    const found = PATTERNS.flatMap(([kind, pattern]) => {
      const text = pattern.exec(rest)?.[0];
      return text === undefined ? [] : [{ kind, text }];
    })[0];
    if (found === undefined) throw refused(sql, `${JSON.stringify(rest.slice(0, 20))} is not read`);
    tokens.push(found);
    rest = rest.slice(found.text.length);
  }
}

function refused(sql: string, why: string): PawlError {
  const shown = sql.length > 200 ? `${sql.slice(0, 200)}…` : sql;
  return new PawlError(
    "INPUT_INVALID",
    `The statement ${JSON.stringify(shown)} was not run: ${why}. A split takes ${ALLOWED}. Run anything else on each shard yourself, before or after it.`,
    { details: { sql: shown } },
  );
}

/** Goes through the tokens of a statement, each of which must be what the grammar has there. */
class Reader {
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(sql: string, tokens: readonly Token[]) {
    this.#sql = sql;
    this.#tokens = tokens;
  }

  statement(): SchemaChange {
    if (this.#takes("alter", "table")) return this.#alterTable();
    if (this.#takes("create", "unique", "index") || this.#takes("create", "index")) {
      return this.#createIndex();
    }
    if (this.#takes("drop", "index")) return this.#dropIndex();
    throw this.#unexpected("alter table, create index or drop index");
  }

  /** Nothing may follow but a semicolon. */
  end(): void {
    this.#takesSign(";");
    if (this.#at < this.#tokens.length) throw this.#unexpected("the end");
  }

  #alterTable(): SchemaChange {
    this.#takes("if", "exists");
    this.#takes("only");
    const table = this.#place();
    if (this.#takes("rename")) {
      this.#takes("column");
      this.#column();
      this.#must("to");
      this.#column();
    } else {
      do this.#alteration();
      while (this.#takesSign(","));
    }
    return { what: "alter table", ...table };
  }

  #alteration(): void {
    if (this.#takes("add")) {
      this.#takes("column");
      this.#takes("if", "not", "exists");
      this.#column();
      this.#typeIfAny();
      this.#constraints();
    } else if (this.#takes("drop")) {
      this.#takes("column");
      this.#takes("if", "exists");
      this.#column();
      this.#takes("restrict");
    } else if (this.#takes("alter")) {
      this.#takes("column");
      this.#column();
      this.#alterColumn();
    } else throw this.#unexpected("add, drop, rename or alter");
  }

  #alterColumn(): void {
    if (this.#takes("set", "data", "type") || this.#takes("type")) {
      this.#type();
      if (this.#takes("collate")) this.#place();
    } else if (this.#takes("set", "default")) this.#value();
    else if (
      !this.#takes("drop", "default") &&
      !this.#takes("set", "not", "null") &&
      !this.#takes("drop", "not", "null")
    ) {
      throw this.#unexpected("type, set default, drop default, set not null or drop not null");
    }
  }

  #constraints(): void {
    for (;;) {
      if (this.#takes("default")) this.#value();
      else if (this.#takes("collate")) this.#place();
      else if (!this.#takes("not", "null") && !this.#takes("null") && !this.#takes("unique")) {
        return;
      }
    }
  }

  #createIndex(): SchemaChange {
    this.#takes("if", "not", "exists");
    if (!this.#is("on")) this.#name();
    this.#must("on");
    this.#takes("only");
    const table = this.#place();
    if (this.#takes("using")) this.#name();
    this.#mustSign("(");
    do {
      this.#column();
      if (this.#takes("collate")) this.#place();
      if (!this.#takes("asc")) this.#takes("desc");
      if (!this.#takes("nulls", "first")) this.#takes("nulls", "last");
    } while (this.#takesSign(","));
    this.#mustSign(")");
    return { what: "create index", ...table };
  }

  #dropIndex(): SchemaChange {
    this.#takes("if", "exists");
    const index = this.#place();
    this.#takes("restrict");
    return { what: "drop index", ...index };
  }

  /** SQLite takes columns without a type. */
  #typeIfAny(): void {
    const isType = this.#peek()?.kind === "word" || this.#peek()?.kind === "name";
    const isConstraint = ["default", "collate", "not", "null", "unique"].some((word) =>
      this.#is(word),
    );
    if (isType && !isConstraint) this.#type();
  }

  #type(): void {
    if ([...NO_TYPE].some((word) => this.#is(word))) throw this.#unexpected("a type");
    this.#place();
    if (!this.#takes("precision")) this.#takes("varying");
    if (this.#takesSign("(")) {
      do {
        this.#takesSign("-");
        this.#kind("number", "a length");
      } while (this.#takesSign(","));
      this.#mustSign(")");
    }
    if (!this.#takes("with", "time", "zone")) this.#takes("without", "time", "zone");
    while (this.#takesSign("[")) {
      if (this.#peek()?.kind === "number") this.#at += 1;
      this.#mustSign("]");
    }
  }

  #value(): void {
    const isSigned = this.#takesSign("-") || this.#takesSign("+");
    const kind = this.#peek()?.kind;
    if (kind === "number" || (kind === "text" && !isSigned)) this.#at += 1;
    else if (isSigned || !["true", "false", "null"].some((word) => this.#takes(word))) {
      throw this.#unexpected("a number, a text, true, false or null");
    }
    if (this.#takesSign("::")) this.#type();
  }

  /** `name` or `schema.name`. */
  #place(): Pick<SchemaChange, "schema" | "name"> {
    const first = this.#name();
    return this.#takesSign(".")
      ? { schema: first, name: this.#name() }
      : { schema: null, name: first };
  }

  #column(): void {
    const { text, isQuoted } = this.#name();
    if (isQuoted || !NO_COLUMN.has(text.toLowerCase())) return;
    this.#at -= 1;
    throw this.#unexpected("a column");
  }

  #name(): SqlName {
    const token = this.#peek();
    if (token?.kind !== "word" && token?.kind !== "name") throw this.#unexpected("a name");
    this.#at += 1;
    if (token.kind === "word") return { text: token.text, isQuoted: false };
    return { text: token.text.slice(1, -1).replaceAll('""', '"'), isQuoted: true };
  }

  #kind(kind: Token["kind"], what: string): void {
    if (this.#peek()?.kind !== kind) throw this.#unexpected(what);
    this.#at += 1;
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#at];
  }

  #is(word: string, ahead = 0): boolean {
    const token = this.#tokens[this.#at + ahead];
    return token?.kind === "word" && token.text.toLowerCase() === word;
  }

  #takes(...words: readonly string[]): boolean {
    if (!words.every((word, ahead) => this.#is(word, ahead))) return false;
    this.#at += words.length;
    return true;
  }

  #must(word: string): void {
    if (!this.#takes(word)) throw this.#unexpected(word);
  }

  #takesSign(sign: string): boolean {
    const token = this.#peek();
    if (token?.kind !== "sign" || token.text !== sign) return false;
    this.#at += 1;
    return true;
  }

  #mustSign(sign: string): void {
    if (!this.#takesSign(sign)) throw this.#unexpected(JSON.stringify(sign));
  }

  #unexpected(wanted: string): PawlError {
    const found = this.#peek();
    const there = found === undefined ? "its end" : JSON.stringify(found.text);
    return refused(this.#sql, `expected ${wanted}, got ${there}`);
  }
}
