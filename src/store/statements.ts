import { assert, present } from "../kernel/errors.ts";
import type { AnyTable, CellKind, Condition, Find, KeyPart, Order } from "../kernel/table.ts";
import { OPEN_BACKFILLS } from "../work/backfill/rows.ts";
import { OPEN_MOVES } from "../work/move/rows.ts";
import { ACTIVE_RUNS } from "../work/run/rows.ts";
import { OPEN_SPLITS } from "../work/split/rows.ts";
import type { WorkspaceId } from "./store.ts";

/** Where the two databases write SQL differently, as data. */
export type Dialect = {
  /** The table's name with the place where it lives. */
  table(name: string): string;
  /** The parameter with this number, from 1. */
  parameter(number: number): string;
  /** The parameter as a cell is compared with it. */
  compared(parameter: string): string;
  /** Whether the cell is one of the list that the parameter holds. */
  isListed(cell: string, kind: CellKind, parameter: string): string;
  isNotListed(cell: string, kind: CellKind, parameter: string): string;
  /** The parameter's value for a list. */
  list(values: readonly KeyPart[]): unknown;
};

/** A statement and the values of its parameters. */
export type Statement = { readonly sql: string; readonly parameters: readonly unknown[] };

/** An identifier of our own, quoted: `order` is a word of SQL. */
export function quotedName(name: string): string {
  return `"${name}"`;
}

const cellLists = new WeakMap<AnyTable, string>();

/** The names of all cells, for a list of columns; made once, as look-ups are made all the time. */
export function cellList(table: AnyTable): string {
  let list = cellLists.get(table);
  if (list === undefined) {
    list = Object.keys(table.cells).map(quotedName).join(", ");
    cellLists.set(table, list);
  }
  return list;
}

/** `"a" = ? and "b" = ?` over the workspace and the key, numbered from `first`. */
export function keyEquals(dialect: Dialect, table: AnyTable, first: number): string {
  return ["ws", ...table.key]
    .map((cell, index) => `${quotedName(cell)} = ${dialect.parameter(first + index)}`)
    .join(" and ");
}

/** The head of an insert: workspace first, then the cells in order. */
export function insertInto(dialect: Dialect, table: AnyTable): string {
  return `insert into ${dialect.table(table.name)} ("ws", ${cellList(table)})`;
}

/** Makes an insert write over the row that has the same key. */
export function onConflictWriteOver(table: AnyTable): string {
  const key = ["ws", ...table.key].map(quotedName).join(", ");
  const rest = Object.keys(table.cells).filter(
    (cell) => !table.key.includes(cell) && table.fixed?.includes(cell) !== true,
  );
  const assignments = rest.map((cell) => `${quotedName(cell)} = excluded.${quotedName(cell)}`);
  return `on conflict (${key}) do update set ${assignments.join(", ")}`;
}

/**
 * Rows that fulfil all conditions, in order, as their cells' values.
 *
 * The cells of `order` must hold no null in the rows found: the databases place nulls differently.
 */
export function findStatement(
  dialect: Dialect,
  ws: WorkspaceId,
  find: Find,
  cells: readonly string[] | null = null,
): Statement {
  const { table, where, order, limit } = find;
  const implied = impliedIndexes(table, where);
  const shape = shapeOf(where, order, implied, cells);
  const texts = textsOf(dialect, table);
  const known = texts.get(shape);
  const parameters: unknown[] = [];
  if (known !== undefined) {
    parameters.push(ws);
    for (const condition of where) {
      if (!isSaid(implied, condition)) addValues(dialect, condition, order, parameters);
    }
    parameters.push(limit);
    return { sql: known, parameters };
  }
  const clause = whereClause(dialect, ws, table, where, order, parameters);
  parameters.push(limit);
  const list = cells?.map((cell) => checkedCell(table, cell)).join(", ");
  const sql = [
    `select ${list ?? cellList(table)}`,
    `from ${dialect.table(table.name)}`,
    clause,
    order.length === 0 ? "" : `order by ${order.map(orderTerm).join(", ")}`,
    // SQLite prepares a statement anew each time it runs when its limit is a bare parameter.
    `limit cast(${dialect.parameter(parameters.length)} as bigint)`,
  ];
  const text = sql.filter((part) => part !== "").join("\n");
  if (texts.size >= TEXTS_MAX) texts.clear();
  texts.set(shape, text);
  return { sql: text, parameters };
}

