import { describe, expect, test } from "vitest";
import { tenantScope } from "../../../work/shard/spec.ts";
import type { RowChange, ReadAnswer, StreamState } from "../../../shards/shard.ts";
import { decideStep, type StreamPlan } from "./decide-step.ts";

const PLAN: StreamPlan = {
  guard: { plan: "plan", token: 1 },
  stream: "plan",
  scope: tenantScope(["a"]),
  tables: ["first", "second"].map((table) => ({
    table,
    shard_by: "tenant",
    columns: [],
    key: ["id"],
    references: [],
    fingerprint: "same",
  })),
};

const state = (given: Partial<StreamState> = {}): StreamState => ({
  position: "p1",
  reaching: null,
  cursor: { table: 0, key: ["5"] },
  phase: "copy",
  rows: [5, 0],
  fingerprint: "same",
  verified: null,
  ...given,
});

const tail = (given: Partial<StreamState> = {}): StreamState =>
  state({ phase: "tail", cursor: { table: 2, key: null }, ...given });

const change = (id: string, key: string, given: Partial<RowChange> = {}): RowChange => ({
  id,
  table: "first",
  op: "put",
  key: [key],
  covered: true,
  image: `image ${id}`,
  ddl: null,
  at: "2026-01-01T00:00:00.000Z",
  ...given,
});

const answer = (given: Partial<ReadAnswer> = {}): ReadAnswer => ({
  position: "p2",
  changes: [],
  through_id: null,
  complete: true,
  chunk: null,
  fingerprint: "same",
  changed: { rows: 0, digest: "" },
  ...given,
});

const chunk = (last: string | null, ended: boolean): ReadAnswer["chunk"] => ({
  rows: { count: last === null ? 0 : 2, bytes: 10, body: "rows" },
  last: last === null ? null : [last],
  ended,
});

describe("decideStep", () => {
  test("moves position and cursor on together with a chunk", () => {
    const { request } = decideStep(PLAN, state(), answer({ chunk: chunk("7", false) }), null);
    expect(request.before).toEqual(state());
    expect(request.after).toMatchObject({
      position: "p2",
      cursor: { table: 0, key: ["7"] },
      rows: [7, 0],
      phase: "copy",
    });
    expect(request.chunk?.table).toBe("first");
  });

  test("goes to the next table, and to the tail, when a chunk ends its table", () => {
    const next = decideStep(PLAN, state(), answer({ chunk: chunk(null, true) }), null).request;
    expect(next.after).toMatchObject({ cursor: { table: 1, key: null }, phase: "copy" });
    expect(next.chunk).toBeNull();
    const last = decideStep(PLAN, next.after, answer({ chunk: chunk("1", true) }), null).request;
    expect(last.after).toMatchObject({ cursor: { table: 2, key: null }, phase: "tail" });
  });

  test("keeps the last image of each covered key and leaves out what a later chunk has", () => {
    const changes = [
      change("1", "3"),
      change("2", "4"),
      change("3", "3", { op: "delete", image: null }),
      change("4", "9", { covered: false }),
    ];
    const { request } = decideStep(PLAN, state(), answer({ changes, through_id: "9" }), null);
    expect(request.changes).toEqual([
      {
        table: "first",
        rows: [
          { key: ["3"], image: null },
          { key: ["4"], image: "image 2" },
        ],
      },
    ]);
    // The digest of the source has the row in it that the target does not have yet.
    expect(request.changed).toBeNull();
  });

  test("takes no chunk before all changes, and passes those of others", () => {
    const some = answer({ changes: [change("1", "3")], through_id: "8", complete: false });
    const { request } = decideStep(PLAN, state(), { ...some, chunk: chunk("7", false) }, null);
    expect(request.chunk).toBeNull();
    expect(request.after).toEqual(state({ reaching: { to: "p2", after_id: "8" } }));
  });

  test("takes a change of the schema by itself, and what comes before it first", () => {
    const ddl = change("2", "", { op: "ddl", ddl: { sql: "alter", fingerprint: "other" } });
    const both = answer({
      changes: [change("1", "3"), ddl, change("3", "4")],
      fingerprint: "other",
    });
    const rows = decideStep(PLAN, tail(), both, null).request;
    expect([rows.ddl, rows.after.reaching]).toEqual([null, { to: "p2", after_id: "1" }]);
    const schema = decideStep(PLAN, rows.after, answer({ changes: [ddl] }), "p2").request;
    expect(schema).toMatchObject({ ddl: "alter", changes: [] });
    expect(schema.after).toMatchObject({ fingerprint: "other", verified: null });
  });

  test("stops at a schema that nobody has said to be changed", () => {
    expect(() => decideStep(PLAN, tail(), answer({ fingerprint: "other" }), null)).toThrow(
      expect.objectContaining({ code: "SCHEMA_CHANGED" }),
    );
  });

  test("counts as verified only what was compared in the present", () => {
    const verified = { table: 2, below: null, from: "p1", ranges: 3, rows: 9 };
    const changes = [change("1", "3")];
    const changed = { rows: 1, digest: "x" };
    const from = (given: Partial<ReadAnswer>, to: string | null): string | undefined =>
      decideStep(PLAN, tail({ verified }), answer({ changes, ...given }), to).request.after.verified
        ?.from;
    expect(from({ changed }, null)).toBe("p2");
    expect(from({ changed: null }, null)).toBe("p1");
    expect(from({ changed: null }, "p2")).toBe("p1");
  });
});
