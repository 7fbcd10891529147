import type { AnyRow, AnyTable, Key } from "../../core/rows/table.ts";
import { type RowCodec, type StoredValue, encodeInto, rowCodec } from "../row-codec.ts";
import { type Statement, insertInto, onConflictWriteOver, quoted } from "../statements.ts";
import type { TableChanges, WorkspaceId } from "../store.ts";
import { POSTGRES, arrayText, arrayType } from "./connection.ts";
import { keyArrays } from "./reader.ts";

/**
 * Collects writes into one statement, a part (`with … as (…)`) for each table and kind of write: a
 * round trip under the workspace lock is dearer than any of them. All parts see the database as it
 * was before, which is right because no two touch the same row.
 */
export class WriteStatement {
  readonly #ws: WorkspaceId;
  readonly #parts: string[] = [];
  readonly #parameters: unknown[];

  constructor(ws: WorkspaceId) {
    this.#ws = ws;
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

  get ws(): WorkspaceId {
    return this.#ws;
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
    const columns = table.key.map((_, index) => arrayText(keys.map((key) => key[index] ?? null)));
    this.add((first) => {
      const parts = table.key.map((_, index) => `part_${index}`);
      const joined = table.key.map((cell, index) => `t.${quoted(cell)} = k.${parts[index]}`);
      return (
        `delete from ${POSTGRES.table(table.name)} t\n` +
        `using unnest(${keyArrays(table, first)}) k (${parts.join(", ")})\n` +
        `where t."ws" = $1 and ${joined.join(" and ")}`
      );
    }, columns);
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