/** More shapes of look-ups in one table than our own code can make by itself. */
const TEXTS_MAX = 1_000;

/** Texts of look-ups by their shape: they are asked all the time, and differ in values only. */
const findTexts = new WeakMap<Dialect, WeakMap<AnyTable, Map<string, string>>>();

function textsOf(dialect: Dialect, table: AnyTable): Map<string, string> {
  const tables = findTexts.get(dialect) ?? new WeakMap<AnyTable, Map<string, string>>();
  findTexts.set(dialect, tables);
  const texts = tables.get(table) ?? new Map<string, string>();
  tables.set(table, texts);
  return texts;
}

/** All of a look-up that its text depends on: everything but the values of its parameters. */
function shapeOf(
  where: readonly Condition[],
  order: readonly Order[],
  implied: readonly PartialIndex[],
  cells: readonly string[] | null,
): string {
  let shape = "";
  for (const condition of where) {
    const about = condition.is === "after" ? condition.cells.join(" ") : condition.cell;
    shape += isSaid(implied, condition) ? "" : `${about} ${condition.is},`;
  }
  for (const { name } of implied) shape += `;${name}`;
  for (const { cell, descending } of order) shape += descending === true ? `-${cell}` : `+${cell}`;
  return cells === null ? shape : `${shape}:${cells.join(" ")}`;
}

/** Whether an index that holds all the rows says what the condition says. */
function isSaid(implied: readonly PartialIndex[], condition: Condition): boolean {
  return implied.some((index) => isSaidBy(index, condition));
}

/** Adds the values of a condition in the order in which its text has parameters. */
function addValues(
  dialect: Dialect,
  condition: Condition,
  order: readonly Order[],
  parameters: unknown[],
): void {
  switch (condition.is) {
    case "null":
    case "not null":
      return;
    case "in":
    case "not in":
      parameters.push(dialect.list(condition.values));
      return;
    case "after":
      afterTerm(placesOf(condition, order), (value) => String(parameters.push(value)));
      return;
    default:
      parameters.push(condition.value);
  }
}

/** How many rows share the values of `cells`: those values, then the count. */
export function countStatement(
  dialect: Dialect,
  ws: WorkspaceId,
  table: AnyTable,
  conditions: readonly Condition[],
  cells: readonly string[],
): Statement {
  const parameters: unknown[] = [];
  const names = cells.map((cell) => checkedCell(table, cell));
  const sql = [
    `select ${[...names, "count(*)"].join(", ")}`,
    `from ${dialect.table(table.name)}`,
    whereClause(dialect, ws, table, conditions, [], parameters),
  ];
  if (names.length > 0) sql.push(`group by ${names.join(", ")}`);
  return { sql: sql.join("\n"), parameters };
}

function whereClause(
  dialect: Dialect,
  ws: WorkspaceId,
  table: AnyTable,
  conditions: readonly Condition[],
  order: readonly Order[],
  parameters: unknown[],
): string {
  const parameter = (value: unknown): string => dialect.parameter(parameters.push(value));
  const terms = [`"ws" = ${parameter(ws)}`];
  // A parameter would hide from the planner that a partial index holds all the rows, so what the
  // conditions imply stands there in plain words, and only the rest is a matter of parameters.
  const implied = impliedIndexes(table, conditions);
  for (const condition of conditions) {
    if (isSaid(implied, condition)) continue;
    terms.push(conditionTerm(dialect, table, condition, order, parameter));
  }
  terms.push(...implied.map(({ predicate }) => predicate));
  return `where ${terms.join("\n  and ")}`;
}

function conditionTerm(
  dialect: Dialect,
  table: AnyTable,
  condition: Condition,
  order: readonly Order[],
  parameter: (value: unknown) => string,
): string {
  if (condition.is === "after") {
    for (const cell of condition.cells) checkedCell(table, cell);
    return afterTerm(placesOf(condition, order), parameter);
  }
  const cell = checkedCell(table, condition.cell);
  switch (condition.is) {
    case "null":
      return `${cell} is null`;
    case "not null":
      return `${cell} is not null`;
    case "in":
    case "not in": {
      const kind = present(table.cells[condition.cell], `${table.name} has ${condition.cell}`);
      const list = parameter(dialect.list(condition.values));
      if (condition.is === "in") return dialect.isListed(cell, kind, list);
      // Null is in no list and not outside one either, even when the list is empty.
      return `${cell} is not null and ${dialect.isNotListed(cell, kind, list)}`;
    }
    case "=":
    case "<>":
    case "<":
    case "<=":
    case ">":
    case ">=":
      return `${cell} ${condition.is} ${dialect.compared(parameter(condition.value))}`;
  }
}

