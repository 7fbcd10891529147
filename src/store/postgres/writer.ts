import type { AnyRow, AnyTable, Key } from "../../kernel/table.ts";
import { type RowCodec, type StoredValue, encodeInto, rowCodec } from "../row-codec.ts";
import { type Statement, insertInto, onConflictWriteOver } from "../statements.ts";
import type { TableChanges, WorkspaceId } from "../store.ts";
import { POSTGRES, arrayText, arrayType } from "./connection.ts";
import { isInGrid, keyParts, rowsAmong } from "./key-arrays.ts";

/**
 * Collects writes into one statement, a part (`with … as (…)`) for each table and kind of write: a
 * round trip under the workspace lock is dearer than any of them. All parts see the database as it
 * was before, which is right because no two touch the same row.
 */
export class WriteStatement {
  readonly #parts: string[] = [];
  readonly #parameters: unknown[];

  constructor(ws: WorkspaceId) {
    this.#parameters = [ws];
  }

  /** Adds rows to insert, write over and delete. */
  addChanges({ table, inserted, updated, deleted }: TableChanges): void {
    if (deleted.length > 0) this.#addDelete(table, deleted);
    if (updated.length > 0) this.#addRows(table, updated, `\n${onConflictWriteOver(table)}`);
    if (inserted.length > 0) this.#addRows(table, inserted, "");
  }

  /** Adds any other write; its parameters are numbered from the one that `sql` is given. */
  add(sql: (first: number) => string, parameters: readonly unknown[]): string {
    const name = `part_${this.#parts.length + 1}`;
    this.#parts.push(`${name} as (\n${sql(this.#parameters.length + 1)}\n)`);
    this.#parameters.push(...parameters);
    return name;
  }

  /** The statement, which selects `result`; null when there is nothing to write. */
  build(result: string): Statement | null {
    if (this.#parts.length === 0) return null;
    const sql = `with ${this.#parts.join(",\n")}\nselect ${result}`;
    return { sql, parameters: this.#parameters };
  }

  #addRows(table: AnyTable, rows: readonly AnyRow[], conflict: string): void {
    const codec = rowCodec(table);
    this.add(
      (first) => {
        const arrays = codec.kinds.map((kind, index) => `$${first + index}::${arrayType(kind)}`);
        return (
          `${insertInto(POSTGRES, table)}\n` +
          `select $1::bigint, * from unnest(${arrays.join(", ")})${conflict}`
        );
      },
      columnsOf(codec, rows),
    );
  }

  #addDelete(table: AnyTable, keys: readonly Key[]): void {
    const parts = keyParts(table, keys);
    // All combinations may go only when they are just the keys: mostly so, as in all tasks of a run.
    const columns = parts.isGrid ? parts.distinct : parts.columns;
    const where = (first: number): string =>
      parts.isGrid
        ? isInGrid(table, first)
        : `ctid = any (array(select found.ctid from ${rowsAmong(table, first, "ctid")}))`;
    this.add(
      (first) => `delete from ${POSTGRES.table(table.name)}\nwhere ${where(first)}`,
      columns.map(arrayText),
    );
  }
}

/** The rows' values as one array text per cell. */
function columnsOf(codec: RowCodec, rows: readonly AnyRow[]): string[] {
  const width = codec.names.length;
  const values: StoredValue[] = Array.from<StoredValue>({ length: width }).fill(null);
  const columns: StoredValue[][] = Array.from({ length: width }, () => []);
  for (const row of rows) {
    encodeInto(values, 0, codec, row);
    for (let index = 0; index < width; index++) columns[index]?.push(values[index] ?? null);
  }
  return columns.map(arrayText);
}
