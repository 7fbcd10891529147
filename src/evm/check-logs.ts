import type { Asking } from "./post-json.ts";
import type { Hex } from "viem";
import { sourceUnavailable, RangeTooLarge } from "../define/errors.ts";
import type { BlockRange, EvmNode } from "./evm-node.ts";
import { type LogQuery, matchesQuery, announces, explainsBloom } from "./log-filter.ts";
import type { NodeHeader, NodeLog } from "./node-log.ts";
import type { VerifyResult } from "../define/automation-context.ts";

/** Which blocks that came with logs are compared with their receipts. */
export type ReceiptCheck = "sparse" | "always";

/** What a node answered for a range, and the headers it is held against. */
export type AnswerToCheck = {
  queries: readonly LogQuery[];
  /** The logs of all queries, each once. */
  logs: readonly NodeLog[];
  /** Of every block of the range that is to be checked, in order. */
  headers: readonly NodeHeader[];
  receiptCheck: ReceiptCheck;
};

/** Receipts of a busy block have half a megabyte, so few are held at a time. */
const BLOCKS_AT_ONCE = 20;

/**
 * Above this share of blocks with logs, asking for the receipts of each of them would fetch most of
 * the chain; then only those are asked for that are suspicious.
 */
const SPARSE_SHARE = 1 / 4;

/**
 * Merges the answers to several queries, each log once, in the order of the chain.
 *
 * A node that counts the logs of each transaction anew gives several the same place. One would take
 * the place of the other here and wherever they are stored, so that is `SourceUnavailable`.
 */