type Place = { cell: string; descending: boolean; value: KeyPart };

function placesOf(
  { cells, key }: Extract<Condition, { is: "after" }>,
  order: readonly Order[],
): Place[] {
  return cells.map((cell, index) => ({
    cell: quotedName(cell),
    descending: order[index]?.descending === true,
    value: present(key[index], "a page's place names each of its cells"),
  }));
}

/** Both databases walk an index along a comparison of tuples, but only in one direction. */
function afterTerm(places: readonly Place[], parameter: (value: unknown) => string): string {
  const [first, ...rest] = places;
  assert(first !== undefined, "a page's place has a cell");
  const sign = first.descending ? "<" : ">";
  if (places.every(({ descending }) => descending === first.descending)) {
    const cells = places.map(({ cell }) => cell).join(", ");
    return `(${cells}) ${sign} (${places.map(({ value }) => parameter(value)).join(", ")})`;
  }
  const bound = parameter(first.value);
  const strict = `${first.cell} ${sign} ${parameter(first.value)}`;
  return `${first.cell} ${sign}= ${bound} and (${strict} or (${afterTerm(rest, parameter)}))`;
}

function orderTerm({ cell, descending }: Order): string {
  return descending === true ? `${quotedName(cell)} desc` : quotedName(cell);
}

function checkedCell(table: AnyTable, cell: string): string {
  assert(Object.hasOwn(table.cells, cell), `${table.name} has the cell ${cell}`);
  return quotedName(cell);
}

/** What a partial index holds: the conditions that lead there, and the words of both schemas. */
export type PartialIndex = {
  readonly table: string;
  readonly name: string;
  readonly holds: readonly Condition[];
  readonly predicate: string;
};

