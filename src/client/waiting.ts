import { PawlError } from "../kernel/errors.ts";
import type { BackfillDocument } from "../work/backfill/documents.ts";
import type { RunDocument } from "../work/run/api.ts";
import type { EventDocument } from "../work/server-api.ts";
import type { Client } from "./client.ts";

/** How long to wait, and what ends the wait early. */
export type WaitOptions = {
  /** After so long the wait rejects with `NOT_YET`, and the work goes on; without end unless told. */
  timeoutMs?: number | undefined;
  /** Ends the wait with the signal's reason; the work goes on. */
  signal?: AbortSignal | undefined;
};

type Asking = Pick<Client, "call" | "follow">;

type Waited<Document extends { state: string }> = {
  /** What is waited for, in a sentence: `Backfill 01J…`. */
  subject: string;
  /** The events that may settle it. */
  types: readonly string[];
  entity?: string;
  look: (signal: AbortSignal) => Promise<Document>;
  isSettled: (document: Document, signal: AbortSignal) => boolean | Promise<boolean>;
  isAbout: (event: EventDocument) => boolean;
};

const ENDED: ReadonlySet<string> = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

/** Longest delay of the platform's timers. */
const TIMEOUT_MS_MAX = 2_147_483_647;

/** Resolves when a run has ended, however it ended. */
export function waitForRun(
  client: Asking,
  runId: string,
  options: WaitOptions = {},
): Promise<RunDocument> {
  const params = { run_id: runId };
  return waitFor(client, options, {
    subject: `Run ${runId}`,
    types: ["RunFinished"],
    entity: runId,
    look: (signal) => client.call("getRun", { params, signal }),
    isSettled: ({ state }) => ENDED.has(state),
    isAbout: () => true,
  });
}

/** Resolves when a backfill has ended, or cannot go on until somebody decides. */
export function waitForBackfill(
  client: Asking,
  backfillId: string,
  options: WaitOptions = {},
): Promise<BackfillDocument> {
  /** Those that it comes after count too: it may never begin. */
  const chain = new Set<string>();
  const look = (backfill_id: string, signal: AbortSignal): Promise<BackfillDocument> => {
    chain.add(backfill_id);
    return client.call("getBackfill", { params: { backfill_id }, signal });
  };
  const isSettled = async (
    { state, display_status, after_backfill_id, continue_on_failure }: BackfillDocument,
    signal: AbortSignal,
  ): Promise<boolean> => {
    if (ENDED.has(state) || display_status === "PAUSED_WITH_FAILURES") return true;
    if (state !== "PENDING" || after_backfill_id === null || continue_on_failure) return false;
    const before = await look(after_backfill_id, signal);
    return before.state !== "SUCCEEDED" && isSettled(before, signal);
  };
  return waitFor(client, options, {
    subject: `Backfill ${backfillId}`,
    types: ["BackfillStateChanged"],
    look: (signal) => look(backfillId, signal),
    isSettled,
    isAbout: ({ data }) => chain.has((data as { backfill_id: string }).backfill_id),
  });
}

/** Looks once, and again whenever an event says that something may have changed. */
async function waitFor<Document extends { state: string }>(
  client: Asking,
  { timeoutMs, signal }: WaitOptions,
  waited: Waited<Document>,
): Promise<Document> {
  refuseTimeout(timeoutMs);
  signal?.throwIfAborted();
  const { types, entity } = waited;
  // Aborted at the end whatever comes: that closes the stream.
  const done = new AbortController();
  const late = timeoutMs === undefined ? null : setTimeout(() => done.abort(), timeoutMs);
  const stop = signal === undefined ? done.signal : AbortSignal.any([signal, done.signal]);
  let seen: Document | null = null;
  try {
    // Before the first look: what happens after it is among the events that follow.
    const { pos: after } = await client.call("listEvents", { query: { limit: 1 }, signal: stop });
    seen = await waited.look(stop);
    if (await waited.isSettled(seen, stop)) return seen;
    for await (const event of client.follow({ after, types, entity, signal: stop })) {
      if (!waited.isAbout(event)) continue;
      seen = await waited.look(stop);
      if (await waited.isSettled(seen, stop)) return seen;
    }
  } catch (error) {
    if (!stop.aborted) throw error;
  } finally {
    if (late !== null) clearTimeout(late);
    done.abort();
  }
  signal?.throwIfAborted();
  const state = seen === null ? "not known yet" : seen.state;
  throw new PawlError(
    "NOT_YET",
    `${waited.subject} is ${state} after ${timeoutMs} ms. It goes on; wait again, or for longer ` +
      "with timeoutMs.",
    { details: { state: seen?.state ?? null, timeout_ms: timeoutMs } },
  );
}

function refuseTimeout(timeoutMs: number | undefined): void {
  if (timeoutMs === undefined) return;
  if (timeoutMs > 0 && timeoutMs <= TIMEOUT_MS_MAX) return;
  throw new PawlError(
    "INPUT_INVALID",
    `timeoutMs: expected milliseconds from 1 to ${TIMEOUT_MS_MAX}, got ${String(timeoutMs)}. ` +
      "Leave it out to wait without end.",
    { details: { timeout_ms: String(timeoutMs) } },
  );
}
