import type { ConflictDocument } from "../../core/api/run-documents.ts";
import { present } from "../../core/assert.ts";
import { canonicalJson } from "../../core/canonical.ts";
import type { EventData } from "../../core/events/index.ts";
import { RUN_KEY_CONFLICTS, type RunKeyConflictRow } from "../../core/rows/run-rows.ts";
import type { Reader } from "../../store/store.ts";
import type { Handler } from "../call.ts";
import { listRows, withinTime } from "../list-rows.ts";

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
export const CONFLICT_HANDLERS: { listConflicts: Handler<"listConflicts"> } = {
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
};
