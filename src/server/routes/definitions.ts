import { publishDefinitions } from "../../controllers/publish-definitions.ts";
import { present } from "../../core/assert.ts";
import {
  type DefinitionRow,
  DEFINITIONS,
  type SpecRow,
  SPECS,
} from "../../core/rows/definition-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Handler, submitted } from "../call.ts";
import { listRows } from "../list-rows.ts";
import { shownSpec } from "../webhook-document.ts";

/** Rows of definitions, each with its spec. */
export async function withSpecs(
  rows: readonly DefinitionRow[],
  reader: Reader,
): Promise<{ row: DefinitionRow; spec: SpecRow["body"] }[]> {
  const keys = rows.map(({ spec_hash }) => [spec_hash]);
  const specs = (await reader.load(SPECS, keys)) as SpecRow[];
  const byHash = new Map(specs.map((spec) => [spec.spec_hash, spec.body]));
  return rows.map((row) => {
    return { row, spec: present(byHash.get(row.spec_hash), "a definition has its spec") };
  });
}

/** What can be done with definitions. */
export const DEFINITION_HANDLERS: {
  publishDefinitions: Handler<"publishDefinitions">;
  listDefinitions: Handler<"listDefinitions">;
} = {
  publishDefinitions: (call) =>
    submitted(call, publishDefinitions(call.body), (result) => ({
      message:
        result.changed.length + result.removed.length === 0
          ? "Nothing has changed."
          : `${result.changed.length} published, ${result.removed.length} removed.`,
      ...result,
    })),
  listDefinitions: (call) => {
    const { kind } = call.query;
    const where: Condition[] = kind === undefined ? [] : [{ cell: "kind", is: "=", value: kind }];
    const list = { table: DEFINITIONS, where, along: ["kind", "name"] as const };
    return listRows(call, list, async (rows, reader) =>
      (await withSpecs(rows, reader)).map(({ row, spec }) => {
        return { ...row, spec: shownSpec(spec, call.caller) };
      }),
    );
  },
};
