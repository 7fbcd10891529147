import { canonicalJson, documentText } from "../kernel/canonical.ts";
import { assert, present } from "../kernel/errors.ts";
import type {
  AnyRow,
  AnyTable,
  CellKind,
  Condition,
  Find,
  Key,
  KeyPart,
  Table,
} from "../kernel/table.ts";
import type { EventFilter, RecordedEvent } from "../work/envelope.ts";
import {
  ANSWERS,
  CHECKPOINTS,
  EVENT_TABLE,
  LEASES,
  type NumberedLogLine,
  PROBES,
  PROGRESS,
  type ProgressRow,
  RUN_LOGS,
  TASK_LOGS,
  TOKENS,
} from "./side-tables.ts";
import type {
  Answer,
  CellValue,
  Checkpoint,
  GroupCount,
  Head,
  Lease,
  Probe,
  ProbeKind,
  Reader,
  RowTexts,
  RunLogFilter,
  RunLogSize,
  TokenRow,
} from "./store.ts";

/**
 * The reads that both stores do alike, on top of the four that they do differently. A store makes
 * one for a transaction and ends it with the transaction.
 */
/** Tasks whose log lines are sorted at once. */
const LOGGED_TASKS_AT_ONCE = 20;

export abstract class StatementReader implements Reader {
  #ended = false;

  abstract head(): Promise<Head>;
  abstract load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]>;
  abstract find<Row extends AnyRow>(find: Find<Row>): Promise<Row[]>;
  abstract findCells(find: Find, cells: readonly string[]): Promise<CellValue[][]>;
  abstract findTexts(find: Find): Promise<RowTexts>;
  abstract countBy(
    table: AnyTable,
    where: readonly Condition[],
    cells: readonly string[],
  ): Promise<GroupCount[]>;

  /** Says that the transaction is over: a later use is a mistake and fails. */
  end(): void {
    this.#ended = true;
  }

  protected assertOpen(): void {
    assert(!this.#ended, "a reader is used only inside its transaction");
  }

  async events(filter: EventFilter): Promise<RecordedEvent[]> {
    return (await this.find(eventsFind(filter))) as RecordedEvent[];
  }

  async eventTypes(after: number): Promise<string[]> {
    const groups = await this.countBy(
      EVENT_TABLE,
      [{ cell: "pos", is: ">", value: after }],
      ["type"],
    );
    return groups.map(({ values }) => String(values["type"]));
  }

  async answer(scope: string, key: string): Promise<Answer | null> {
    const [answer] = await this.load(ANSWERS, [[scope, key]]);
    return answer ?? null;
  }

  async lease(leaseId: string): Promise<Lease | null> {
    const [lease] = await this.load(LEASES, [[leaseId]]);
    return lease ?? null;
  }

  async leases(limit: number): Promise<Lease[]> {
    const order = [{ cell: "expires_at" }, { cell: "lease_id" }];
    return this.find({ table: LEASES, where: [], order, limit });
  }

  async checkpoints(
    tasks: readonly { run_pos: number; task_key: number }[],
  ): Promise<Checkpoint[]> {
    const keys = tasks.map(({ run_pos, task_key }) => [run_pos, task_key]);
    return this.load(CHECKPOINTS, keys);
  }

  async progress(runPos: number): Promise<ProgressRow[]> {
    const rows = await this.find({
      table: PROGRESS,
      where: [{ cell: "run_pos", is: "=", value: runPos }],
      order: [{ cell: "task_key" }],
      limit: Number.MAX_SAFE_INTEGER,
    });
    return rows;
  }

  async logs(
    runPos: number,
    taskKey: number,
    after: number,
    limit: number,
  ): Promise<NumberedLogLine[]> {
    const rows = await this.find({
      table: TASK_LOGS,
      where: [
        { cell: "run_pos", is: "=", value: runPos },
        { cell: "task_key", is: "=", value: taskKey },
        { cell: "line", is: ">", value: after },
      ],
      order: [{ cell: "line" }],
      limit,
    });
    return rows;
  }

  async runLogs(
    runPos: number,
    { after, tasks, since }: RunLogFilter,
    limit: number,
  ): Promise<NumberedLogLine[]> {
    const where: Condition[] = [{ cell: "run_pos", is: "=", value: runPos }];
    if (since !== null) where.push({ cell: "at", is: ">=", value: since });
    if (after !== null) where.push({ cells: ["task_key", "line"], is: "after", key: after });
    const order = [{ cell: "task_key" }, { cell: "line" }];
    const read = (those: Condition[], most: number): Promise<NumberedLogLine[]> =>
      this.find({ table: TASK_LOGS, where: [...where, ...those], order, limit: most });
    if (tasks === null) return read([], limit);
    const left = tasks.filter((task) => after === null || task >= after[0]);
    const [first = 0, last = first] = [left[0], left.at(-1)];
    // Lines lie in this order, and are read in it where their tasks do; those of a list are all sorted first.
    if (left.length > 0 && last - first + 1 === left.length) {
      const between: Condition[] = [
        { cell: "task_key", is: ">=", value: first },
        { cell: "task_key", is: "<=", value: last },
      ];
      return read(between, limit);
    }
    const lines: NumberedLogLine[] = [];
    for (let at = 0; at < left.length && lines.length < limit; at += LOGGED_TASKS_AT_ONCE) {
      const values = left.slice(at, at + LOGGED_TASKS_AT_ONCE);
      const found = await read([{ cell: "task_key", is: "in", values }], limit - lines.length);
      for (const line of found) lines.push(line);
    }
    return lines;
  }

  async runLogSizes(runPositions: readonly number[]): Promise<RunLogSize[]> {
    const keys = runPositions.map((runPos) => [runPos]);
    return this.load(RUN_LOGS, keys);
  }

  async token(tokenId: string): Promise<Omit<TokenRow, "ws"> | null> {
    const [token] = await this.load(TOKENS, [[tokenId]]);
    return token ?? null;
  }

  async probes(probeIds: readonly string[]): Promise<Probe[]> {
    const keys = probeIds.map((probeId) => [probeId]);
    return this.load(PROBES, keys);
  }

  async probesOf(
    kind: ProbeKind,
    subject: string | null,
    limit: number,
    after: Pick<Probe, "due_at" | "probe_id"> | null = null,
  ): Promise<Probe[]> {
    const where: Condition[] = [{ cell: "kind", is: "=", value: kind }];
    if (subject !== null) where.push({ cell: "subject", is: "=", value: subject });
    const cells = ["due_at", "probe_id"];
    if (after !== null) where.push({ cells, is: "after", key: [after.due_at, after.probe_id] });
    const order = cells.map((cell) => ({ cell }));
    return this.find({ table: PROBES, where, order, limit });
  }
}

