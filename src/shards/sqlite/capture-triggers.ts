import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { ShardDatabase } from "./connection.ts";
import { NOW_MS, NOW_TEXT } from "./plans.ts";
import { literal, quoted } from "./literals.ts";
import { tenantText } from "./scope-sql.ts";
import { sameName, type TableDetail } from "./table-detail.ts";

/** A guard trigger's refusal begins with this. */
export const NOT_ENTERED = "PAWL_NOT_ENTERED";

const EVENTS = [
  "before insert",
  "after insert",
  "before update",
  "after update",
  "before delete",
  "after delete",
] as const;

const OWN_TRIGGERS = `
  select name, sql from sqlite_schema
  where type = 'trigger' and tbl_name = ? collate nocase and substr(name, 1, 6) = '_pawl_'`;

/**
 * Refuses tables whose triggers somebody has taken away, as SQLite itself does when a table is made
 * anew and takes the place of the old one: nobody knows what has changed since.
 */
export function refuseUncaptured(db: ShardDatabase, tables: readonly TablePolicy[]): void {
  const lacking = tables.filter(({ table }) => db.all(OWN_TRIGGERS, table).length < EVENTS.length);
  if (lacking.length === 0) return;
  const names = lacking.map(({ table }) => table);
  throw new PawlError(
    "SCHEMA_CHANGED",
    `Changes of ${names.join(", ")} are not captured any more: its triggers were taken away. Roll back and begin again.`,
    { details: { tables: names } },
  );
}

/** Makes the triggers that capture changes of a table and check its fences, as far as they differ. */
export function createTriggers(db: ShardDatabase, detail: TableDetail, layout: number): void {
  const wanted = triggersOf(detail, layout);
  const table = detail.shape.table;
  const present = new Map(db.all(OWN_TRIGGERS, table).map(([name, sql]) => [name, sql]));
  if (
    present.size === wanted.length &&
    wanted.every(({ name, sql }) => present.get(name) === sql)
  ) {
    return;
  }
  dropTriggers(db, table);
  for (const { sql } of wanted) db.db.exec(sql);
}

/** Takes Pawl's triggers off a table. */
export function dropTriggers(db: ShardDatabase, table: string): void {
  for (const [name] of db.all(OWN_TRIGGERS, table)) {
    db.db.exec(`drop trigger if exists ${quoted(String(name))}`);
  }
}

/**
 * A BEFORE trigger checks the fences and notes the rows that agree with the new one in something
 * unique: if the statement is a REPLACE, they are deleted without a trigger. The AFTER trigger
 * captures those that are gone. Where the insert was ignored, or became an update, they are still
 * there and nothing is captured; so what is noted can be too much, but never wrong.
 */
function triggersOf(detail: TableDetail, layout: number): { name: string; sql: string }[] {
  const column = quoted(detail.shape.shard_by);
  const victims = victimStatements(detail, layout);
  const put = captureRow(detail, layout, "put", "new");
  const remove = captureRow(detail, layout, "delete", "old");
  // Keys that the table takes for equal, such as 'a' and 'A' or 1 and 1.0, have different texts.
  const moved = detail.key
    .map(({ name }) => `quote(old.${quoted(name)}) <> quote(new.${quoted(name)})`)
    .concat(`${tenantText(`old.${column}`)} is not ${tenantText(`new.${column}`)}`)
    .join(" or ");
  const bodies: [when: (typeof EVENTS)[number], statements: string[]][] = [
    ["before insert", [refuse(detail, `new.${column}`), victims.note("1")]],
    ["after insert", [...victims.settle(true), `${put};`]],
    [
      "before update",
      [
        refuse(detail, `old.${column}`),
        refuse(detail, `new.${column}`),
        victims.note(`not (${sameKey(detail, "r", "old")})`),
      ],
    ],
    ["after update", [...victims.settle(false), `${remove} where ${moved};`, `${put};`]],
    ["before delete", [refuse(detail, `old.${column}`)]],
    ["after delete", [`${remove};`]],
  ];
  return bodies.map(([when, statements]) => {
    const name = `_pawl_${when.replace(" ", "_")}_${detail.shape.table.toLowerCase()}`;
    const head = `CREATE TRIGGER ${quoted(name)} ${when} on ${detail.sql} for each row`;
    const condition = "when (select applying from _pawl_session) = 0";
    return { name, sql: `${head}\n${condition} begin\n${statements.join("\n")}\nend` };
  });
}

