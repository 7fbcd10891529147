import type { AbiEvent, Hex } from "viem";
import type {
  SourceContext,
  SyncContext,
  SyncRange,
  VerifyResult,
} from "../define/automation-context.ts";
import { RangeTooLarge, rangeTooLarge, sourceUnavailable } from "../define/errors.ts";
import { PawlError } from "../kernel/errors.ts";
import { type SyncTarget, targetKeyOf } from "../work/sync/spec.ts";
import {
  type BlockRange,
  type EvmNode,
  type HeaderChain,
  type HeadTag,
  type NodeHeader,
  type NodeLog,
  openEvmNode,
  openHeaderChain,
} from "./evm-node.ts";
import {
  announces,
  decodeLogs,
  type EvmLog,
  explainsBloom,
  type LogFilter,
  type LogQuery,
  logQueries,
  matchesQuery,
} from "./log-filter.ts";
import { type Asking, openJsonRpc } from "./post-json.ts";

/** When the answers of a node are held against the headers of the blocks. */
export type BloomCheck = "always" | "live" | "never";

/** The logs of some blocks, and what to do with them. */
export type LogPage<Event extends AbiEvent = AbiEvent> = {
  readonly from: number;
  readonly to: number;
  /** Blocks whose rows are void: to be deleted in the transaction that stores the logs. */
  readonly undo: SyncRange["undo"];
  readonly isLive: boolean;
  /** The hash of block `to`. */
  readonly toHash: Hex;
  /** Sorted by block and log index, each once. */
  readonly logs: readonly EvmLog<Event>[];
};

/** Which logs are kept in step with a chain, and where they are stored. */
export type EvmLogsOptions<Event extends AbiEvent> = {
  /** The address of the node; it can differ by target, and comes from the worker's surroundings. */
  rpc: string | ((target: SyncTarget) => string);
  /** Which logs a target wants; those of several filters are merged, each log once. */
  logs: (target: SyncTarget) => LogFilter<Event> | readonly LogFilter<Event>[];
  /**
   * Stores a page and deletes what is void, in one transaction; also called for pages without logs.
   * Storing a page twice must be storing it once: (block hash, log index) is a log's identity.
   */
  store: (page: LogPage<Event>, context: SyncContext) => Promise<{ rows?: number } | void>;
  /** How many logs of a range are stored, for `verify` to compare. */
  count?: (range: BlockRange, context: SyncContext) => Promise<number>;
  /**
   * Whether to look for logs that the node left out: always (the default), only at the head, or
   * never. It costs a header for each block, shared by the targets of a node in one worker, and the
   * receipts of the blocks whose header announces logs. A node at the head is the likeliest to
   * leave logs out, so "live" is the choice where a long history would cost too much.
   */
  bloomCheck?: BloomCheck;
  /**
   * Which blocks that came with logs are compared with their receipts: all of them ("always"), or
   * all while no more than a quarter of the blocks have any ("sparse", the default). Blocks that
   * should have logs and came without are compared in any case, and so is the last one with logs.
   */
  receiptCheck?: ReceiptCheck;
  /** Which block counts as the newest; `latest` unless told. */
  head?: HeadTag;
  /** Headers for each request, for example an authorization. */
  headers?: Readonly<Record<string, string>>;
  timeoutMs?: number;
  /** An answer with more bytes counts as a range that is too large. */
  answerBytesMax?: number;
  /** How many calls go into one request; 1 for a node that takes no batches. */
  batchSize?: number;
};

/** The functions of a sync of logs, to be handed to `sync()`. */
export type EvmLogs = {
  fetch: (range: SyncRange, context: SyncContext) => Promise<{ rows: number }>;
  head: (context: SourceContext) => Promise<number>;
  hash: (block: number, context: SourceContext) => Promise<string>;
  verify: (range: SyncRange, context: SyncContext) => Promise<VerifyResult>;
  /** Not by itself: it would read again what every page was held against already. */
  verifyEachSegment: false;
};

type Source = { node: EvmNode; chain: HeaderChain };

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_ANSWER_BYTES_MAX = 256 * 1024 * 1024;
const DEFAULT_BATCH_SIZE = 100;

/** Keeps a page with all its headers within a minute or so, so that progress is seen. */
const CHECKED_BLOCKS_MAX = 2_000;
/** How many blocks are counted at once where no headers are read. */
const COUNTED_BLOCKS_MAX = 10_000;