/** Fails for documents, and texts that may be compressed: `findCells` hands out values as they are stored. */
export function assertPlainCells(table: AnyTable, cells: readonly string[]): void {
  for (const cell of cells) {
    const isPlain = table.cells[cell] !== "json" && table.long?.includes(cell) !== true;
    assert(isPlain, () => `${table.name}.${cell} is plain`);
  }
}

/** The counts of a `countStatement`, each row being the cells' values and then the count. */
export function decodeCounts(
  table: AnyTable,
  cells: readonly string[],
  rows: readonly (readonly unknown[])[],
): GroupCount[] {
  return rows.map((row) => {
    const values: Record<string, unknown> = {};
    for (const [index, cell] of cells.entries()) {
      const kind = present(table.cells[cell], () => `${table.name} has the cell ${cell}`);
      values[cell] = decoded(table, cell, kind, row[index]);
    }
    return { values, count: Number(row[cells.length]) };
  });
}

/** The events of a workspace as a look-up like any other. */
function eventsFind(filter: EventFilter): Find {
  const where: Condition[] = [{ cell: "pos", is: ">", value: filter.after }];
  if (filter.through !== undefined) where.push({ cell: "pos", is: "<=", value: filter.through });
  if (filter.types !== undefined) where.push({ cell: "type", is: "in", values: filter.types });
  if (filter.subjects !== undefined) {
    where.push({ cell: "subject_pos", is: "in", values: filter.subjects });
  }
  if (filter.keys !== undefined) {
    where.push({ cell: "idempotency_key", is: "in", values: filter.keys });
  }
  const order = [{ cell: "pos", descending: filter.descending === true }];
  return { table: EVENT_TABLE, where, order, limit: filter.limit };
}

