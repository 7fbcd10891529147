import { describe, expect, test } from "vitest";
import type { ApplyRequest, ReadAnswer } from "../shard.ts";
import type { SqliteValue } from "./literals.ts";
import {
  applyRequestFromText,
  applyRequestToText,
  readAnswerFromText,
  readAnswerToText,
} from "./transfer.ts";

const VALUES: SqliteValue[] = [
  null,
  0n,
  -1n,
  9_007_199_254_740_991n,
  9_007_199_254_740_993n,
  9_223_372_036_854_775_807n,
  -9_223_372_036_854_775_808n,
  0,
  -0,
  1,
  0.1,
  1e300,
  5e-324,
  Infinity,
  -Infinity,
  "",
  "text",
  "1",
  `quotes " ' \\ and\nlines`,
  "grüße 🚀 \u2028",
  Buffer.alloc(0),
  Buffer.from([0, 255, 1]),
];

const COLUMNS = VALUES.map((_, index) => `c${index}`);
const IMAGE = { columns: COLUMNS, values: VALUES };
const BATCH = { count: 1, bytes: 100, body: { columns: COLUMNS, rows: [VALUES] } };
const CHANGE = { id: "1", table: "t", key: ["1"], covered: true, at: "2026-01-01", ddl: null };
const STATE = {
  position: "7",
  reaching: null,
  cursor: { table: 0, key: ["'a'"] },
  phase: "copy" as const,
  rows: [1],
  fingerprint: "f",
  verified: null,
};

const ANSWER: ReadAnswer = {
  position: "7",
  changes: [
    { ...CHANGE, op: "put", image: IMAGE },
    { ...CHANGE, op: "delete", image: null },
    { ...CHANGE, op: "ddl", image: null, ddl: { sql: "alter table t", fingerprint: "g" } },
  ],
  through_id: "9",
  complete: true,
  chunk: { rows: BATCH, last: ["1"], ended: false },
  fingerprint: "f",
  changed: { rows: 1, digest: "00" },
};

const REQUEST: ApplyRequest = {
  guard: { plan: "p", token: 3 },
  stream: "p",
  before: null,
  after: STATE,
  tables: [
    {
      table: "t",
      shard_by: "tenant",
      columns: [{ name: "id", type: "integer" }],
      key: ["id"],
      references: [],
      fingerprint: "f",
    },
  ],
  scope: [{ any: [{ is: "in", values: ["a"] }], negate: false }],
  changes: [
    {
      table: "t",
      rows: [
        { key: ["1"], image: IMAGE },
        { key: ["2"], image: null },
      ],
    },
  ],
  ddl: null,
  chunk: { table: "t", rows: BATCH },
  changed: { rows: 1, digest: "00" },
};

describe("transfer", () => {
  test("carries an answer with every kind of value exactly", () => {
    expect(readAnswerFromText(readAnswerToText(ANSWER))).toStrictEqual(ANSWER);
    const empty = { ...ANSWER, changes: [], chunk: null, changed: null, through_id: null };
    expect(readAnswerFromText(readAnswerToText(empty))).toStrictEqual(empty);
  });

  test("carries a request with every kind of value exactly", () => {
    expect(applyRequestFromText(applyRequestToText(REQUEST))).toStrictEqual(REQUEST);
  });

  test("writes the columns of images once", () => {
    const changes = Array.from({ length: 100 }, () => ({
      ...CHANGE,
      op: "put" as const,
      image: IMAGE,
    }));
    expect(readAnswerToText({ ...ANSWER, changes }).split('"c21"')).toHaveLength(3);
  });

  test.each([
    "no JSON",
    "{}",
    applyRequestToText(REQUEST).replaceAll('["b","AP8B"]', '["x","AP8B"]'),
    applyRequestToText(REQUEST).replace('"layout":0', '"layout":7'),
  ])("refuses what it does not understand", (text) => {
    expect(() => applyRequestFromText(text)).toThrow("is not understood");
  });
});
