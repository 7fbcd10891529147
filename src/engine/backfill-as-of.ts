import type { EventData } from "../core/events/index.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import type { AnyRecorded } from "../core/fold/fold.ts";
import type { BackfillRow, ChunkRow } from "../core/rows/backfill-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import { WorkingSet } from "../core/rows/working-set.ts";
import type { Reader } from "../store/store.ts";
import { eventPages } from "./ledger-pages.ts";
import { foldAlone, folded, mayBePassedOver } from "./refold.ts";

/** More runs than this are found by reading through the ledger rather than one by one. */
const RUNS_LOOKED_UP_MAX = 2_000;

/** A backfill as it was after the event at `pos`; null when it did not exist then. */
export async function backfillAsOf(
  reader: Reader,
  backfillId: string,
  pos: number,
): Promise<BackfillRow | null> {
  const [now] = (await reader.load(TABLES.backfills, [[backfillId]])) as BackfillRow[];
  if (now === undefined || now.created_pos > pos) return null;
  const set = new WorkingSet();
  for await (const events of eventsOf(reader, now, pos)) {
    for (const event of events) {
      if (!mayBePassedOver(event)) foldFor(set, folded(event), backfillId);
    }
  }
  return set.rows.backfills.get(backfillId);
}

async function* eventsOf(
  reader: Reader,
  backfill: BackfillRow,
  through: number,
): AsyncGenerator<RecordedEvent[]> {
  const after = backfill.created_pos - 1;
  const chunks = (await reader.find({
    table: TABLES.chunks,
    where: [
      { cell: "backfill_id", is: "=", value: backfill.backfill_id },
      { cell: "run_pos", is: "not null" },
    ],
    order: [{ cell: "chunk_index" }],
    limit: RUNS_LOOKED_UP_MAX + 1,
  })) as ChunkRow[];
  if (chunks.length <= RUNS_LOOKED_UP_MAX) {
    const runs = chunks.flatMap(({ run_pos }) => run_pos ?? []);
    const subjects = [backfill.created_pos, ...runs];
    yield* eventPages(reader, { after, through, subjects });
    return;
  }
  for await (const events of eventPages(reader, { after, through })) {
    yield events.filter(({ data }) => data.includes(backfill.backfill_id));
  }
}

/** Folds what an event means for one backfill. */
function foldFor(set: WorkingSet, event: AnyRecorded, backfillId: string): void {
  const about = (event.data as { backfill_id?: string | null }).backfill_id;
  if (about !== backfillId) return;
  const alone =
    event.type === "BackfillCreated"
      ? { ...(event.data as EventData<"BackfillCreated">), after_backfill_id: null }
      : event.data;
  foldAlone(set, { ...event, data: alone });
}
