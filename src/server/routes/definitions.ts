import { publishDefinitions } from "../../work/definition/publish.ts";
import { present } from "../../kernel/errors.ts";
import {
  type DefinitionRow,
  DEFINITIONS,
  type SpecRow,
  SPECS,
} from "../../work/definition/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Handlers, submitted } from "../http/call.ts";
import { listRows, withinTime } from "../http/read-within.ts";
import { shownSpec } from "./webhooks.ts";
import type { ConflictDocument } from "../../work/run/api.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import type { EventData } from "../../work/events.ts";
import { RUN_KEY_CONFLICTS, type RunKeyConflictRow } from "../../work/run/rows.ts";

/** Rows of definitions, each with its spec. */
export async function withSpecs(
  rows: readonly DefinitionRow[],
  reader: Reader,
): Promise<{ row: DefinitionRow; spec: SpecRow["body"] }[]> {
  const keys = rows.map(({ spec_hash }) => [spec_hash]);
  const specs = await reader.load(SPECS, keys);
  const byHash = new Map(specs.map((spec) => [spec.spec_hash, spec.body]));
  return rows.map((row) => {
    return { row, spec: present(byHash.get(row.spec_hash), "a definition has its spec") };
  });
}

/** What can be done with definitions. */
export const DEFINITION_HANDLERS = {
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
} satisfies Handlers;

type Side = ConflictDocument["first"];

/** The request that stands at a position. */
async function requestAt(reader: Reader, pos: number): Promise<Side> {
  const [found] = await reader.events({ after: pos - 1, through: pos, limit: 1 });
  const event = present(found, `the request at ${pos} is in the ledger`);
  const data = JSON.parse(event.data) as EventData<"RunRequested">;
  return {
    event_id: event.event_id,
    pos,
    occurred_at: event.occurred_at,
    actor: JSON.parse(event.actor) as Side["actor"],
    asset_selection: data.asset_selection,
    partition_selection: data.partition_selection,
    config: data.config,
    trigger_source_ref: data.trigger_source_ref,
  };
}

async function conflictDocument(row: RunKeyConflictRow, reader: Reader): Promise<ConflictDocument> {
  const first = await requestAt(reader, row.run_pos);
  const conflicting = await requestAt(reader, row.pos);
  const compared = ["asset_selection", "partition_selection", "config"] as const;
  const differences = compared.filter(
    (field) => canonicalJson(first[field]) !== canonicalJson(conflicting[field]),
  );
  const existing_fingerprint = row.request_fingerprint;
  return { ...row, existing_fingerprint, first, conflicting, differences };
}

/** What can be asked about conflicts. */
export const CONFLICT_HANDLERS = {
  listConflicts: (call) =>
    listRows(
      call,
      {
        table: RUN_KEY_CONFLICTS,
        where: withinTime("detected_at", call.query),
        along: ["pos"],
        descending: true,
      },
      async (rows, reader) => {
        const documents: ConflictDocument[] = [];
        for (const row of rows) documents.push(await conflictDocument(row, reader));
        return documents;
      },
    ),
} satisfies Handlers;
