import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { shardConformance } from "./conformance/shard-conformance.ts";
import {
  armed,
  carryOver,
  createTables,
  enrol,
  GUARD,
  policy,
  shapesOf,
  TABLES,
} from "./conformance/stage.ts";
import { SplitStage } from "./conformance/step-stage.ts";
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
      TABLES.places,
      TABLES.visits,
      TABLES.people,
      TABLES.accounts,
      TABLES.orders,
      "create schema audit",
      "create table codes (id integer primary key, tenant text, code text not null unique)",
      "create table uses (id integer primary key, tenant text, code integer references codes on update cascade)",
      "create table audit.used (id integer primary key, code text references codes (code) on delete restrict on update set default)",
    );
    const { target } = pair;
    const fit = await shapesOf(target, "places", "visits", "orders", "uses");
    expect(await target.obstacles(fit, "changes")).toEqual([]);
    const unfit = await shapesOf(target, "people", "accounts", "codes", "uses");
    const [self, ...acting] = await target.obstacles(unfit, "changes");
    expect(self).toMatch(
      /^rows of people name others of it \(people_boss_fkey\).*replication_role/,
    );
    expect(acting).toEqual([expect.stringMatching(/make them "no action".*replication_role/)]);
    const named = [
      "orders to accounts (orders_account_fkey, on delete set null)",
      "audit.used to codes (used_code_fkey, on delete restrict on update set default)",
      "uses to codes (uses_code_fkey, on update cascade)",
    ];
    expect(acting[0]?.endsWith(`: ${named.join(", ")}`)).toBe(true);
    expect(await target.obstacles(unfit, "rows")).toEqual([self]);
  });

  test("I54: writes nothing for a foreign key that acts since the split was planned", async () => {
    const { shapes, position } = await armed(pair, "parents", "children");
    await pair.sql("source", "insert into parents values (1, 'a')");
    await pair.sql("source", "insert into children values (1, 'a', 1)");
    const { position: middle } = await carryOver(pair, shapes, position);
    const again = "add foreign key (parent) references parents (id)";
    const drop = "alter table children drop constraint children_parent_fkey";
    await pair.sql("target", `${drop}, ${again} on delete cascade`);
    await pair.sql("source", "update parents set tenant = 'b'");
    await expect(carryOver(pair, shapes, middle)).rejects.toMatchObject({
      code: "TABLE_UNFIT",
      message: expect.stringContaining("(children_parent_fkey, on delete cascade)"),
    });
    expect(await pair.dump("target", "children")).toEqual(["(1,a,1)"]);
    await pair.sql("target", `${drop}, ${again}`);
    await expect(carryOver(pair, shapes, middle)).rejects.toMatchObject({ code: "ROWS_CONFLICT" });
    await pair.sql("source", "update parents set tenant = 'a'");
    await carryOver(pair, shapes, middle);
    expect(await pair.dump("target", "parents")).toEqual(["(1,a)"]);
  });

  test.each([
    [
      "a check of several columns",
      "mail text unique, check (mail is not null or phone is not null)",
    ],
    ["a check of the column", "mail text unique check (mail is not null)"],
    ["a domain", "mail mailbox unique"],
  ])("I54: lets unique values change places that %s keeps from being NULL", async (_, column) => {
    await createTables(
      pair,
      "create domain mailbox as text not null",
      `create table users (id integer primary key, tenant text not null, phone text, ${column})`,
      "create table logins (id integer primary key, tenant text not null, usr integer references users)",
    );
    await enrol(pair.source);
    await enrol(pair.target);
    const shapes = await shapesOf(pair.source, "users", "logins");
    expect(await pair.target.obstacles(shapes, "changes")).toEqual([]);
    const position = await pair.source.armCapture(GUARD, shapes);
    await pair.sql(
      "source",
      "insert into users (id, tenant, mail) values (1, 'a', 'x'), (2, 'a', 'y')",
    );
    await pair.sql("source", "insert into logins values (1, 'a', 1), (2, 'a', 2)");
    const { position: middle } = await carryOver(pair, shapes, position);
    await pair.sql("source", "update users set mail = 'free' where id = 1");
    await pair.sql("source", "update users set mail = 'x' where id = 2");
    await pair.sql("source", "update users set mail = 'y' where id = 1");
    await carryOver(pair, shapes, middle);
    for (const table of ["users", "logins"]) {
      expect(await pair.dump("target", table)).toEqual(await pair.dump("source", table));
    }
  });

  test.each(["1.50", "9"])("I54: keeps rows whose parent has the key %s now", async (key) => {
    await createTables(
      pair,
      "create table rates (k numeric primary key, tenant text not null)",
      "create table uses (id integer primary key, tenant text not null, rate numeric references rates deferrable)",
    );
    await pair.sql("source", "insert into rates values (1.5, 'a')");
    await pair.sql("source", "insert into uses values (1, 'a', 1.5)");
    const split = new SplitStage(pair, [policy("rates"), policy("uses")], ["a"]);
    await split.run("check", "arm", "copy", "tail");
    const defer = "set constraints all deferred";
    await split.write("a", defer, `update rates set k = ${key}`, `update uses set rate = ${key}`);
    await split.run("tail", "cutover");
    for (const table of ["rates", "uses"]) {
      expect(await pair.dump("target", table)).toEqual(await pair.dump("source", table));
    }
  });
});
