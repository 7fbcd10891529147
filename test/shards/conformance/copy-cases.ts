import { expect, test } from "vitest";
import { tenantScope } from "../../../src/work/shard/spec.ts";
import type { StreamState, TableShape } from "../../../src/shards/shard.ts";
import { applying, armed, countOf, insertItems, lastImages, state } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

const SCOPE = tenantScope(["a"]);

/** Whole copies with a writer beside them. */
export function copyCases(pair: () => ShardPair): void {
  test("I54: copies two tables chunk by chunk while rows change, and ends up equal", async () => {
    const { shapes, position } = await armed(pair(), "items", "lines");
    const ids = Array.from({ length: 40 }, (_, index) => index * 2 + 1);
    await pair().sql("source", insertItems("a", ...ids));
    await pair().sql("source", insertItems("b", 1_000, 1_001));
    const lines = ids.map((id) => `('a', 'sku ${id % 5}', ${id})`);
    await pair().sql("source", `insert into lines (tenant, sku, line) values ${lines.join(", ")}`);

    let now = state({ position, rows: [0, 0] });
    let before: StreamState | null = null;
    for (let round = 0; now.phase === "copy"; round += 1) {
      await scribble(pair(), round);
      const next = await copyStep(pair(), shapes, before, now);
      before = next;
      now = next;
    }
    await scribble(pair(), 99);
    await copyStep(pair(), shapes, before, now);

    for (const table of shapes) {
      const { position: _source, ...source } = await pair().source.digest({ table, scope: SCOPE });
      expect(await pair().target.digest({ table, scope: SCOPE })).toMatchObject(source);
    }
    expect(await countOf(pair(), "target", "items")).toBe(
      (await countOf(pair(), "source", "items")) - 2,
    );
    expect(await pair().dump("target", "lines")).toEqual(await pair().dump("source", "lines"));
  });
}

/** Writes before, behind and at the cursor of a copy. */
async function scribble(pair: ShardPair, round: number): Promise<void> {
  await pair.sql("source", insertItems("a", 500 + round));
  await pair.sql("source", `update items set n = n + 1 where id % 7 = ${round % 7}`);
  await pair.sql("source", `delete from items where id = ${(round * 13) % 80}`);
  await pair.sql("source", `update items set id = ${-1 - round} where id = ${79 - round * 2}`);
  await pair.sql("source", `update lines set line = line + 1000 where line = ${round * 4 + 1}`);
  await pair.sql("source", `update lines set note = 'round ${round}' where sku = 'sku 2'`);
}

/** One step of a copy: changes up to the snapshot, and the next rows. */
async function copyStep(
  pair: ShardPair,
  tables: readonly TableShape[],
  before: StreamState | null,
  now: StreamState,
): Promise<StreamState> {
  const table = tables[now.cursor.table];
  const answer = await pair.source.read({
    tables,
    scope: SCOPE,
    from: now.position,
    cursor: now.phase === "tail" ? null : now.cursor,
    changesMax: 10_000,
    chunk: table === undefined ? null : { table, scope: SCOPE, after: now.cursor.key, limit: 7 },
  });
  const { chunk } = answer;
  const ended = chunk === null || chunk.ended;
  const index = now.cursor.table + (ended ? 1 : 0);
  const after: StreamState = {
    ...now,
    position: answer.position,
    cursor: { table: index, key: ended ? null : chunk.last },
    phase: index < tables.length ? "copy" : "tail",
    fingerprint: answer.fingerprint,
  };
  await pair.target.apply(
    applying(tables, {
      before,
      after,
      changes: lastImages(answer),
      changed: answer.changed,
      chunk:
        chunk === null || table === undefined ? null : { table: table.table, rows: chunk.rows },
    }),
  );
  return after;
}