/** What a cell holds in the database; JSON documents are there as canonical text. */
export type StoredValue = string | number | null;

/**
 * Turns the rows of one table into the values of its columns and back, in the order of the
 * descriptor's cells.
 */
export type RowCodec<Row extends AnyRow = AnyRow> = {
  readonly table: Table<Row>;
  readonly names: readonly string[];
  readonly kinds: readonly CellKind[];
  /** Where the cells are that may be long. */
  readonly long: readonly number[];
  /** Where the cells of the key are. */
  readonly key: readonly number[];
  /** The places of the cells in the order of their names, each with what is before it in a canonical text. */
  readonly written: readonly (readonly [place: number, before: string])[];
};

const codecs = new WeakMap<AnyTable, RowCodec>();

/** The codec of a table; the same one each time. */
export function rowCodec<Row extends AnyRow>(table: Table<Row>): RowCodec<Row> {
  const known = codecs.get(table) as RowCodec<Row> | undefined;
  if (known !== undefined) return known;
  const kinds: CellKind[] = Object.values(table.cells);
  const names = Object.keys(table.cells);
  const long = (table.long ?? []).map((name) => names.indexOf(name));
  const key = table.key.map((name) => names.indexOf(name));
  const written = names
    .toSorted((one, other) => (one < other ? -1 : 1))
    .map((name, at) => [names.indexOf(name), `${at === 0 ? "{" : ","}"${name}":`] as const);
  const codec = { table, names, kinds, long, key, written };
  codecs.set(table, codec);
  return codec;
}

/** Puts the row's values into `values` from `offset` on: the hot path, so nothing is allocated. */
export function encodeInto(
  values: StoredValue[],
  offset: number,
  { table, names, kinds }: RowCodec,
  row: AnyRow,
): void {
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    const value = row[name];
    if (value === undefined) assert(false, `a row of ${table.name} has the cell ${name}`);
    values[offset + index] = encoded(kinds[index] as CellKind, value);
  }
}

/** To make a shorter text anew costs less than to remember it: most rows are written once. */
const LENGTH_KEPT = 500;

/** The value of a cell as the database keeps it. JSON null is SQL null. */
export function encoded(kind: CellKind, value: unknown): StoredValue {
  if (kind !== "json" || value === null) return value as StoredValue;
  return typeof value === "object" ? documentText(value, LENGTH_KEPT) : canonicalJson(value);
}

/** The rows of a look-up in canonical form: documents are kept in it, so that none has to be read. */
export function rowTexts(codec: RowCodec, rows: readonly (readonly unknown[])[]): RowTexts {
  const texts = rows.map((values) => rowText(codec, values));
  const last = rows.at(-1);
  // Cells of keys are texts and integers.
  const lastKey = last === undefined ? null : codec.key.map((place) => last[place] as KeyPart);
  return { texts, lastKey };
}

function rowText({ table, names, kinds, written }: RowCodec, values: readonly unknown[]): string {
  let text = "";
  for (const [place, before] of written) {
    const value = values[place];
    const kind = kinds[place];
    const isNumber = typeof value === "number";
    assert(
      value === null || (kind === "int" ? isNumber : typeof value === "string"),
      () => `${table.name}.${names[place]} is of its kind`,
    );
    text += before + (kind === "text" ? JSON.stringify(value) : String(value));
  }
  return `${text}}`;
}

/** The row of a table whose values stand in `values` in the order of the cells. */
export function decodeRow<Row extends AnyRow>(
  { table, names, kinds }: RowCodec<Row>,
  values: readonly unknown[],
): Row {
  const row: Record<string, unknown> = {};
  for (let index = 0; index < names.length; index++) {
    const name = names[index] as string;
    row[name] = decoded(table, name, kinds[index] as CellKind, values[index]);
  }
  // Every cell was checked for its kind; what more its type says, the fold alone has written.
  return row as Row;
}

/** The value of a cell, checked for its kind. */
export function decoded(table: AnyTable, name: string, kind: CellKind, value: unknown): unknown {
  if (value === null) return null;
  if (kind === "int") {
    assert(typeof value === "number", () => `${table.name}.${name} is an integer`);
    return value;
  }
  assert(typeof value === "string", () => `${table.name}.${name} is text`);
  return kind === "json" ? JSON.parse(value) : value;
}
