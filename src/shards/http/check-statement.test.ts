import { describe, expect, test } from "vitest";
import { checkStatement } from "./check-statement.ts";

describe("checkStatement", () => {
  test.each([
    "select 1",
    "  /* why */ SELECT 1",
    "-- why\nwith a as (select 1) select * from a",
    "values (1)",
    "select '_pawl_fences; commit' as text",
    "select my_pawl_column from a",
  ])("lets a query pass: %s", (sql) => {
    checkStatement(sql, false);
    checkStatement(sql, true);
  });

  test.each([
    "insert into a values (1)",
    "Replace into a values (1)",
    "delete from a",
    "update a set b = 1",
  ])("lets a write pass where writes are wanted: %s", (sql) => {
    checkStatement(sql, true);
    expect(() => checkStatement(sql, false)).toThrow(/begins with one of select/);
  });

  test.each([
    "commit",
    "/* select */ rollback",
    "begin",
    "savepoint a",
    "pragma foreign_keys = 0",
    "attach 'x' as y",
    "create table a (b)",
    "vacuum",
    ";select 1",
    "(select 1)",
    "",
    "--",
    "'select'",
  ])("refuses what ends the transaction, or is no data: %s", (sql) => {
    expect(() => checkStatement(sql, true)).toThrow(/A statement here begins with one of/);
  });

  test.each([
    "select * from _pawl_fences",
    'delete from "_pawl_fences"',
    "delete from [_PAWL_plans]",
    "update main._pawl_session set applying = 1",
    "select /* ' */ * from `_pawl_changes` -- '",
    'select "a--" from _pawl_changes',
  ])("keeps everybody out of what is Pawl's: %s", (sql) => {
    expect(() => checkStatement(sql, true)).toThrow(/are Pawl's own/);
  });
});