/** Makes the functions of a sync that keeps the logs of contracts in step with an EVM chain. */
export function evmLogs<const Event extends AbiEvent>(options: EvmLogsOptions<Event>): EvmLogs {
  const { bloomCheck = "always", receiptCheck = "sparse" } = options;
  const sourceOf = openSources(options);

  /** The logs of a range, complete as far as the node's own headers can tell. */
  async function read(
    range: BlockRange,
    isChecked: boolean,
    target: SyncTarget,
    asking: Asking,
  ): Promise<{ logs: NodeLog[]; toHash: Hex }> {
    const { from, to } = range;
    if (isChecked && to - from + 1 > CHECKED_BLOCKS_MAX) {
      const suggestedSize = CHECKED_BLOCKS_MAX;
      throw rangeTooLarge(`At most ${suggestedSize} blocks are checked at once.`, {
        suggestedSize,
      });
    }
    const { node, chain } = sourceOf(target);
    const queries = logQueries(options.logs(target));
    const { answers, last } = await node.logs(queries, range, asking);
    const logs = mergeAnswers(answers);
    const headers = isChecked ? await chain.read(range, last, asking) : [last];
    assertPlausible({ queries, logs, headers }, range);
    if (isChecked) {
      await checkLogs({ queries, logs, headers, receiptCheck }, node, asking);
    }
    return { logs, toHash: last.hash };
  }

  return {
    verifyEachSegment: false,

    async fetch(range, context) {
      const isChecked = bloomCheck === "always" || (bloomCheck === "live" && range.isLive);
      const { logs, toHash } = await read(range, isChecked, context.target, askingFor(context));
      const queries = logQueries(options.logs(context.target));
      const { decoded, foreign } = decodeLogs<Event>(logs, queries);
      if (foreign > 0) context.log("Left out logs that only look like the event.", { foreign });
      const { from, to, undo, isLive } = range;
      const page = { from, to, undo, isLive, toHash, logs: decoded };
      context.signal.throwIfAborted();
      const stored = await options.store(page, context);
      return { rows: stored?.rows ?? decoded.length };
    },

    async head(context) {
      return sourceOf(context.target).node.head(options.head ?? "latest", askingFor(context));
    },

    async hash(block, context) {
      const { hash } = await sourceOf(context.target).node.header(block, askingFor(context));
      return hash;
    },

    async verify(range, context) {
      const queries = logQueries(options.logs(context.target));
      const isChecked = bloomCheck !== "never";
      const asking = askingFor(context);
      return verifyLogs(range, {
        isChecked,
        sizeMax: isChecked ? CHECKED_BLOCKS_MAX : COUNTED_BLOCKS_MAX,
        read: async (part) => {
          const { logs } = await read(part, isChecked, context.target, asking);
          return decodeLogs(logs, queries).decoded.length;
        },
        stored: options.count === undefined ? null : (part) => counted(part, context),
        passed: (block) => context.progressTo(block),
      });
    },
  };

  async function counted(range: BlockRange, context: SyncContext): Promise<number> {
    return (await options.count?.(range, context)) ?? 0;
  }
}

/** The turns of one call, the first of which it has had already. */
function askingFor({ signal, turn }: SourceContext): Asking {
  let hadTurn = true;
  return {
    signal,
    async turn() {
      if (!hadTurn) await turn();
      hadTurn = false;
    },
  };
}

/** One way to each node, so that what is learnt about it and its headers serve all targets. */
function openSources<Event extends AbiEvent>(
  options: EvmLogsOptions<Event>,
): (target: SyncTarget) => Source {
  const sources = new Map<string, Source>();
  return (target) => {
    const url = typeof options.rpc === "string" ? options.rpc : options.rpc(target);
    const known = sources.get(url);
    if (known !== undefined) return known;
    if (!/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
      // What was answered may hold a key, so only whom it is for is told.
      throw new PawlError(
        "CONFIG_INVALID",
        `evmLogs has no address that begins with http:// or https:// for ${targetKeyOf(target)}; ` +
          "see what `rpc` answers.",
      );
    }
    const rpc = openJsonRpc({
      url,
      ...(options.headers === undefined ? {} : { headers: options.headers }),
      timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
      answerBytesMax: options.answerBytesMax ?? DEFAULT_ANSWER_BYTES_MAX,
      batchSize: options.batchSize ?? DEFAULT_BATCH_SIZE,
    });
    const node = openEvmNode(rpc);
    const source = { node, chain: openHeaderChain(node) };
    sources.set(url, source);
    return source;
  };
}

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
