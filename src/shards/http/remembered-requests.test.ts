import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { fingerprintOf, RememberedRequests } from "./remembered-requests.ts";

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
