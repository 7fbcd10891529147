import { describe, expect, test } from "vitest";
import { parseSchemaChange, requireTable } from "./schema-change.ts";

const TABLES = [
  { table: "orders", shard_by: "tenant" },
  { table: "Sales.Lines", shard_by: "tenant" },
];

describe("parseSchemaChange", () => {
  test.each([
    "alter table orders add column note text",
    "ALTER TABLE orders ADD note text;",
    "alter table \"orders\" add column if not exists \"the note\" character varying(20) not null default 'it''s'",
    "alter table public.orders add a double precision default -1.5e3, add b timestamp(3) with time zone null",
    "alter table orders add x",
    'alter table orders add x numeric(12, 2) default 0 collate "C" unique, drop column y',
    "alter table orders add tags text[] default '{}'::text[]",
    "alter table if exists only orders drop if exists note restrict",
    "alter table orders rename note to remark",
    "alter table orders rename column note to remark",
    "alter table orders alter note set data type text",
    'alter table orders alter column note type varchar(9) collate "C"',
    "alter table orders alter note set default true, alter note drop default",
    "alter table orders alter note set not null",
    "alter table orders alter note drop not null",
    "alter /* pawl 01ABC:7 */ table orders add column note text",
    "create index orders_by_note on orders (note)",
    "create unique index if not exists i on only public.orders using btree (note desc nulls last, n asc)",
    'create index on "orders" (note collate "C")',
    "drop index orders_by_note",
    'drop index if exists public."By Note" restrict',
  ])("I81: reads %s", (sql) => {
    expect(parseSchemaChange(sql).name.text).toMatch(/orders|by.note/i);
  });

  test.each([
    "",
    ";",
    "select 1",
    "select 1; update payroll set salary = 0",
    "update orders set n = 0",
    "copy orders to program 'rm -rf /'",
    "drop table orders",
    "create table t (id integer)",
    "create function f() returns void language sql as 'select 1'",
    "alter table orders add column note text; drop table payroll",
    "alter table orders add column note text;;",
    "alter table orders add column note text default pg_read_file('/etc/passwd')",
    "alter table orders add column note text default (select 1)",
    "alter table orders add column note text default now()",
    "alter table orders add column note text default current_user",
    "alter table orders add column note text generated always as (secret()) stored",
    "alter table orders add column note text check (f(note))",
    "alter table orders add column note text references payroll (id)",
    "alter table orders add constraint c check (f(note))",
    "alter table orders add check (f(note))",
    "alter table orders add primary key (id)",
    "alter table orders add foreign key (id) references payroll (id)",
    "alter table orders add constraint c unique",
    "alter table orders add primary key",
    "alter table orders add x as (1)",
    "alter table orders add x check (0)",
    "alter table orders drop constraint c",
    "alter table orders drop constraint restrict",
    "alter table orders drop column note cascade",
    "alter table orders rename to payroll",
    "alter table orders rename constraint a to b",
    "alter table orders owner to mallory",
    "alter table orders disable trigger all",
    "alter table orders set schema other",
    "alter table orders alter note type integer using f(note)",
    "alter table orders alter note set default f()",
    "alter table orders alter note set statistics 1",
    "alter table orders add column note text -- comment",
    "alter table orders /* comment */ add column note text",
    "alter table orders add column note text /* pawl 1:1 */ ; drop table payroll",
    "alter table orders add column note text default E'\\\\x'",
    "alter table orders add column note text default 'a\\'",
    "alter table orders add column note text default $$x$$",
    'alter table orders add column U&"x" text',
    "alter system set archive_command = 'x'",
    "alter role worker superuser",
    "create index concurrently i on orders (note)",
    "create index i on orders (f(note))",
    "create index i on orders ((note))",
    "create index i on orders (note) where f(note)",
    "create index i on orders (note) tablespace x",
    "drop index a, b",
    "drop index i cascade",
    "drop index concurrently i; drop table t",
    "grant all on orders to public",
    "pragma writable_schema = on",
    "attach 'x.db' as x",
  ])("I81: refuses %s", (sql) => {
    const reading = () => parseSchemaChange(sql);
    expect(reading).toThrow(expect.objectContaining({ code: "INPUT_INVALID" }));
  });

  test("I81: knows the tables of a project, however they are written", () => {
    const about = (name: string, schema: string | null): (() => void) => {
      const change = parseSchemaChange(`alter table ${name} drop x`);
      return () => requireTable(change, TABLES, schema);
    };
    for (const name of ["orders", "ORDERS", '"orders"', "public.orders", 'Public."orders"']) {
      expect(about(name, "public"), name).not.toThrow();
      expect(about(name, null), name).not.toThrow();
    }
    expect(about('"Sales"."Lines"', "public")).not.toThrow();
    for (const name of ["payroll", "other.orders", '"Orders"', "Sales.Lines", "lines"]) {
      expect(about(name, "public"), name).toThrow(/none of the tables/);
    }
    expect(about("payroll", null)).toThrow(/none of the tables that move with a tenant: orders/);
    expect(about("orders", "elsewhere")).not.toThrow();
    expect(about("public.orders", "elsewhere")).toThrow(/public\.orders/);
  });
});
