import type { SequenceValue, TableShape } from "../shard.ts";
import { lookUp } from "./catalog.ts";
import type { Connection } from "./connection.ts";

const STANDS = "select seq from sqlite_sequence where name = ? collate nocase";
const MOVE_ON = "update sqlite_sequence set seq = max(seq, ?) where name = ? collate nocase";
const BEGIN = `
  insert into sqlite_sequence (name, seq)
  select name, ? from sqlite_schema where type = 'table' and name = ? collate nocase`;

/** Where the tables with AUTOINCREMENT stand; others count on from their greatest key. */
export function sequences(db: Connection, tables: readonly TableShape[]): SequenceValue[] {
  return tables.flatMap((table) => {
    const { autoincrement, key } = lookUp(db, table);
    const value = autoincrement ? db.value(STANDS, table.table) : null;
    const column = key[0]?.name;
    if (value === null || column === undefined) return [];
    return [{ table: table.table, column, value: String(value) }];
  });
}

/** Moves sequences on to values, never back. */
export function advanceSequences(db: Connection, values: readonly SequenceValue[]): void {
  for (const { table, value } of values) {
    if (db.run(MOVE_ON, BigInt(value), table) === 0) db.run(BEGIN, BigInt(value), table);
  }
}