/** Captures the row `new` whole, or of the row `old` what a deletion needs. */
function captureRow(
  detail: TableDetail,
  layout: number,
  op: "put" | "delete",
  row: "new" | "old",
): string {
  const { columns, values } = valuesOf(detail, row, op === "put");
  return `insert into _pawl_changes (table_name, op, layout, tenant, at, ${columns})
    select ${literal(detail.shape.table.toLowerCase())}, '${op}', ${layout},
      ${row}.${quoted(detail.shape.shard_by)}, ${NOW_TEXT}, ${values}`;
}

function victimStatements(
  detail: TableDetail,
  layout: number,
): { note: (where: string) => string; settle: (inserted: boolean) => string[] } {
  const table = literal(detail.shape.table.toLowerCase());
  const column = quoted(detail.shape.shard_by);
  const cause = detail.key.map(({ name }) => `quote(new.${quoted(name)})`).join(" || ',' || ");
  const victim = valuesOf(detail, "r", false);
  const same = detail.uniques.map(
    (unique) =>
      `(${unique
        .map(
          ({ name, collation }) => `r.${quoted(name)} = new.${quoted(name)} collate ${collation}`,
        )
        .join(" and ")})`,
  );
  const key = keyPositions(detail).map((position) => `c${position}`);
  const isSame = detail.key.map(({ name }, index) => {
    const [row, noted] = [`r.${quoted(name)}`, `v.${key[index] ?? ""}`];
    return `${row} = ${noted} and quote(${row}) = quote(${noted})`;
  });
  const isThere = `exists (select 1 from ${detail.sql} r where ${isSame.join(" and ")}
      and ${tenantText(`r.${column}`)} is ${tenantText("v.tenant")})`;
  return {
    note: (where) => `insert into _pawl_victims (table_name, cause, tenant, ${victim.columns})
    select ${table}, ${cause}, r.${column}, ${victim.values}
    from ${detail.sql} r where (${same.join(" or ")}) and ${where};`,
    settle: (inserted) => {
      // Before an insert, a rowid that SQLite is going to choose reads as -1.
      const mine = `table_name = ${table} and cause in (${cause}${inserted ? ", '-1'" : ""})`;
      const gone = `from _pawl_victims v where ${mine} and not ${isThere}`;
      return [
        `select raise(abort, ${refusal(detail)}) ${gone} and ${isRefused("v.tenant")};`,
        `insert into _pawl_changes (table_name, op, layout, tenant, at, ${victim.columns})
    select ${table}, 'delete', ${layout}, tenant, ${NOW_TEXT}, ${victim.columns} ${gone};`,
        `delete from _pawl_victims where ${mine};`,
      ];
    },
  };
}

function refuse(detail: TableDetail, tenant: string): string {
  return `select raise(abort, ${refusal(detail)}) where ${isRefused(tenant)};`;
}

function refusal(detail: TableDetail): string {
  return literal(`${NOT_ENTERED} ${detail.shape.table}`);
}

/** There is a fence, and this transaction has not entered it as it stands now. */
function isRefused(tenant: string): string {
  return `exists (select 1 from _pawl_fences f where f.tenant = ${tenantText(tenant)} and not (
      (f.state = 'open' or (f.state = 'closed' and f.until <= ${NOW_MS}))
      and exists (select 1 from _pawl_session s where s.tenant = f.tenant and s.epoch = f.epoch)))`;
}

/** The value columns of the log with what a row has for them: everything, or its key. */
function valuesOf(
  detail: TableDetail,
  row: string,
  whole: boolean,
): { columns: string; values: string } {
  const positions = whole ? detail.shape.columns.map((_, index) => index) : keyPositions(detail);
  const name = (position: number): string => quoted(detail.shape.columns[position]?.name ?? "");
  return {
    columns: positions.map((position) => `c${position}`).join(", "),
    values: positions.map((position) => `${row}.${name(position)}`).join(", "),
  };
}

/** Where the columns of the key stand among all. */
export function keyPositions(detail: TableDetail): number[] {
  return detail.key.map(({ name }) =>
    detail.shape.columns.findIndex((column) => sameName(column.name, name)),
  );
}

function sameKey(detail: TableDetail, one: string, other: string): string {
  return detail.key
    .map(({ name }) => `${one}.${quoted(name)} = ${other}.${quoted(name)}`)
    .join(" and ");
}
