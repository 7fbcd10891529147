import { readdirSync, readFileSync } from "node:fs";
import { PawlError } from "../kernel/errors.ts";
import { assert } from "../kernel/assert.ts";

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
