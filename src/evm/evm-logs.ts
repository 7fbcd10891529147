import type { AbiEvent, Hex } from "viem";
import { PawlError } from "../kernel/errors.ts";
import { type SyncTarget, targetKeyOf } from "../work/sync/spec.ts";
import { rangeTooLarge } from "../define/errors.ts";
import type {
  SourceContext,
  SyncContext,
  SyncRange,
  VerifyResult,
} from "../define/automation-context.ts";
import {
  assertPlausible,
  checkLogs,
  mergeAnswers,
  type ReceiptCheck,
  verifyLogs,
} from "./check-logs.ts";
import { decodeLogs, type EvmLog } from "./decode-logs.ts";
import {
  type BlockRange,
  type EvmNode,
  type HeadTag,
  openEvmNode,
  type HeaderChain,
  openHeaderChain,
} from "./evm-node.ts";
import { type Asking, openJsonRpc } from "./post-json.ts";
import { type LogFilter, logQueries } from "./log-filter.ts";
import type { NodeLog } from "./node-log.ts";

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
