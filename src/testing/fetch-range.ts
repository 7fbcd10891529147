import { definePawl } from "../define/define-pawl.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import type { Sync } from "../define/sync.ts";
import type { AnswerOf } from "../work/operations.ts";
import { type SyncTarget, targetKeyOf } from "../work/sync/spec.ts";
import {
  TEST_OPTIONS,
  type TestFailure,
  type TestFetch,
  type TestLog,
  type TestOptions,
} from "./records.ts";
import { type TestPawl, withTestPawl } from "./test-pawl.ts";

/** Which blocks of which target to fetch. */
export type FetchRangeOptions = TestOptions & {
  target: SyncTarget;
  /** The first and the last block, both included. */
  from: number;
  to: number;
  /** After so many failed attempts a segment is given up; 3 unless told. */
  maxAttempts?: number;
};

/** What came of it. */
export type FetchedRange = {
  /** `COMPLETE` when every block was fetched, and verified where the sync does that. */
  readonly status: AnswerOf<"getSync">["status"];
  /** The last block up to which everything is stored; null when nothing is. */
  readonly syncedTo: number | null;
  /** What went wrong last; null when nothing did. */
  readonly error: TestFailure | null;
  /** Every call of `fetch`, in the order in which they began. */
  readonly calls: readonly TestFetch[];
  readonly logs: readonly TestLog[];
};

const OPTIONS = [...TEST_OPTIONS, "target", "from", "to", "maxAttempts"];

const MAX_ATTEMPTS = 3;

/**
 * Fetches blocks with a sync's functions as a worker would: in segments, as many blocks at once as the
 * source takes, tried again when it is throttled or away, and without the waits in between.
 */
export async function fetchRange(sync: Sync, options: FetchRangeOptions): Promise<FetchedRange> {
  refuseUnknownOptions("fetchRange()", options, OPTIONS);
  const { target, from, to, maxAttempts = MAX_ATTEMPTS } = options;
  const spec = {
    ...sync.spec,
    targets: [target],
    from,
    to,
    // How many run at once is up to the test.
    pool: null,
    abandon_after: maxAttempts,
    retry: { ...sync.spec.retry, max_attempts: maxAttempts },
  };
  const project = definePawl({ syncs: [{ ...sync, spec }] });
  return withTestPawl(project, { kind: "syncs" }, options, async (pawl) => {
    const ref = `${sync.name}@${targetKeyOf(target)}`;
    const made = await pawl.during(settledSync(pawl, ref), `The sync ${ref}`);
    return {
      status: made.status,
      syncedTo: made.synced_to,
      error: made.last_error,
      calls: pawl.recorder.fetches,
      logs: pawl.recorder.logs,
    };
  });
}

/** The sync once it is complete, or nothing of it goes on by itself. */
async function settledSync({ client }: TestPawl, ref: string): Promise<AnswerOf<"getSync">> {
  const params = { sync: ref };
  const over = new AbortController();
  try {
    for await (const _ of client.follow({ signal: over.signal })) {
      const sync = await client.call("getSync", { params });
      const { segments_pending, segments_running, segments_failed, segments_quarantined } = sync;
      const isIdle = segments_pending + segments_running + segments_failed === 0;
      if (sync.state === "COMPLETE" || (isIdle && segments_quarantined > 0)) return sync;
    }
  } finally {
    over.abort();
  }
  return client.call("getSync", { params });
}
