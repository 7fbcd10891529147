import { canonicalJson } from "../../src/kernel/canonical.ts";
import type { RecordedEvent } from "../../src/work/envelope.ts";
import { type AnyRow, type AnyTable, type Key, keyOf, keyText } from "../../src/kernel/table.ts";
import { TABLES, type TableName } from "../../src/work/tables.ts";
import { folded, Refold, type RefoldTarget } from "../../src/engine/ledger/refold.ts";
import type { Store, Workspace } from "../../src/store/store.ts";
import type { Random } from "./random.ts";
import type { Violations } from "./violations.ts";

/** All rows of the fold as text, and the position they belong to. */
export type RowDump = { pos: number; tables: Record<TableName, Map<string, string>> };

/** Reads every row of a workspace. */
export async function dumpRows(store: Store, { ws }: Workspace): Promise<RowDump> {
  return store.read(ws, async (reader) => {
    const { pos } = await reader.head();
    const tables = {} as RowDump["tables"];
    for (const name of Object.keys(TABLES) as TableName[]) {
      const table: AnyTable = TABLES[name];
      const rows = await reader.find({ table, where: [], order: [], limit: 1_000_000 });
      tables[name] = textsOf(table, rows);
    }
    return { pos, tables };
  });
}

function textsOf(table: AnyTable, rows: Iterable<AnyRow>): Map<string, string> {
  return new Map([...rows].map((row) => [keyText(keyOf(table, row)), canonicalJson(row)]));
}

/** A row as it was written; its text is made when somebody reads it. */
type Written = { row: AnyRow; text: string | null };

function textOf(written: Written): string {
  written.text ??= canonicalJson(written.row);
  return written.text;
}

/** Rows in memory, each read as text, as a database keeps them. */
export class ScratchRows implements RefoldTarget {
  readonly #tables = new Map<AnyTable, Map<string, Written>>();

  async load(table: AnyTable, keys: readonly Key[]): Promise<AnyRow[]> {
    const rows = this.#of(table);
    return keys.flatMap((key) => {
      const written = rows.get(keyText(key));
      return written === undefined ? [] : [JSON.parse(textOf(written)) as AnyRow];
    });
  }

  async write(changes: Parameters<RefoldTarget["write"]>[0]): Promise<void> {
    for (const { table, inserted, updated, deleted } of changes) {
      const rows = this.#of(table);
      for (const key of deleted) rows.delete(keyText(key));
      for (const row of inserted) rows.set(keyText(keyOf(table, row)), { row, text: null });
      for (const row of updated) rows.set(keyText(keyOf(table, row)), { row, text: null });
    }
  }

  text(name: TableName, ...key: Key): string | null {
    const written = this.#of(TABLES[name]).get(keyText(key));
    return written === undefined ? null : textOf(written);
  }

  /** The rows whose key begins with a part. */
  textsUnder(name: TableName, part: string): string[] {
    const prefix = keyText([part, ""]);
    return [...this.#of(TABLES[name])].flatMap(([key, written]) =>
      key.startsWith(prefix) ? [textOf(written)] : [],
    );
  }

  dump(pos: number): RowDump {
    const tables = {} as RowDump["tables"];
    for (const name of Object.keys(TABLES) as TableName[]) {
      const rows = this.#of(TABLES[name]);
      tables[name] = new Map([...rows].map(([key, written]) => [key, textOf(written)]));
    }
    return { pos, tables };
  }

  #of(table: AnyTable): Map<string, Written> {
    const rows = this.#tables.get(table) ?? new Map<string, Written>();
    this.#tables.set(table, rows);
    return rows;
  }
}

/** Folds the ledger anew, in batches of any size and with restarts, and compares with what was live. */
export async function auditRows(
  events: readonly RecordedEvent[],
  dumps: readonly RowDump[],
  random: Random,
  violations: Violations,
): Promise<void> {
  const scratch = new ScratchRows();
  let refold = new Refold(scratch);
  let pos = 0;
  for (const dump of dumps.toSorted((a, b) => a.pos - b.pos)) {
    while (pos < dump.pos) {
      const size = Math.min(dump.pos - pos, random.pick([1, 2, 7, 100]));
      // A process that starts anew has nothing in memory.
      if (random.chance(0.2)) refold = new Refold(scratch);
      try {
        await refold.fold(events.slice(pos, pos + size).map(folded));
      } catch (error) {
        violations.add("I11", `events after ${pos} do not fold: ${String(error)}`);
        return;
      }
      pos += size;
    }
    compareRows(dump, scratch.dump(pos), "I12", violations);
  }
}

/** Notes every row that differs. */
export function compareRows(
  live: RowDump,
  refolded: RowDump,
  promise: string,
  violations: Violations,
): void {
  for (const name of Object.keys(TABLES) as TableName[]) {
    const one = live.tables[name];
    const other = refolded.tables[name];
    for (const key of new Set([...one.keys(), ...other.keys()])) {
      if (one.get(key) === other.get(key)) continue;
      const difference = `${name} ${key} at ${live.pos}: ${one.get(key)} / ${other.get(key)}`;
      violations.add(promise, difference);
    }
  }
}
