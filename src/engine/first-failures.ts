import type { Reader } from "../store/store.ts";
import { CHUNKS, type Failure } from "../work/backfill/rows.ts";
import type { TaskResultField } from "../work/run/events.ts";
import { resultsOf } from "../work/run/story.ts";
import { eventPages } from "./ledger/refold.ts";

/** Partitions that are named, and failed chunks that are looked through for them. */
const FAILURES_MAX = 10;
const CHUNKS_MAX = 10;

/** Characters of a message: what tells failures apart stands at the beginning. */
const MESSAGE_LENGTH_MAX = 500;

/** A partition that failed, and why; of an asset without partitions there is no key. */
export type PartitionFailure = {
  asset_key: string;
  partition_key: string | null;
  run_id: string;
  error: Failure;
};

/** The first partitions of a backfill that failed for good, in the order of its chunks. */
export async function firstFailures(
  reader: Reader,
  backfillId: string,
): Promise<PartitionFailure[]> {
  const chunks = await reader.find({
    table: CHUNKS,
    where: [
      { cell: "backfill_id", is: "=", value: backfillId },
      { cell: "state", is: "=", value: "FAILED" },
    ],
    order: [{ cell: "chunk_index" }],
    limit: CHUNKS_MAX,
  });
  const found: PartitionFailure[] = [];
  for (const { run_pos, run_id } of chunks) {
    if (run_pos === null || run_id === null) continue;
    const types = ["TasksFinished", "TaskLeaseExpired"];
    const filter = { after: run_pos - 1, subjects: [run_pos], types };
    for await (const page of eventPages(reader, filter)) {
      for (const result of page.flatMap(resultsOf)) {
        for (const failure of failuresIn(result)) {
          found.push({ ...failure, run_id });
          if (found.length === FAILURES_MAX) return found;
        }
      }
    }
  }
  return found;
}

/** What failed in an attempt that is followed by no other: its partitions with errors of their own, or all. */
function failuresIn(result: TaskResultField): Omit<PartitionFailure, "run_id">[] {
  const { asset_key, partition_keys, outcome, exceptions = [], retry_at, error } = result;
  if (retry_at !== undefined) return [];
  const exceptionAt = new Map(exceptions.map((each) => [each.index, each]));
  return partition_keys.flatMap((key, index) => {
    const exception = exceptionAt.get(index);
    if ((exception?.outcome ?? outcome) !== "FAILED") return [];
    const { class: kind, message } = exception?.error ?? error ?? UNKNOWN;
    const shown = { class: kind, message: message.slice(0, MESSAGE_LENGTH_MAX) };
    return [{ asset_key, partition_key: key === "" ? null : key, error: shown }];
  });
}

const UNKNOWN: Failure = { class: "unknown", message: "No error was reported." };
