import { expect, test } from "vitest";
import { tenantScope } from "../../../src/work/shard/spec.ts";
import {
  applying,
  carryOver,
  changesSince,
  createTables,
  enrol,
  GUARD,
  shapeOf,
  shapesOf,
  spelled,
  state,
  TABLES,
} from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** Whose a row is: the same to routing, fences, capture, copy and removal. */
export function tenantCases(pair: () => ShardPair): void {
  test("I80: names a column in which different texts are one value, and its type", async () => {
    for (const { table, ddl, type } of pair().dialect.loose) {
      await createTables(pair(), ...ddl);
      const shape = await shapeOf(pair().source, table);
      const problem = await pair().source.tenantProblem([shape], ["a"]);
      expect(problem, table).toContain(`The column tenant of ${table} `);
      expect(problem?.toLowerCase(), table).toContain(type);
    }
  });

  test("I80: takes columns whose values are equal just when their texts are", async () => {
    for (const { table, ddl, tenant } of pair().dialect.exact) {
      await createTables(pair(), ...ddl);
      const shape = await shapeOf(pair().source, table);
      expect(await pair().source.tenantProblem([shape], [tenant]), table).toBeNull();
    }
  });

  test("I80: names a tenant that its column writes otherwise, or cannot have", async () => {
    for (const { table, ddl, tenant, others } of pair().dialect.exact) {
      await createTables(pair(), ...ddl);
      const shape = await shapeOf(pair().source, table);
      for (const other of others) {
        const problem = await pair().source.tenantProblem([shape], [tenant, other]);
        expect(problem, `${table} ${other}`).toContain(JSON.stringify(other));
      }
    }
  });

  test("I80: counts, captures and removes rows of a tenant by its text alone", async () => {
    const { source, dialect } = pair();
    await enrol(source);
    for (const { table, ddl, one, other } of dialect.loose) {
      await createTables(pair(), ...ddl);
      const shape = await shapeOf(source, table);
      const position = await source.armCapture(GUARD, [shape]);
      await pair().sql("source", `insert into ${table} (id, tenant) values (1, ${one})`);
      await pair().sql("source", `insert into ${table} (id, tenant) values (2, ${other})`);
      const names = Object.keys(await source.tenantRows({ table: shape, scope: [] }));
      const [tenant = ""] = names;
      const scope = tenantScope([tenant]);
      const rows = await source.tenantRows({ table: shape, scope });
      const mine = Object.values(rows).reduce((sum, count) => sum + count, 0);
      expect(Object.keys(rows), table).toEqual([tenant]);
      const answer = await source.read(changesSince([shape], position, { scope }));
      expect(answer.changes.length, table).toBe(mine);
      expect(await source.digest({ table: shape, scope })).toMatchObject({ rows: mine });
      const options = { limit: 10, expect: null };
      expect(await source.remove(GUARD, { table: shape, scope }, options), table).toBe(mine);
      expect(await source.tenantRows({ table: shape, scope: [] }), table).not.toHaveProperty([
        tenant,
      ]);
      const left = await source.digest({ table: shape, scope: [] });
      expect(left.rows, table).toBe(2 - mine);
    }
  });

  test("I54: captures writes to tables whose columns have an order of their own", async () => {
    const { source, dialect } = pair();
    await enrol(source);
    for (const { table, ddl } of dialect.ordered) {
      await createTables(pair(), ...ddl);
      const shape = await shapeOf(source, table);
      await pair().sql("source", `insert into ${table} (id, tenant) values ('0', 'b')`);
      expect(await source.tryCapture([shape]), table).toBeNull();
      const position = await source.armCapture(GUARD, [shape]);
      await source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
      const insert = `insert into ${table} (id, tenant) values ('1', 'a')`;
      await expect(pair().sql("source", insert), table).rejects.toMatchObject({
        code: "NOT_ENTERED",
      });
      await pair().write("source", "a", 1, insert, `update ${table} set id = '2'  where id = '1'`);
      await pair().sql("source", `update ${table} set tenant = 'c' where tenant = 'b'`);
      const answer = await source.read(changesSince([shape], position));
      expect(
        answer.changes.map(({ op }) => op),
        table,
      ).toEqual(["put", "delete", "put"]);
    }
  });

  test("says nothing of tables whose changes can be captured, and leaves no trace", async () => {
    const { source, dialect } = pair();
    await createTables(pair(), TABLES.items, TABLES.parents, TABLES.children, dialect.serials);
    await createTables(pair(), dialect.kinds.ddl);
    await enrol(source);
    await pair().sql("source", "insert into parents values (1, 'a')");
    await pair().sql("source", "insert into children values (1, 'a', 1)");
    await pair().sql("source", "insert into serials (tenant) values ('a')");
    for (const [at, values] of dialect.kinds.values.entries()) {
      await pair().sql("source", `insert into kinds values (${at}, 'a', ${values})`);
    }
    const names = ["items", "parents", "children", "serials", "kinds"];
    const shapes = await shapesOf(source, ...names);
    const before = await Promise.all(names.map((table) => pair().dump("source", table)));
    const position = await source.position();
    expect(await source.tryCapture(shapes)).toBeNull();
    expect(await Promise.all(names.map((table) => pair().dump("source", table)))).toEqual(before);
    expect(await source.lag(position)).toMatchObject({ events: 0 });
    expect(await source.fences(["a"])).toEqual([]);
    // Nobody is asked to enter: nothing is armed.
    await pair().sql("source", "update parents set tenant = 'b'");
    expect(await source.lag(position)).toMatchObject({ events: 0 });
  });

  test("says of which table changes cannot be captured, and why", async () => {
    const { source, dialect } = pair();
    await createTables(pair(), TABLES.items, ...dialect.uncapturable.ddl);
    await enrol(source);
    const { table, reason } = dialect.uncapturable;
    const shapes = await shapesOf(source, "items", table);
    const problem = await source.tryCapture(shapes);
    expect(problem).toContain(table);
    expect(problem).toMatch(reason);
  });

  test("I54: takes over keys that are written otherwise but are one to the table", async () => {
    const { source, target, dialect } = pair();
    await enrol(source);
    await enrol(target);
    for (const { table, ddl, one, other } of dialect.respelled) {
      await createTables(pair(), ...ddl);
      const shape = await shapeOf(source, table);
      let position = await source.armCapture(GUARD, [shape]);
      const insert = (key: string): string => `insert into ${table} values ('a', ${key}, 'n')`;
      const steps = [
        // All within one batch, and then each in one of its own.
        [insert(one), `update ${table} set k = ${other}`],
        [`update ${table} set k = ${one}`],
        [`update ${table} set k = ${other}`, `update ${table} set k = ${one}, note = 'x'`],
        [`delete from ${table}`, insert(other), `update ${table} set note = 'y'`],
        [`update ${table} set k = ${one}`, `delete from ${table}`],
      ];
      for (const [at, step] of steps.entries()) {
        for (const sql of step) await pair().sql("source", sql);
        const answer = await carryOver(pair(), [shape], position);
        position = answer.position;
        const [ours, theirs] = [
          await pair().dump("source", table),
          await pair().dump("target", table),
        ];
        expect(theirs, `${table} ${at} ${spelled(answer.changes).join("; ")}`).toEqual(ours);
      }
      // Streams have a name in common, so the next table begins anew.
      await target.dropStream(GUARD, "plan-1");
      await target.apply(applying([shape], { stream: `of-${table}`, after: state() }));
    }
  });
}
