import { readFileSync, readdirSync } from "node:fs";
import Database from "better-sqlite3";
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import type { AnyTable, Condition, Find, Order } from "../../src/kernel/table.ts";
import { TABLES } from "../../src/work/tables.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { schemaSteps } from "../../src/store/schema-steps.ts";
import { EVENT_TABLE, SIDE_TABLES } from "../../src/store/side-tables.ts";
import { SQLITE } from "../../src/store/sqlite/connection.ts";
import { findStatement, PARTIAL_INDEXES } from "../../src/store/statements.ts";
import { freshDatabaseUrl } from "../postgres.ts";

const DESCRIBED: AnyTable[] = [...Object.values(TABLES), ...SIDE_TABLES, EVENT_TABLE];

/** A table as a database has it: columns with their kind, sorted, and the key in order. */
type Shape = { columns: string[]; key: string[] };

const shapeOf = (table: AnyTable): Shape => ({
  columns: ["ws int", ...Object.entries(table.cells).map(cellText)].toSorted(),
  key: ["ws", ...table.key],
});

function cellText([name, kind]: [string, string]): string {
  return `${name} ${kind === "int" ? "int" : "text"}`;
}

const sqlite = new Database(":memory:");
for (const { sql } of schemaSteps("sqlite")) sqlite.exec(sql);