/** The partial indexes of both schemas. */
export const PARTIAL_INDEXES: readonly PartialIndex[] = [
  {
    table: "backfills",
    name: "backfills_active",
    holds: [OPEN_BACKFILLS],
    predicate: "state in ('PENDING', 'RUNNING', 'PAUSED', 'CANCELLING')",
  },
  {
    table: "backfills",
    name: "backfills_by_parent",
    holds: [{ cell: "parent_backfill_id", is: "not null" }],
    predicate: "parent_backfill_id is not null",
  },
  {
    table: "chunks",
    name: "chunks_unsuccessful",
    // Not the active ones, so that a chunk that goes well costs the index nothing.
    holds: [{ cell: "state", is: "in", values: ["PENDING", "FAILED", "CANCELLED", "SPLIT"] }],
    predicate: "state in ('PENDING', 'FAILED', 'CANCELLED', 'SPLIT')",
  },
  {
    table: "backfills",
    name: "backfills_failed",
    holds: [{ cell: "state", is: "=", value: "FAILED" }],
    predicate: "state = 'FAILED'",
  },
  {
    table: "runs",
    name: "runs_failed",
    holds: [
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "backfill_id", is: "null" },
    ],
    predicate: "state = 'FAILED' and backfill_id is null",
  },
  {
    table: "runs",
    name: "runs_active",
    holds: [ACTIVE_RUNS],
    predicate: "state in ('PENDING', 'RUNNING')",
  },
  {
    table: "runs",
    name: "runs_cancelling",
    holds: [{ cell: "cancel_deadline_at", is: "not null" }, ACTIVE_RUNS],
    predicate: "cancel_deadline_at is not null and state in ('PENDING', 'RUNNING')",
  },
  {
    table: "run_assets",
    name: "run_assets_ready",
    holds: [{ cell: "ready", is: ">", value: 0 }],
    predicate: "ready > 0",
  },
  {
    table: "run_assets",
    name: "run_assets_running",
    holds: [{ cell: "running", is: ">", value: 0 }],
    predicate: "running > 0",
  },
  {
    table: "partition_blocks",
    name: "partition_blocks_failing",
    holds: [{ cell: "failing", is: ">", value: 0 }],
    predicate: "failing > 0",
  },
  {
    table: "schedules",
    name: "schedules_due",
    holds: [{ cell: "due_at", is: "not null" }],
    predicate: "due_at is not null",
  },
  {
    table: "sensor_messages",
    name: "sensor_messages_pending",
    holds: [{ cell: "state", is: "=", value: "PENDING" }],
    predicate: "state = 'PENDING'",
  },
  {
    table: "syncs",
    name: "syncs_active",
    holds: [{ cell: "state", is: "in", values: ["PENDING", "RUNNING", "PAUSED", "FOLLOWING"] }],
    predicate: "state in ('PENDING', 'RUNNING', 'PAUSED', 'FOLLOWING')",
  },
  {
    table: "segments",
    name: "segments_open",
    holds: [{ cell: "status", is: "in", values: ["PENDING", "RUNNING", "FAILED", "QUARANTINED"] }],
    predicate: "status in ('PENDING', 'RUNNING', 'FAILED', 'QUARANTINED')",
  },
  {
    table: "segments",
    name: "segments_active",
    holds: [{ cell: "run_pos", is: "not null" }],
    predicate: "run_pos is not null",
  },
  {
    table: "segments",
    name: "segments_quarantined",
    holds: [{ cell: "status", is: "=", value: "QUARANTINED" }],
    predicate: "status = 'QUARANTINED'",
  },
  {
    table: "segments",
    name: "segments_verifying",
    holds: [{ cell: "verification", is: "not null" }],
    predicate: "verification is not null",
  },
  {
    table: "splits",
    name: "splits_open",
    holds: [OPEN_SPLITS],
    predicate:
      "phase in ('planning', 'dual_write', 'backfill', 'tailing', 'cutover_pending', 'reversible')",
  },
  {
    table: "splits",
    name: "splits_removing",
    holds: [{ cell: "remove_after", is: "not null" }],
    predicate: "remove_after is not null",
  },
  {
    table: "splits",
    name: "splits_due",
    holds: [{ cell: "due_at", is: "not null" }],
    predicate: "due_at is not null",
  },
  {
    table: "moves",
    name: "moves_open",
    holds: [OPEN_MOVES],
    predicate: "state in ('PLANNED', 'RUNNING', 'PAUSED')",
  },
  {
    table: "move_segments",
    name: "move_segments_active",
    holds: [{ cell: "run_pos", is: "not null" }],
    predicate: "run_pos is not null",
  },
];

/** The same by table: every look-up asks for those of one. */
const BY_TABLE = Map.groupBy(PARTIAL_INDEXES, ({ table }) => table);

/** The indexes whose predicates follow from the conditions: what the look-up may say in their words. */
export function impliedIndexes(
  table: AnyTable,
  conditions: readonly Condition[],
): readonly PartialIndex[] {
  const indexes = BY_TABLE.get(table.name) ?? [];
  return indexes.filter(({ holds }) =>
    holds.every((held) => conditions.some((given) => implies(given, held))),
  );
}

/** Whether a condition says nothing that an index does not say of all its rows. */
export function isSaidBy({ holds }: PartialIndex, given: Condition): boolean {
  return holds.some((held) => implies(given, held) && implies(held, given));
}

function implies(given: Condition, held: Condition): boolean {
  if (given.is === "after" || held.is === "after" || given.cell !== held.cell) return false;
  if (held.is === "not null") return given.is !== "null";
  if (held.is === "null") return given.is === "null";
  if ("values" in held)
    return valuesOf(given)?.every((value) => held.values.includes(value)) === true;
  if (held.is === "=") return valuesOf(given)?.every((value) => value === held.value) === true;
  if (held.is !== ">" || !("value" in held)) return false;
  if (given.is === ">" && "value" in given) return given.value >= held.value;
  return valuesOf(given)?.every((value) => value > held.value) === true;
}

/** The only values that a cell can have, when the condition lists them. */
function valuesOf(condition: Condition): readonly KeyPart[] | null {
  if (condition.is === "=" && "value" in condition) return [condition.value];
  return condition.is === "in" && "values" in condition ? condition.values : null;
}
