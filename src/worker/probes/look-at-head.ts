import { PawlError } from "../../kernel/errors.ts";
import type { Anchor, ClaimedHead, HeadOutcome } from "../../work/sync/source-protocol.ts";
import { sourceUnavailable } from "../../define/errors.ts";
import type { SourceContext } from "../../define/automation-context.ts";
import type { PlainSyncCode } from "../segments/source-failure.ts";
import type { SourceGate } from "../segments/source-gate.ts";

/** What a look at a head needs of the worker it is made in. */
export type LookHost = {
  code: PlainSyncCode;
  gate: SourceGate;
  context: SourceContext;
  signal: AbortSignal;
};

type Seen = Extract<HeadOutcome, { type: "seen" }>;

/**
 * Asks for the head of a source and whether blocks that are known are still the same. Whatever
 * cannot be answered fails the look as a whole: it is never taken for a rewrite.
 */
export async function lookAtHead(claimed: ClaimedHead, host: LookHost): Promise<Seen> {
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
  // next look finds out. A new one would hide the rewrite for ever.
  const safe = await safeOf(head - finality, host);
  const fork = await forkOf(anchors, head, host);
  if (fork !== null && (await safeOf(head - finality, host))?.hash !== safe?.hash) {
    throw sourceUnavailable(`The source ${claimed.source} rewrote blocks while it was looked at.`);
  }
  return { type: "seen", head, safe, fork };
}

async function safeOf(block: number, host: LookHost): Promise<Anchor | null> {
  const hash = block < 0 ? null : await hashOf(block, host);
  return hash === null ? null : { block, hash };
}

/** Where the source left what is known; null when it did not. */
async function forkOf(
  anchors: readonly Anchor[],
  head: number,
  host: LookHost,
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
async function holds({ block, hash }: Anchor, host: LookHost): Promise<boolean> {
  if ((await hashOf(block, host)) === hash) return true;
  return (await hashOf(block, host)) === hash;
}

async function hashOf(block: number, host: LookHost): Promise<string | null> {
  const { hash } = host.code;
  if (hash === null) return null;
  return ask(host, () => hash(block, host.context));
}

function ask<Answer>({ gate, signal }: LookHost, call: () => Promise<Answer>): Promise<Answer> {
  const request = { isLive: true, size: null, signal, alive: () => undefined };
  return gate.ask(request, async () => {
    const answer = await call();
    signal.throwIfAborted();
    return answer;
  });
}
