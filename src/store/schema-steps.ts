import { readdirSync, readFileSync } from "node:fs";
import { assert, PawlError } from "../kernel/errors.ts";
import type { AnyTable, CellKind } from "../kernel/table.ts";
import { KINDS } from "../work/kinds.ts";
import { type Dialect, quotedName } from "./statements.ts";

/** One change of the database's own schema. */
export type SchemaStep = { readonly step: number; readonly name: string; readonly sql: string };

/** The steps of a store, in order; the folder lies beside `src` in a clone and `dist` in a package. */
export function schemaSteps(store: "sqlite" | "postgres"): SchemaStep[] {
  const folder = new URL(`../../schema/${store}/`, import.meta.url);
  const files = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .toSorted();
  return files.map((file, index) => {
    const step = Number(file.slice(0, 4));
    assert(step === index + 1, `schema steps are numbered from 1 without holes, also ${file}`);
    return { step, name: file.slice(5, -4), sql: readFileSync(new URL(file, folder), "utf8") };
  });
}

/** How a database writes the types of cells, and the end of a table. */
type TableDialect = Pick<Dialect, "table"> & {
  readonly types: Readonly<Record<CellKind, string>>;
  readonly integer: string;
  readonly end: string;
};

/**
 * What makes the tables that kinds of work bring with them, where they are not there yet: lists of such
 * rows go along their creation, all or those in a state.
 */
export function kindTables(dialect: TableDialect): string[] {
  const tables = KINDS.flatMap(({ parts }): AnyTable[] => Object.values(parts?.tables ?? {}));
  return tables.flatMap(({ name, key, cells }) => {
    const columns = Object.entries(cells).map(([cell, kind]) => {
      const isKey = key.includes(cell) ? " not null" : "";
      return `${quotedName(cell)} ${dialect.types[kind]}${isKey}`;
    });
    const keys = ["ws", ...key].map(quotedName).join(", ");
    const table = dialect.table(name);
    const made = `create table if not exists ${table} ("ws" ${dialect.integer} not null, ${columns.join(", ")}, primary key (${keys}))${dialect.end}`;
    if (!("state" in cells && "created_pos" in cells)) return [made];
    const index = (suffix: string, on: string) =>
      `create index if not exists ${quotedName(`${name}_${suffix}`)} on ${table} (${on})`;
    return [
      made,
      index("by_creation", `"ws", "created_pos"`),
      index("by_state", `"ws", "state", "created_pos"`),
    ];
  });
}

/** The steps that follow the newest applied one; refuses a schema that this version does not know. */
export function pendingSteps(
  steps: readonly SchemaStep[],
  applied: number,
  place: string,
): readonly SchemaStep[] {
  if (applied > steps.length) {
    throw new PawlError(
      "LEDGER_NEWER",
      `${place} has schema step ${applied}, but this version of Pawl knows only ${steps.length}. ` +
        "Start the newer version of Pawl that wrote it.",
      { details: { place, applied, known: steps.length } },
    );
  }
  return steps.slice(applied);
}
