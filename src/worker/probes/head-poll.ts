import type { WorkerConnection } from "../../client/worker-connection.ts";
import type { SourceContext } from "../../define/automation-context.ts";
import type { Project } from "../../define/define-pawl.ts";
import { sourceUnavailable } from "../../define/errors.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Anchor, ClaimedHead, HeadOutcome, HeadResult } from "../../work/head-protocol.ts";
import { logFields, readableText } from "../plain-values.ts";
import type { WorkerLogger } from "../run-worker.ts";
import { type PlainSyncCode, plainSyncCode } from "../segments/source-failure.ts";
import type { SourceGate } from "../segments/source-gate.ts";
import type { SourceGates } from "../segments/source-gates.ts";
import { CLAIM_WAIT_MS, type WorkerPoll } from "./poll-runner.ts";

/** Most heads that are polled at once: they only wait for answers. */
const CONCURRENCY = 32;
/** Longest line that a function logs, and most that its fields may be as JSON. */
const LOG_TEXT_MAX = 10_000;

/** What polls of heads need around them. */
type HeadPollOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  logger: WorkerLogger;
  gates: SourceGates;
};

/** Polls of heads: of the syncs that have a function for it. */
export function headPoll(
  options: HeadPollOptions,
): WorkerPoll<ClaimedHead, HeadOutcome, HeadResult> {
  const { connection, project, workerId: worker_id } = options;
  const syncs = [...project.syncs].filter(([, { head }]) => head !== null).map(([name]) => name);
  return {
    isAny: syncs.length > 0,
    concurrency: CONCURRENCY,
    heldMax: CONCURRENCY,
    gatherMs: 0,
    waitMsMax: 0,
    refusals: new Set(),
    texts: {
      poll: "look at the head",
      waited: "A look at a head waited too long and is given back.",
      dropped: "A look at a head was dropped; it will be made again.",
      isUnknown: "knows no syncs; this worker looks at no heads",
    },
    async claim(slots, signal) {
      const request = { worker_id, syncs, slots, wait_ms: CLAIM_WAIT_MS };
      const { ttl_ms, heads } = await connection.claimHeads(request, signal);
      return { ttl_ms, polls: heads };
    },
    // None waits for another, not even for one of the same head that was lost and has not ended yet.
    seriesOf: ({ probe_id, attempt }) => `${probe_id} ${attempt}`,
    fieldsOf: ({ sync, source }) => ({ sync, source }),
    make: (head, signal) => seenHead(head, options, signal),
    resultOf: ({ probe_id, attempt, sync, source, as_of }, outcome) => {
      const ref = { probe_id, attempt, sync, source };
      return as_of === undefined ? { ...ref, outcome } : { ...ref, as_of, outcome };
    },
    heldLook: (head) => ({ head }),
    report: (results) => connection.reportHeads({ worker_id, results }),
  };
}

async function seenHead(
  head: ClaimedHead,
  { project, gates, logger }: HeadPollOptions,
  signal: AbortSignal,
): Promise<HeadOutcome> {
  const { sync, source, target } = head;
  const code = project.syncs.get(sync);
  if (code === undefined) {
    throw new PawlError("SYNC_NOT_FOUND", `This worker's code has no sync ${sync}.`);
  }
  const specs = project.specs.filter((spec) => spec.kind === "sync");
  const spec = specs.find(({ name }) => name === sync);
  const definition = {
    requestSize: spec?.request_size ?? null,
    requestsPerSecond: spec?.requests_per_second ?? null,
  };
  const gate = await gates.gateOf(source, definition, signal);
  const context: SourceContext = {
    sync,
    source,
    target,
    signal,
    turn: () => gate.turn({ isLive: true, signal, alive: () => undefined }),
    log: (message, fields) => {
      const kept = { sync, source, ...logFields(fields, LOG_TEXT_MAX) };
      logger.info(kept, readableText(message, LOG_TEXT_MAX));
    },
  };
  return pollHead(head, { code: plainSyncCode(code), gate, context, signal });
}

/** What a poll of a head needs of the worker it is made in. */
type HeadHost = {
  code: PlainSyncCode;
  gate: SourceGate;
  context: SourceContext;
  signal: AbortSignal;
};

type Seen = Extract<HeadOutcome, { type: "seen" }>;

/**
 * Asks for the head of a source and whether blocks that are known are still the same. Whatever
 * cannot be answered fails the poll as a whole: it is never taken for a rewrite.
 */
export async function pollHead(claimed: ClaimedHead, host: HeadHost): Promise<Seen> {
  const { code, context } = host;
  const read = code.head;
  if (read === null) {
    throw new PawlError(
      "SYNC_NOT_FOUND",
      `This worker's code has no function head for the sync ${claimed.sync}; deploy the code that does.`,
    );
  }
  const head = await ask(host, () => read(context));
  const { anchors, finality } = claimed;
  // Before the others are compared: when blocks are rewritten meanwhile, this is an old hash, which the
  // next poll finds out. A new one would hide the rewrite for ever.
  const safe = await safeOf(head - finality, host);
  const fork = await forkOf(anchors, head, host);
  if (fork !== null && (await safeOf(head - finality, host))?.hash !== safe?.hash) {
    throw sourceUnavailable(`The source ${claimed.source} rewrote blocks while it was looked at.`);
  }
  return { type: "seen", head, safe, fork };
}

async function safeOf(block: number, host: HeadHost): Promise<Anchor | null> {
  const hash = block < 0 ? null : await hashOf(block, host);
  return hash === null ? null : { block, hash };
}

/** Where the source left what is known; null when it did not. */
async function forkOf(
  anchors: readonly Anchor[],
  head: number,
  host: HeadHost,
): Promise<Seen["fork"]> {
  if (host.code.hash === null) return null;
  // A node that is behind does not know the others, which says nothing about them.
  const known = anchors.filter(({ block }) => block <= head);
  let differs = false;
  for (const anchor of known) {
    if (await holds(anchor, host)) return differs ? { block: anchor.block } : null;
    differs = true;
  }
  return differs ? { block: null } : null;
}

/** Asked twice before it counts: behind one address there may be several nodes. */
async function holds({ block, hash }: Anchor, host: HeadHost): Promise<boolean> {
  if ((await hashOf(block, host)) === hash) return true;
  return (await hashOf(block, host)) === hash;
}

async function hashOf(block: number, host: HeadHost): Promise<string | null> {
  const { hash } = host.code;
  if (hash === null) return null;
  return ask(host, () => hash(block, host.context));
}

function ask<Answer>({ gate, signal }: HeadHost, call: () => Promise<Answer>): Promise<Answer> {
  const request = { isLive: true, size: null, signal, alive: () => undefined };
  return gate.ask(request, async () => {
    const answer = await call();
    signal.throwIfAborted();
    return answer;
  });
}
