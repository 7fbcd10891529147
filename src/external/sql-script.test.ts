import { describe, expect, test } from "vitest";
import { PawlError } from "../kernel/errors.ts";
import { type SqlDialect, sqlStatements } from "./sql-script.ts";

function refusal(script: string | string[], dialect: SqlDialect = "postgres"): string {
  try {
    sqlStatements(script, dialect);
  } catch (error) {
    if (error instanceof PawlError && error.code === "DEFINITION_INVALID") return error.message;
    throw error;
  }
  throw new Error("the script was taken");
}

describe("sqlStatements", () => {
  test("makes a place of its own for every name", () => {
    const script = "delete from t where d = :day::date; insert into t select :day, :n";
    expect(sqlStatements(script, "postgres")).toEqual([
      { text: "delete from t where d = $1::date", names: ["day"] },
      { text: "insert into t select $1, $2", names: ["day", "n"] },
    ]);
    expect(sqlStatements("select :a, :b, :a;", "sqlite")).toEqual([
      { text: "select ?, ?, ?", names: ["a", "b", "a"] },
    ]);
  });

  test.each<[string, SqlDialect, string]>([
    ["texts", "postgres", `select ':a;', 'it''s :a', "b;:a"`],
    ["texts with escapes", "postgres", String.raw`select E'\':a;' || e'\\'`],
    ["quoted bodies", "postgres", "select $$ :a; $$, $f$ $$:a;$$ $f$"],
    ["casts and slices", "postgres", "select list[low:high], list[1:n], x::text from t"],
    ["assignments", "postgres", "call f(a := 1)"],
    ["names of SQLite", "sqlite", "select `:a;` from t"],
  ])("leaves %s as they are", (_what, dialect, text) => {
    expect(sqlStatements(text, dialect)).toEqual([{ text, names: [] }]);
  });

  test("leaves comments out, nested ones where the database nests them", () => {
    const script = "select 1 -- :a; 'no end\n, 2 /* :b; /* :c */ */";
    expect(sqlStatements(script, "postgres")).toEqual([{ text: "select 1  \n, 2", names: [] }]);
    expect(sqlStatements("select 1 /* /* */ + :a", "sqlite")).toEqual([
      { text: "select 1   + ?", names: ["a"] },
    ]);
  });

  test("takes the items of a list as one statement each", () => {
    const trigger = "create trigger t after insert on a begin delete from b; end";
    expect(sqlStatements([trigger, "select :n"], "sqlite")).toEqual([
      { text: trigger, names: [] },
      { text: "select ?", names: ["n"] },
    ]);
  });

  test("refuses what is no statement, or not one of one transaction", () => {
    expect(refusal(" -- nothing\n;")).toContain("needs a statement");
    expect(refusal([])).toContain("needs a statement");
    expect(refusal("delete from t; commit; delete from u")).toContain('begins with "commit"');
    expect(refusal("/* first */ BEGIN", "sqlite")).toContain('begins with "begin"');
  });
});
