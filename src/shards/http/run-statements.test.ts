import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { checkStatement, fingerprintOf, RememberedRequests } from "./run-statements.ts";

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

const DAY_MS = 24 * 3_600_000;
const ANSWER = { results: [{ columns: [], rows: [], changes: 1, last_insert_rowid: 7 }] };

describe("remembered requests", () => {
  test("give the answer to the same request, and refuse another under its key", () => {
    const remembered = new RememberedRequests(new Database(":memory:"));
    expect(remembered.find("key", "a")).toBeNull();
    remembered.keep("key", "a", ANSWER, 0);
    expect(remembered.find("key", "a")).toEqual(ANSWER);
    expect(() => remembered.find("key", "b")).toThrow(/was used for other statements/);
  });

  test("are forgotten after a day, a few with each new one", () => {
    const db = new Database(":memory:");
    const remembered = new RememberedRequests(db);
    for (let index = 0; index < 15; index++) remembered.keep(`old-${index}`, "a", ANSWER, index);
    remembered.keep("new", "a", ANSWER, DAY_MS + 13);
    const keys = db.prepare("select key from _pawl_requests order by at").pluck().all();
    expect(keys).toEqual(["old-10", "old-11", "old-12", "old-13", "old-14", "new"]);
    remembered.keep("newer", "a", ANSWER, DAY_MS + 13);
    expect(remembered.find("old-12", "a")).toBeNull();
    expect(remembered.find("old-13", "a")).toEqual(ANSWER);
  });
});

test("a request is the same under another epoch, and another with other statements", () => {
  const request = { tenant: "a", epoch: 1, statements: [{ sql: "select 1", params: [] }] };
  const first = fingerprintOf(request);
  expect(fingerprintOf({ ...request, epoch: 2 })).toBe(first);
  expect(fingerprintOf({ ...request, tenant: "b" })).not.toBe(first);
  const params = [{ integer: "1" }];
  expect(fingerprintOf({ ...request, statements: [{ sql: "select 1", params }] })).not.toBe(first);
});