export function mergeAnswers(answers: readonly (readonly NodeLog[])[]): NodeLog[] {
  const byKey = new Map<string, NodeLog>();
  for (const log of answers.flat()) {
    const { blockNumber, logIndex, transactionHash } = log;
    const other = byKey.get(keyOf(log));
    if (other !== undefined && other.transactionHash !== transactionHash) {
      throw sourceUnavailable(
        `The node gave two logs as log ${logIndex} of block ${blockNumber}, of the transactions ` +
          `${other.transactionHash} and ${transactionHash}; use another node.`,
      );
    }
    byKey.set(keyOf(log), log);
  }
  return [...byKey.values()].toSorted(
    (a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex,
  );
}

/** Throws `SourceUnavailable` unless the logs were asked for, are in force and of one chain. */
export function assertPlausible(
  { queries, logs, headers }: Omit<AnswerToCheck, "receiptCheck">,
  { from, to }: BlockRange,
): void {
  const seen = new Map(headers.map(({ number, hash }) => [number, hash]));
  for (const given of logs) {
    const { blockNumber, blockHash, isRemoved, logIndex } = given;
    const log = `log ${logIndex} of block ${blockNumber}`;
    const isWanted = queries.some((query) => matchesQuery(query, given));
    if (!isWanted || blockNumber < from || blockNumber > to) {
      const asked = `${isWanted ? "" : "other logs of "}blocks ${from} to ${to}`;
      throw sourceUnavailable(`The node gave ${log} when asked for ${asked}.`);
    }
    if (isRemoved) throw sourceUnavailable(`The node gave ${log}, which a rewrite removed.`);
    const hash = seen.get(blockNumber) ?? blockHash;
    seen.set(blockNumber, hash);
    if (hash !== blockHash) {
      throw sourceUnavailable(
        `The node gave ${log} with block hash ${blockHash}, but that block has ${hash}: the ` +
          "chain changed while it was read.",
      );
    }
  }
}

/** Throws `SourceUnavailable` when the node's own headers and receipts say that something lacks. */
export async function checkLogs(
  answer: AnswerToCheck,
  node: EvmNode,
  asking: Asking,
): Promise<void> {
  const blocks = blocksToConfirm(answer, answer.headers.map(withBloom));
  const given = Map.groupBy(answer.logs, ({ blockNumber }) => blockNumber);
  for (let start = 0; start < blocks.length; start += BLOCKS_AT_ONCE) {
    const headers = blocks.slice(start, start + BLOCKS_AT_ONCE);
    const found = await node.blockLogs(headers, asking);
    for (const [index, header] of headers.entries()) {
      const { logs, receiptCount } = found[index] ?? { logs: [], receiptCount: null };
      assertWhole(header, logs, receiptCount);
      const wanted = logs.filter((log) => answer.queries.some((query) => matchesQuery(query, log)));
      assertSameLogs(header, wanted, given.get(header.number) ?? []);
    }
  }
}

/**
 * The blocks whose bloom announces logs, as far as they are worth asking for: always where a query
 * found none, and at its last log, behind which an answer may have been cut off.
 */
function blocksToConfirm(
  { queries, logs, receiptCheck }: AnswerToCheck,
  headers: readonly BloomedHeader[],
): BloomedHeader[] {
  const finds = queries.map((query) => {
    const blocks = new Set(
      logs.filter((log) => matchesQuery(query, log)).map(({ blockNumber }) => blockNumber),
    );
    return { isAnnounced: announces(query), blocks, lastBlock: [...blocks].at(-1) };
  });
  const withLogs = new Set(logs.map(({ blockNumber }) => blockNumber)).size;
  const isEach = receiptCheck === "always" || withLogs <= headers.length * SPARSE_SHARE;
  return headers.filter(({ number, logsBloom }) =>
    finds.some(
      ({ isAnnounced, blocks, lastBlock }) =>
        (isEach || !blocks.has(number) || number === lastBlock) && isAnnounced(logsBloom),
    ),
  );
}

type BloomedHeader = NodeHeader & { readonly logsBloom: Hex };

/** A header without a bloom says nothing about logs, which is not the same as that there are none. */
function withBloom(header: NodeHeader): BloomedHeader {
  const { number, logsBloom } = header;
  if (logsBloom !== null) return { ...header, logsBloom };
  throw sourceUnavailable(
    `The node gives no bloom of block ${number}, so nothing tells whether logs are missing. If it ` +
      'never gives any, use another one, or `bloomCheck: "never"`.',
  );
}

/** What is held against the answer must be whole itself: the header says what belongs to it. */
function assertWhole(
  header: BloomedHeader,
  logs: readonly NodeLog[],
  receiptCount: number | null,
): void {
  const ordered = logs.toSorted((a, b) => a.logIndex - b.logIndex);
  const isOfBlock = logs.every(({ blockHash }) => blockHash === header.hash);
  const isGapless = ordered.every(({ logIndex }, index) => logIndex === index);
  const hasAllReceipts = receiptCount === null || receiptCount >= header.transactionCount;
  if (isOfBlock && isGapless && hasAllReceipts && explainsBloom(logs, header.logsBloom)) return;
  throw sourceUnavailable(
    `What the node gives as all logs of block ${header.number} is not what the block's header ` +
      'announces. If this node never gets it right, use another one, or `bloomCheck: "never"`.',
  );
}

function assertSameLogs(
  { number }: NodeHeader,
  wanted: readonly NodeLog[],
  given: readonly NodeLog[],
): void {
  const givenKeys = new Set(given.map(keyOf));
  if (given.length === wanted.length && wanted.every((log) => givenKeys.has(keyOf(log)))) return;
  throw sourceUnavailable(
    `eth_getLogs gave ${given.length} logs of block ${number}, where its receipts have ` +
      `${wanted.length}: the node left some out.`,
  );
}

function keyOf({ blockHash, logIndex }: NodeLog): string {
  return `${blockHash}/${logIndex}`;
}

/** How a range is looked at again. */
export type VerifyLogsOptions = {
  /** Whether what is read is held against the headers of the blocks. */
  isChecked: boolean;
  /** Most blocks to read at once. */
  sizeMax: number;
  /** How many logs the source has in a range; throws when it cannot say for certain. */
  read: (range: BlockRange) => Promise<number>;
  /** How many logs are stored of a range, if that is known. */
  stored: ((range: BlockRange) => Promise<number>) | null;
  /** Told after each part, up to which block all is well. */
  passed: (block: number) => Promise<void>;
};

/** Counts the logs of a range anew, in parts that the source answers, and compares with the store. */
export async function verifyLogs(
  { from, to }: BlockRange,
  { isChecked, sizeMax, read, stored, passed }: VerifyLogsOptions,
): Promise<VerifyResult> {
  if (!isChecked && stored === null) {
    return { ok: true, note: "Nothing was compared: there is neither a check nor a count." };
  }
  let total = 0;
  let size = sizeMax;
  for (let start = from; start <= to; ) {
    const part = { from: start, to: Math.min(to, start + size - 1) };
    const found = await read(part).catch((error: unknown) => {
      size = smallerSize(error, part);
      return null;
    });
    if (found === null) continue;
    const kept = stored === null ? found : await stored(part);
    if (kept !== found) {
      const blocks = `Blocks ${part.from} to ${part.to}`;
      return { ok: false, note: `${blocks} have ${found} logs, but ${kept} are stored.` };
    }
    total += found;
    start = part.to + 1;
    await passed(part.to);
  }
  const checked = stored === null ? "at the source; nothing says how many are stored" : "stored";
  const logs = isChecked ? `${total} logs, as the headers announce,` : `${total} logs`;
  return { ok: true, note: `${logs} are ${checked}.` };
}

/** What to ask for after a refusal: what the source suggests if that is less, else half. */
function smallerSize(error: unknown, { from, to }: BlockRange): number {
  const size = to - from + 1;
  if (!(error instanceof RangeTooLarge) || size === 1) throw error;
  const { suggestedSize } = error;
  return suggestedSize !== null && suggestedSize < size ? suggestedSize : Math.ceil(size / 2);
}
