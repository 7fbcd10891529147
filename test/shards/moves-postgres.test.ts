import type pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startMove } from "../../src/work/move/commands.ts";
import type { Shard } from "../../src/shards/shard.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { MoveWorld } from "./moves-world.ts";
import { connect } from "./postgres-pair.ts";

const DDL = `
  create table customers (id bigint primary key, tenant text not null, name text);
  create table orders (
    customer bigint not null references customers (id),
    line text not null,
    tenant text not null,
    amount numeric,
    primary key (customer, line)
  );`;
const FILL = `
  insert into customers select id, 't' || id % 12, 'c' || id from generate_series(0, 199) id;
  insert into orders select id, 'l' || line, 't' || id % 12, id / 3.0
  from generate_series(0, 199) id, generate_series(1, id % 3) line;`;

describe("a move between databases", () => {
  const shards = new Map<string, Shard>();
  const clients = new Map<string, pg.Client>();

  beforeEach(async () => {
    for (const name of ["a", "b", "c"]) {
      const url = await freshDatabaseUrl();
      const client = await connect(url);
      await client.query(DDL);
      clients.set(name, client);
      shards.set(name, await openPostgresShard({ connectionString: url }));
    }
    await clients.get("a")?.query(FILL);
  });

  afterEach(async () => {
    for (const shard of shards.values()) await shard.close();
    for (const client of clients.values()) await client.end();
  });

  const rowsOn = async (name: string): Promise<string[]> => {
    const texts: string[] = [];
    for (const table of ["customers", "orders"]) {
      const result = await clients
        .get(name)
        ?.query<{ row: string }>(`select '${table} ' || t::text as row from ${table} t`);
      texts.push(...(result?.rows.map(({ row }) => row) ?? []));
    }
    return texts;
  };

  test("I49, I54: every row comes to its shard once, whatever workers die", async () => {
    const world = new MoveWorld(shards, null, 7);
    const before = await rowsOn("a");
    const move = world.plan({
      from: { by: "hash", buckets: ["a"] },
      to: { by: "hash", buckets: ["a", "b", "c", "b"] },
      strategy: { type: "cardinality", rows: 25 },
      segment_attempts: 1_000,
    });
    world.submit(startMove({ move }));
    world.faults = { kill: 0.05, freeze: 0.01, fail: 0.03 };
    for (let round = 0; round < 400 && world.move(move).state === "RUNNING"; round++) {
      await world.round();
      await world.thaw();
    }
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", check_ok: 1 });
    expect(world.move(move).retries).toBeGreaterThan(0);
    expect(world.repeated).toEqual([]);
    const after = await Promise.all(["a", "b", "c"].map(rowsOn));
    expect(after.flat().toSorted()).toEqual(before.toSorted());
    expect(after.every((rows) => rows.length > 0)).toBe(true);
    await world.close();
  });
});
