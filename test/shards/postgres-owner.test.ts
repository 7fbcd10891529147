import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { shardConformance } from "./conformance/shard-conformance.ts";
import { createTables, shapesOf, TABLES } from "./conformance/stage.ts";
import { ownedDatabaseUrl, POSTGRES_DIALECT, postgresPair } from "./postgres-pair.ts";

shardConformance("PostgreSQL of a role that owns the tables", () =>
  postgresPair(POSTGRES_DIALECT, ownedDatabaseUrl),
);

describe("a role that owns the tables", () => {
  let pair: Awaited<ReturnType<typeof postgresPair>>;
  beforeEach(async () => {
    pair = await postgresPair(POSTGRES_DIALECT, ownedDatabaseUrl);
  });
  afterEach(() => pair.close());

  test("I57: is told which constraints it cannot copy past, and only those", async () => {
    await createTables(
      pair,
      TABLES.accounts,
      TABLES.orders,
      TABLES.places,
      TABLES.visits,
      TABLES.people,
      "create table codes (id integer primary key, tenant text not null, code text not null, note text)",
      "create unique index codes_by_code on codes (code)",
      "create unique index codes_by_note on codes (note) where tenant <> 'z'",
      "create table uses (id integer primary key, tenant text, code integer references codes on delete cascade)",
      `create table later (id integer primary key, tenant text not null,
        code text not null unique deferrable)`,
      "create table latest (id integer primary key, tenant text, code integer references later on delete restrict)",
    );
    const { target } = pair;
    const fit = await shapesOf(target, "accounts", "orders", "places", "visits", "later", "latest");
    expect(await target.obstacles(fit, "changes")).toEqual([]);
    const unfit = await shapesOf(target, "people", "codes", "uses");
    const [self, unique, ...rest] = await target.obstacles(unfit, "changes");
    expect(rest).toEqual([]);
    expect(self).toMatch(
      /^rows of people name others of it \(people_boss_fkey\).*replication_role/,
    );
    expect(unique).toMatch(
      /^codes has rows that .*\(codes_by_code\).*deferrable.*replication_role/,
    );
    expect(await target.obstacles(unfit, "rows")).toEqual([self]);
  });
});
