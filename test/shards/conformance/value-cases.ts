import { describe, expect, test } from "vitest";
import { tenantScope } from "../../../src/work/shard/spec.ts";
import {
  applying,
  carryOver,
  chunkOf,
  createTables,
  enrol,
  GUARD,
  shapeOf,
  state,
} from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** Rows arrive as they were. */
export function valueCases(pair: () => ShardPair): void {
  const kindInserts = (): string[] =>
    pair().dialect.kinds.values.map(
      (values, index) => `insert into kinds values (${index + 1}, 'a', ${values})`,
    );

  test("copies every kind of value exactly", async () => {
    await createTables(pair(), pair().dialect.kinds.ddl);
    const { source, target } = pair();
    for (const insert of kindInserts()) await pair().sql("source", insert);
    await enrol(target);
    const shape = await shapeOf(source, "kinds");
    const { chunk } = await source.read(chunkOf(shape));
    expect(chunk?.rows.count).toBe(pair().dialect.kinds.values.length);
    expect(chunk?.rows.bytes).toBeGreaterThan(0);
    const rows = chunk?.rows;
    if (rows === undefined) throw new Error("There is a chunk.");
    await target.apply(applying([shape], { chunk: { table: "kinds", rows } }));
    expect(await pair().dump("target", "kinds")).toEqual(await pair().dump("source", "kinds"));
    const range = { table: shape, scope: tenantScope(["a"]) };
    const { position: _there, ...copied } = await target.digest(range);
    expect(await source.digest(range)).toMatchObject(copied);
  });

  test("captures every kind of value exactly", async () => {
    await createTables(pair(), pair().dialect.kinds.ddl);
    const { source, target } = pair();
    await enrol(source);
    await enrol(target);
    const shape = await shapeOf(source, "kinds");
    const from = await source.armCapture(GUARD, [shape]);
    for (const insert of kindInserts()) await pair().sql("source", insert);
    await carryOver(pair(), [shape], from);
    expect(await pair().dump("target", "kinds")).toEqual(await pair().dump("source", "kinds"));
  });

  describe("keys", () => {
    test("pages, captures and deletes rows by keys of every kind", async () => {
      for (const { table, ddl, inserts } of pair().dialect.keyed) {
        await createTables(pair(), ddl);
        const { source, target } = pair();
        await enrol(source);
        await enrol(target);
        const shape = await shapeOf(source, table);
        const from = await source.armCapture(GUARD, [shape]);
        for (const insert of inserts) await pair().sql("source", insert);
        const dumped = await pair().dump("source", table);

        await copyByOnes(pair(), table);
        expect(await pair().dump("target", table), table).toEqual(dumped);

        const before = await target.loadStream("plan-1");
        const changes = (await source.read({ ...chunkOf(shape), from, changesMax: 1_000 })).changes;
        expect(new Set(changes.map(({ op }) => op))).toEqual(new Set(["put"]));
        const rows = changes.map(({ key, image }) => ({ key, image }));
        const after = state({ phase: "tail" });
        await target.apply(applying([shape], { before, after, changes: [{ table, rows }] }));
        expect(await pair().dump("target", table), table).toEqual(dumped);

        const gone = rows.map(({ key }) => ({ key, image: null }));
        const last = { before: after, after, changes: [{ table, rows: gone }] };
        await target.apply(applying([shape], last));
        expect(await pair().dump("target", table), table).toEqual([]);
        await target.dropStream(GUARD, "plan-1");
      }
    });
  });
}

/** Copies the rows of tenant `a` one by one, so that every key is once the cursor. */
async function copyByOnes(pair: ShardPair, table: string): Promise<void> {
  const shape = await shapeOf(pair.source, table);
  let after: readonly string[] | null = null;
  for (;;) {
    const { chunk } = await pair.source.read(chunkOf(shape, { after, limit: 1 }));
    if (chunk === null) throw new Error("A chunk was asked for.");
    const before = await pair.target.loadStream("plan-1");
    const moved = state({ cursor: { table: 0, key: chunk.last } });
    await pair.target.apply(
      applying([shape], { before, after: moved, chunk: { table, rows: chunk.rows } }),
    );
    if (chunk.ended) return;
    after = chunk.last;
  }
}
