import type { Fence, StreamState } from "../../../src/shards/shard.ts";

/** A row: the texts of its columns, `tenant` among them. */
export type ModelRow = Record<string, string>;

/** A change in the log. It is seen by those who see its transaction. */
export type LoggedChange = {
  id: number;
  xid: number;
  table: string;
  op: "put" | "delete";
  key: string[];
  tenant: string;
  image: ModelRow | null;
};

/** A transaction of the application that has begun and not ended. */
export type OpenTransaction = {
  xid: number;
  tenant: string;
  writes: { table: string; key: string; row: ModelRow | null }[];
};

/**
 * Everything that a model of a shard consists of, as plain data, so that it can be kept, compared
 * and taken up again. Its history is that of PostgreSQL: ids of changes are given out when they are
 * made, and seen when their transaction commits, so a later id can be seen first.
 */
export type ModelData = {
  name: string;
  tables: Record<string, { key: string[]; rows: Record<string, ModelRow> }>;
  nextXid: number;
  nextId: number;
  open: OpenTransaction[];
  log: LoggedChange[];
  /** Where each plan that needs capture began. */
  armed: Record<string, string>;
  tokens: Record<string, number>;
  streams: Record<string, { plan: string; state: StreamState }>;
  fences: Record<string, Fence>;
  /** Fences that are closed and whose time has passed. */
  expired: string[];
};

/** A shard with these tables, each with columns of its key and rows. */
export function modelData(
  name: string,
  tables: Record<string, { key: string[]; rows: ModelRow[] }>,
): ModelData {
  return {
    name,
    tables: Object.fromEntries(
      Object.entries(tables).map(([table, { key, rows }]) => [
        table,
        { key, rows: Object.fromEntries(rows.map((row) => [keyText(key, row), row])) },
      ]),
    ),
    nextXid: 1,
    nextId: 1,
    open: [],
    log: [],
    armed: {},
    tokens: {},
    streams: {},
    fences: {},
    expired: [],
  };
}

/** The key of a row as one text, which sorts as keys do as long as columns have one character. */
export function keyText(columns: readonly string[], row: ModelRow): string {
  return columns.map((column) => row[column]).join("/");
}

/** What a snapshot sees: transactions below `next` that were not open then. */
export type Snapshot = { next: number; open: number[] };

/** The present snapshot, as a text. */
export function positionOf(data: ModelData): string {
  const open = data.open.map(({ xid }) => xid).toSorted((a, b) => a - b);
  return JSON.stringify({ next: data.nextXid, open } satisfies Snapshot);
}

/** Whether a position has a transaction in it. */
export function isVisible(xid: number, position: string): boolean {
  const { next, open } = JSON.parse(position) as Snapshot;
  return xid < next && !open.includes(xid);
}