describe("SQLite schema", () => {
  type Column = { name: string; type: string; pk: number };

  test.each(DESCRIBED)("has the columns and the key of $name", (table) => {
    const columns = sqlite.pragma(`table_info("${table.name}")`) as Column[];
    expect({
      columns: columns
        .map(({ name, type }) => `${name} ${type === "INTEGER" ? "int" : "text"}`)
        .toSorted(),
      key: columns
        .filter(({ pk }) => pk > 0)
        .toSorted((a, b) => a.pk - b.pk)
        .map(({ name }) => name),
    }).toEqual(shapeOf(table));
  });

  const described = (name: string): AnyTable => {
    const table = DESCRIBED.find((candidate) => candidate.name === name);
    if (table === undefined) throw new Error(`There is no table ${name}.`);
    return table;
  };
  const planOf = (
    table: string,
    where: readonly Condition[],
    order: readonly Order[] = [],
    cells?: readonly string[],
  ): string => {
    const find: Find = { table: described(table), where, order, limit: 10 };
    const { sql, parameters } = findStatement(SQLITE, 1, find, cells);
    const steps = sqlite.prepare(`explain query plan ${sql}`).all(...parameters);
    return (steps as { detail: string }[]).map(({ detail }) => detail).join("\n");
  };

  test.each(PARTIAL_INDEXES)("finds along the partial index $name", ({ table, name, holds }) => {
    expect(planOf(table, holds)).toContain(`USING INDEX ${name} (ws=?`);
  });

  test.each(PARTIAL_INDEXES)("says what $name holds in plain words only", ({ table, holds }) => {
    const find = { table: described(table), where: holds, order: [], limit: 1 };
    // The workspace and the limit: SQLite prepares anew what it compared with a bare parameter.
    expect(findStatement(SQLITE, 1, find).parameters).toEqual([1, 1]);
  });

  test("compares with no bare parameter, which a partial index may be held against", () => {
    const pending: Condition = { cell: "status", is: "=", value: "PENDING" };
    const find = { table: described("segments"), where: [pending], order: [], limit: 1 };
    expect(findStatement(SQLITE, 1, find).sql).toContain('"status" = +?');
  });

  test("finds many keys of a large dynamic definition without reading the others", () => {
    const ofDefinition: Condition = { cell: "definition", is: "=", value: "d" };
    const listed: Condition = { cell: "partition_key", is: "in", values: ["a", "b"] };
    expect(planOf("dynamic_keys", [ofDefinition, listed])).toContain(
      "USING INDEX dynamic_keys_by_key (ws=? AND definition=? AND partition_key=?)",
    );
  });

  test("finds probes in the order they are due, of a kind and of a subject", () => {
    const ofKind: Condition = { cell: "kind", is: "=", value: "poll" };
    const ofSubject: Condition = { cell: "subject", is: "=", value: "s" };
    const due: Condition = { cell: "due_at", is: "<=", value: "2026" };
    const order: Order[] = [{ cell: "due_at" }, { cell: "probe_id" }];
    const plan = (where: Condition[]): string => planOf("probes", where, order);
    expect(plan([ofKind])).toMatch(/USING INDEX probes_due \(ws=\? AND kind=\?\)$/);
    expect(plan([ofKind, due])).toMatch(/ probes_due \(ws=\? AND kind=\? AND due_at<\?\)$/);
    const bySubject = "USING INDEX probes_by_subject (ws=? AND kind=? AND subject=?";
    expect(plan([ofKind, ofSubject]).endsWith(`${bySubject})`)).toBe(true);
    expect(plan([ofKind, ofSubject, due]).endsWith(`${bySubject} AND due_at<?)`)).toBe(true);
  });

  test("finds syncs by name and target, and by name and source, in the order of their ids", () => {
    const ofName: Condition = { cell: "name", is: "=", value: "n" };
    const ofTarget: Condition = { cell: "target_key", is: "=", value: "t" };
    const ofSource: Condition = { cell: "source", is: "=", value: "s" };
    const active: Condition = { cell: "state", is: "in", values: ["RUNNING", "FOLLOWING"] };
    const after: Condition = { cell: "sync_id", is: ">", value: "x" };
    const order: Order[] = [{ cell: "sync_id" }];
    const plan = (where: Condition[]): string => planOf("syncs", where, order);
    expect(plan([ofName, ofTarget])).toBe(
      "SEARCH syncs USING INDEX syncs_by_name (ws=? AND name=? AND target_key=?)",
    );
    const bySource = "SEARCH syncs USING INDEX syncs_by_source (ws=? AND name=? AND source=?";
    expect(plan([ofName, ofSource])).toBe(`${bySource})`);
    expect(plan([ofName, ofSource, active]).startsWith(`${bySource})`)).toBe(true);
    expect(plan([ofName, ofSource, active, after]).startsWith(`${bySource} AND sync_id>?)`)).toBe(
      true,
    );
    expect(plan([active])).not.toContain("TEMP B-TREE");
  });

  test("finds segments in order of their blocks, the open ones without reading the others", () => {
    const ofSync: Condition = { cell: "sync_id", is: "=", value: "s" };
    const open: Condition = { cell: "status", is: "=", value: "PENDING" };
    const set: Condition = { cell: "status", is: "=", value: "QUARANTINED" };
    const running: Condition = { cell: "run_pos", is: "not null" };
    const verifying: Condition = { cell: "verification", is: "not null" };
    const byBlock: Order[] = [{ cell: "from_block" }];
    const backwards: Order[] = [{ cell: "from_block", descending: true }];
    const byIndex: Order[] = [{ cell: "segment_index" }];
    const plan = (where: Condition[], order: Order[]): string =>
      planOf("segments", [ofSync, ...where], order);
    const along = (index: string): string =>
      `SEARCH segments USING INDEX ${index} (ws=? AND sync_id=?)`;
    expect(plan([], byBlock)).toBe(along("segments_by_block"));
    expect(plan([open], byBlock)).toBe(along("segments_open"));
    expect(plan([open], backwards)).toBe(along("segments_open"));
    expect(plan([set], byBlock)).toBe(along("segments_quarantined"));
    expect(plan([running], byIndex)).toBe(along("segments_active"));
    expect(plan([verifying], byIndex)).toBe(along("segments_verifying"));
  });

  test("finds segments of a move table by table, forwards and backwards, without reading others", () => {
    const ofMove: Condition = { cell: "move_id", is: "=", value: "m" };
    const pending: Condition = { cell: "state", is: "=", value: "PENDING" };
    const ofTable: Condition = { cell: "table_order", is: "=", value: 3 };
    const free: Condition = { cell: "run_pos", is: "null" };
    const order: Order[] = [{ cell: "table_order" }, { cell: "segment_index" }];
    const backwards = order.map((by): Order => ({ ...by, descending: true }));
    const along = "SEARCH move_segments USING INDEX move_segments_by_state (ws=? AND move_id=?";
    const plan = (where: Condition[], by: Order[]): string =>
      planOf("move_segments", [ofMove, ...where], by);
    expect(plan([pending], order)).toBe(`${along} AND state=?)`);
    expect(plan([pending], backwards)).toBe(`${along} AND state=?)`);
    expect(plan([pending, ofTable, free], order)).toBe(`${along} AND state=? AND table_order=?)`);
    const running: Condition = { cell: "run_pos", is: "not null" };
    expect(plan([running], [{ cell: "segment_index" }])).toContain("move_segments_active");
  });

  test("finds chunks that did not succeed by state, in order, without their rows", () => {
    const where: Condition[] = [
      { cell: "backfill_id", is: "=", value: "b" },
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "chunk_index", is: ">", value: 7 },
    ];
    const order: Order[] = [{ cell: "chunk_index" }];
    expect(planOf("chunks", where, order, ["chunk_index"])).toBe(
      "SEARCH chunks USING COVERING INDEX chunks_unsuccessful " +
        "(ws=? AND backfill_id=? AND state=? AND chunk_index>?)",
    );
  });

  test("finds the active runs of a backfill among the active ones", () => {
    const where: Condition[] = [
      { cell: "state", is: "in", values: ["PENDING", "RUNNING"] },
      { cell: "backfill_id", is: "=", value: "b" },
    ];
    expect(planOf("runs", where, [{ cell: "run_pos" }])).toContain("USING INDEX runs_active (ws=?");
  });

  test("prefers the key of a table where that is narrower", () => {
    const ofRun: Condition = { cell: "run_pos", is: "=", value: 7 };
    const due: Condition = { cell: "retry_at", is: "<=", value: "2026" };
    const ready: Condition = { cell: "ready", is: ">", value: 0 };
    expect(planOf("task_retries", [ofRun, due])).toContain("USING PRIMARY KEY (ws=? AND run_pos=?");
    expect(planOf("run_assets", [ofRun, ready])).toContain("USING PRIMARY KEY (ws=? AND run_pos=?");
  });
});

