import { expect, test } from "vitest";
import fc from "fast-check";
import Database from "better-sqlite3";
import { tenantScope } from "../../src/work/shard/spec.ts";
import type { TableShape } from "../../src/shards/shard.ts";
import { carryOver, createTables, enrol, GUARD, shapesOf } from "./conformance/stage.ts";
import type { ShardPair } from "./conformance/shard-conformance.ts";
import { openSqlitePair } from "./sqlite-pair.ts";

// Goal: whatever an application does to its tables, the captured changes bring the target to the
// same rows. Method: few keys and few values, so that statements keep meeting each other's rows by
// every unique constraint, in every way that SQLite resolves conflicts.

const DDL = [
  `create table users (id integer primary key, tenant text, mail text collate nocase unique,
     first text, last text, unique (first, last))`,
  `create table marks (k text collate nocase, j, tenant text, u integer unique on conflict replace,
     primary key (k, j)) without rowid`,
  `create table kids (id text primary key not null, tenant text,
     parent integer references users (id) on delete cascade on update cascade)`,
];

const id = fc.nat({ max: 7 }).map(String);
const tenant = fc.constantFrom("'a'", "'a'", "'b'");
const mail = fc.constantFrom("'m'", "'M'", "'n'", "'N'", "'o'", "null");
const name = fc.constantFrom("'p'", "'q'");
const key = fc.constantFrom("'x'", "'X'", "'y'", "'Y'");
const loose = fc.constantFrom("1", "1.0", "1.5", "'1'", "X'31'");
const or = fc.constantFrom("", "or replace", "or replace", "or ignore");

const sql = (parts: TemplateStringsArray, ...values: fc.Arbitrary<string>[]) =>
  fc
    .tuple(...values)
    .map((drawn) => parts.map((part, index) => part + (drawn[index] ?? "")).join(""));

const statement = fc.oneof(
  sql`insert ${or} into users values (${id}, ${tenant}, ${mail}, ${name}, ${mail})`,
  sql`insert ${or} into users (tenant, mail, first, last) values (${tenant}, ${mail}, ${name}, ${mail})`,
  sql`insert into users values (${id}, ${tenant}, ${mail}, ${name}, ${mail}) on conflict do nothing`,
  sql`insert into users values (${id}, ${tenant}, ${mail}, ${name}, ${mail})
      on conflict (id) do update set mail = excluded.mail, tenant = excluded.tenant`,
  sql`insert or replace into users select id + 1, ${tenant}, mail, first, last from users`,
  sql`update ${or} users set id = ${id}, mail = ${mail} where id = ${id}`,
  sql`update ${or} users set tenant = ${tenant}, last = ${mail} where id > ${id}`,
  sql`delete from users where id = ${id}`,
  sql`insert ${or} into marks values (${key}, ${loose}, ${tenant}, ${id})`,
  sql`update ${or} marks set k = ${key} where k = ${key}`,
  sql`update ${or} marks set j = ${loose}, tenant = ${tenant} where u = ${id}`,
  sql`update ${or} marks set u = ${id} where j = ${loose}`,
  sql`delete from marks where k = ${key} and j = ${loose}`,
  sql`insert ${or} into kids values (${key}, ${tenant}, ${id})`,
  sql`update ${or} kids set id = ${key} where parent = ${id}`,
);

const transactions = fc.array(
  fc.record({
    statements: fc.array(statement, { minLength: 1, maxLength: 4 }),
    end: fc.constantFrom("commit", "commit", "commit", "rollback"),
    isCarried: fc.boolean(),
  }),
  { maxLength: 30 },
);

test("I54: brings the target to the same rows, whatever the application does", async () => {
  await fc.assert(
    fc.asyncProperty(transactions, fc.boolean(), async (history, isRecursive) => {
      const pair = await openSqlitePair();
      const app = new Database(pair.files.source);
      try {
        await createTables(pair, ...DDL);
        app.pragma(`recursive_triggers = ${isRecursive ? "on" : "off"}`);
        const shapes = await shapesOf(pair.source, "users", "marks", "kids");
        await enrol(pair.source);
        await enrol(pair.target);
        let position = await pair.source.armCapture(GUARD, shapes);
        for (const { statements, end, isCarried } of history) {
          app.exec("begin immediate");
          for (const text of statements) attempt(app, text);
          app.exec(end);
          if (!isCarried) continue;
          ({ position } = await carryOver(pair, shapes, position));
          await expectEqual(pair, shapes);
        }
        await carryOver(pair, shapes, position);
        await expectEqual(pair, shapes);
      } finally {
        app.close();
        await pair.close();
      }
    }),
    { numRuns: 25 },
  );
});

/** A constraint may refuse it, as it may refuse any application. */
function attempt(app: Database.Database, text: string): void {
  try {
    app.exec(text);
  } catch (error) {
    const code = error instanceof Database.SqliteError ? error.code : "";
    if (!code.startsWith("SQLITE_CONSTRAINT")) throw error;
  }
}

async function expectEqual(pair: ShardPair, shapes: readonly TableShape[]): Promise<void> {
  for (const table of shapes) {
    const range = { table, scope: tenantScope(["a"]) };
    const { rows, digest } = await pair.source.digest(range);
    expect(await pair.target.digest(range), table.table).toMatchObject({ rows, digest });
  }
}