describe("PostgreSQL schema", () => {
  const shapes = new Map<string, Shape>();
  const collations = new Set<string>();
  const indexes = new Map<string, string>();

  beforeAll(async () => {
    const url = await freshDatabaseUrl();
    const store = await openPostgresStore({ url, unsafe: true });
    await store.close();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const columns = await client.query(
      `select table_name, column_name, data_type, collation_name
       from information_schema.columns where table_schema = 'pawl'`,
    );
    const shape = (name: string): Shape => shapes.get(name) ?? { columns: [], key: [] };
    for (const { table_name, column_name, data_type, collation_name } of columns.rows) {
      const kind = data_type === "bigint" ? "int" : data_type;
      const { columns: known, key } = shape(table_name);
      shapes.set(table_name, { columns: [...known, `${column_name} ${kind}`].toSorted(), key });
      if (kind === "text" && table_name !== "schema_steps") collations.add(collation_name);
    }
    const keys = await client.query(
      `select table_name, column_name
       from information_schema.table_constraints
       join information_schema.key_column_usage using (constraint_schema, constraint_name, table_name)
       where constraint_schema = 'pawl' and constraint_type = 'PRIMARY KEY'
       order by table_name, ordinal_position`,
    );
    for (const { table_name, column_name } of keys.rows) shape(table_name).key.push(column_name);
    const defined = await client.query("select * from pg_indexes where schemaname = 'pawl'");
    for (const { indexname, indexdef } of defined.rows) indexes.set(indexname, indexdef);
    await client.end();
  });

  test.each(DESCRIBED)("has the columns and the key of $name", (table) => {
    expect(shapes.get(table.name)).toEqual(shapeOf(table));
  });

  test("orders all text by code points", () => {
    expect(collations).toEqual(new Set(["C"]));
  });

  test("has the tables and indexes that SQLite has", () => {
    const own = sqlite
      .prepare("select type, name from sqlite_schema where name not like 'sqlite_%'")
      .all() as { type: string; name: string }[];
    const named = (type: string): string[] =>
      own.filter((thing) => thing.type === type).map(({ name }) => name);
    expect([...shapes.keys()].filter((name) => name !== "schema_steps").toSorted()).toEqual(
      named("table").toSorted(),
    );
    // The others are made by constraints, and only PostgreSQL gives those a name.
    expect([...indexes.keys()]).toEqual(expect.arrayContaining(named("index")));
  });

  test.each(PARTIAL_INDEXES)("has the partial index $name", ({ name, predicate }) => {
    const words = (text: string): string[] => text.match(/[\w']+/g) ?? [];
    const [, defined = ""] = (indexes.get(name) ?? "").split(" WHERE ");
    const known = new Set(words(defined.toLowerCase()));
    // PostgreSQL writes `in (…)` as `= any (array […])`.
    const missing = words(predicate.toLowerCase()).filter((word) => !known.has(word));
    expect(missing.filter((word) => word !== "in")).toEqual([]);
  });
});

describe("schema steps", () => {
  test.each(["sqlite", "postgres"])(
    "of %s say whether older processes may keep running",
    (store) => {
      const folder = new URL(`../../schema/${store}/`, import.meta.url);
      const files = readdirSync(folder);
      expect(files.every((file) => /^\d{4}-[a-z-]+\.sql$/.test(file))).toBe(true);
      for (const file of files) {
        const [first] = readFileSync(new URL(file, folder), "utf8").split("\n");
        expect(first).toMatch(/^-- Older processes may keep running: (yes|no)\.$/);
      }
    },
  );

  test("have the same numbers in both stores", () => {
    const numbers = (store: "sqlite" | "postgres"): number[] =>
      schemaSteps(store).map(({ step }) => step);
    expect(numbers("sqlite")).toEqual(numbers("postgres"));
  });
});
