import type { RpcFailure } from "./post-json.ts";
import { rangeTooLarge, sourceLagging, sourceUnavailable, throttled } from "../define/errors.ts";

/** Wordings with the two ends of a range that would do, both included. */
const RANGES: readonly RegExp[] = [
  /(?:range|ranges)[^[]{0,40}\[\s*(0x[\da-f]+|\d+)\s*[,-]\s*(0x[\da-f]+|\d+)\s*\]/i,
  /(?:retry|try)[^\d]{0,40}?(0x[\da-f]+|\d+)\s*(?:-|to|\.\.)\s*(0x[\da-f]+|\d+)/i,
];

/** Wordings with the number of blocks that would do. */
const SIZES: readonly RegExp[] = [
  /up to an? ([\d,.]+k?) block range/i,
  /limited to (?:an? )?(?:0 - )?([\d,.]+k?)(?: blocks?)?(?: range)?/i,
  /at most ([\d,.]+k?) blocks/i,
  /max(?:imum)?\b[^\d\n,]{0,40}?(?:blocks|range|distance|span)(?: is| =|:)? ?([\d,.]+k?)\b/i,
  /max(?:imum)? (?:is )?(?:set to|allowed is|allowed:|is|range:|limit:?) ?([\d,.]+k?)\b/i,
  /maximum \[from, to\] blocks distance: ([\d,.]+)/i,
  /exceeds? (?:the )?limit(?: of)?:? ?([\d,.]+k?)/i,
  /exceeds the range allowed for your plan \(\d+ > ([\d,.]+k?)/i,
  /(?:the )?limit is ([\d,.]+k?)/i,
  /ranges? over ([\d,.]+k?) blocks/i,
  /([\d,.]+k?) blocks? (?:range )?(?:limit|max|maximum)/i,
  /(?:less than|within|no more than|under) ([\d,.]+k?) blocks/i,
];

/** Sizes of answers, not of ranges. */
const OF_RESULTS = /\b(?:results|logs|events|bytes|[kmg]b)\b/i;

/**
 * How many blocks the node says it would answer for, or null if it names no number; it may be the
 * very range that was refused, which the one who asks has to mind.
 */
export function suggestedSize({ message, facts }: RpcFailure): number | null {
  const data = facts.data as { from?: unknown; to?: unknown } | null | undefined;
  const inData = sizeBetween(data?.from, data?.to);
  if (inData !== null) return inData;
  for (const wording of RANGES) {
    const match = wording.exec(message);
    const size = match === null ? null : sizeBetween(match[1], match[2]);
    if (size !== null) return size;
  }
  for (const wording of SIZES) {
    const match = wording.exec(message);
    const size = match === null ? null : sizeOf(match[1]);
    if (match === null || size === null) continue;
    if (!isOfResults(message, match)) return size;
  }
  return null;
}

/** Whether the number counts what is found, by the words next to it or the sentence's subject. */
function isOfResults(message: string, match: RegExpExecArray): boolean {
  const end = match.index + match[0].length;
  if (OF_RESULTS.test(match[0]) || OF_RESULTS.test(message.slice(end, end + 10))) return true;
  const clause = message.slice(match.index, end + 10);
  return OF_RESULTS.test(message.slice(0, match.index)) && !/\b(?:block|range)/i.test(clause);
}

function sizeBetween(from: unknown, to: unknown): number | null {
  if (typeof from !== "string" || typeof to !== "string") return null;
  const size = Number(to) - Number(from) + 1;
  return Number.isSafeInteger(size) && size >= 1 ? size : null;
}

function sizeOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const isThousands = /k$/i.test(text);
  const number = Number(text.replaceAll(/[,k]|\.$/gi, ""));
  const size = isThousands ? number * 1_000 : number;
  return Number.isSafeInteger(size) && size >= 1 ? size : null;
}

/** A node has not got that far. Asked before sizes, as these too speak of block ranges. */
const LAGGING: readonly RegExp[] = [
  /(?:beyond|ahead of|greater than|higher than) (?:the )?(?:current|latest|last|chain) \S+/,
  /(?:greater than|higher than|beyond) (?:the )?(?:latest|head)\b/,
  /exceeds? (?:the )?(?:current )?head/,
  /(?:header|block) (?:with \S+ )?(?:\S+ )?(?:is )?not (?:yet )?(?:found|available|known|indexed)/,
  /blocks? [^.]{0,80}(?:cannot|could not) be found|in the future|unfinalized/,
  // Ranges are never asked for the wrong way round, so one that seems so was cut off at the head.
  /invalid block range|end \(\d+\) < begin/,
  /could not find (?:the )?(?:block|header)/,
  /(?:unknown|missing|no such) (?:block|header)|block (?:is )?(?:missing|unknown)/,
  /blockoutofrange|block (?:number )?(?:is )?out of range|after last accepted block/,
  /(?:still|currently|is) syncing|not (?:fully )?synced/,
  /block height is \d+ but requested was/,
];

/** The request is asked for too often; the same request is fine later. */
const THROTTLED: readonly RegExp[] = [
  /rate.?limit|limit[^.]{0,80}(?:per|\/) ?(?:second|sec\b|minute|day|month)/,
  /too many requests|request (?:count|rate|quota)[^.]{0,80}(?:exceeded|limited|reached)/,
  /compute units|capacity (?:exceeded|limit)|throttl|slow down|back ?off/,
  /(?:daily|monthly|request|usage|credit)s? (?:quota|limit|credits?)/,
  /quota (?:exceeded|reached|exhausted)|exceeded (?:the |your )?quota/,
  /(?:max|maximum|exceeded)[^.]{0,80}concurren|\brps\b|insufficient credits|out of credits/,
];

/** The request asks for too many blocks or would have too many logs. */
const TOO_LARGE: readonly RegExp[] = [
  /(?:block|blocks|log|logs|query|height|getlogs)\S* (?:range|span|distance|interval)/,
  /range (?:is |was )?(?:too|exceeds|larger|limit|over|allowed|greater|must|should)|ranges? over/,
  /range of (?:blocks|[\d,]+)|range [\d,]+ exceeds|limited to (?:a |an )?[\d,.k]+ (?:block|range)/,
  /(?:max(?:imum)?|allowed)[^.]{0,40}(?:\brange|distance|\bspan|blocks)/,
  /blocks? (?:distance|span|range|count)|too (?:wide|many) (?:blocks?|results|logs|events)/,
  /too many (?:blocks|results|logs|events|matches)/,
  /exceeds? (?:the )?max(?:imum)? (?:block|results|logs)/,
  /(?:more than|over|exceeds?|exceeded|limit(?:ed)?)[^.]{0,40}(?:results|logs|blocks|events)\b/,
  /(?:results?|logs?|logs matched by query) (?:set )?(?:exceeds?|exceeded|limit|too)/,
  /(?:response|result|payload|body|entity|content|answer)\b[^.]{0,30}too (?:large|big)/,
  /(?:response|result|payload|body|content|answer)\b[^.]{0,30}(?:exceed|over|limit|greater)/,
  /requested blocks[^.]{0,20} exceed/,
  /(?:too (?:large|big)) (?:response|result)|entity too large/,
  /(?:reduc|narrow|smaller|limit|decreas)[^.]{0,40}(?:range|blocks|query|results)/,
  /exceeds (?:the )?(?:range|defined limit)|request exceeds/,
];

/** Something on the node's side that another time may not be there. */
const TRANSIENT: readonly RegExp[] = [
  /time[ds]?.?out|deadline exceeded|context cancel|execution aborted|request was aborted/,
  /internal (?:server )?error|server error|unexpected error|temporar|try again|retry/,
  /\bclosed\b|no response/,
  /bad gateway|unavailable|gateway|overload|busy|maintenance|shutting down|not ready/,
  /no (?:healthy |available )?(?:backend|upstream|node|peer|provider|server)|upstream|not healthy/,
  /connection|socket|econn|network|reset by peer|\beof\b|broken pipe/,
  /unauthori[sz]ed|authenticat|forbidden|api key|not allowed|denied|whitelist|token/,
  /missing trie node|pruned|history (?:is |has been )?(?:not available|unavailable|pruned)|archive/,
  /method (?:\S+ )?(?:is )?(?:not|does not)|unsupported method|not supported/,
];

/** Codes that say all by themselves; others are used for anything by one node or another. */
const CODES: Readonly<Record<number, "throttled" | "tooLarge" | "transient">> = {
  429: "throttled",
  [-32_029]: "throttled",
  [-32_090]: "throttled",
  [-32_097]: "throttled",
  [-32_601]: "transient",
  [-32_603]: "transient",
  [-32_614]: "tooLarge",
  [-32_062]: "tooLarge",
  [-32_020]: "tooLarge",
};

/**
 * What a failure means for the blocks that were asked for: there are too many of them, or the node
 * is asked too often, has not got that far or cannot be trusted now. A refusal that is none of these
 * comes back as it is, and so counts as a failure of those very blocks.
 */
export function classifyError(failure: RpcFailure, now: number): Error {
  const sentence = `${failure.facts.method}: ${failure.message}`;
  switch (kindOf(failure)) {
    case "tooLarge":
      return rangeTooLarge(sentence, { suggestedSize: suggestedSize(failure), cause: failure });
    case "throttled":
      return throttled(sentence, { retryAfterMs: retryAfterMs(failure, now), cause: failure });
    case "lagging":
      return sourceLagging(sentence, { cause: failure });
    case "transient":
      return sourceUnavailable(sentence, { cause: failure });
    case "unknown":
      return failure;
  }
}

/** Whether the node has no such method, so that another way has to be taken. */
export function isMethodMissing({ facts, message }: RpcFailure): boolean {
  if (facts.code === -32_601) return true;
  if (facts.kind !== "refused") return false;
  if (message.includes(facts.method) && /\bnot (?:available|allowed)/i.test(message)) return true;
  if (/method\b.{0,80}\b(?:not|disabled|unsupported)\b|unsupported method/i.test(message))
    return true;
  return /not (?:supported|enabled)/i.test(message);
}

type Kind = "tooLarge" | "throttled" | "lagging" | "transient" | "unknown";

function kindOf(failure: RpcFailure): Kind {
  const { kind, status = 200, code } = failure.facts;
  if (kind === "oversized") return "tooLarge";
  if (kind === "unreachable" || kind === "timeout") return "transient";
  // A range that is too large is refused with any status, 429 among them, so words go first.
  const said = kindOfWords(failure.message);
  if (status === 429) return said === "tooLarge" ? said : "throttled";
  const byCode = code === undefined ? undefined : CODES[code];
  if (byCode === "throttled" || byCode === "tooLarge") return byCode;
  if (kind === "refused" && said !== "unknown") return said;
  if (status === 413) return "tooLarge";
  if (byCode !== undefined || status >= 500 || [401, 403, 404, 408].includes(status)) {
    return "transient";
  }
  // Only what a node says about a request can be about its blocks; a broken answer never is.
  return kind === "refused" ? limitExceeded(code) : "transient";
}

function kindOfWords(message: string): Kind {
  const text = message.toLowerCase();
  const says = (wordings: readonly RegExp[]): boolean => wordings.some((word) => word.test(text));
  if (says(LAGGING)) return "lagging";
  if (says(THROTTLED)) return "throttled";
  if (says(TOO_LARGE)) return "tooLarge";
  return says(TRANSIENT) ? "transient" : "unknown";
}

/** The standard's "limit exceeded" without a word about which limit is one of requests. */
function limitExceeded(code: number | undefined): Kind {
  return code === -32_005 ? "throttled" : "unknown";
}

/** `Retry-After` is seconds or a date; some nodes put the wait into the error's data instead. */
function retryAfterMs({ facts, message }: RpcFailure, now: number): number | null {
  const header = facts.retryAfter?.trim() ?? "";
  if (/^\d+(?:\.\d+)?$/.test(header)) return Math.ceil(Number(header) * 1_000);
  const at = header === "" ? Number.NaN : Date.parse(header);
  if (!Number.isNaN(at)) return Math.max(0, at - now);

  const data = facts.data as { rate?: { backoff_seconds?: unknown } } | null | undefined;
  const seconds = data?.rate?.backoff_seconds;
  if (typeof seconds === "number" && seconds >= 0) return Math.ceil(seconds * 1_000);
  const said = /(?:retry|try again) (?:after|in) (\d+(?:\.\d+)?) ?(ms|milli|s|second|m|min)?/i.exec(
    message,
  );
  if (said === null) return null;
  const unit = (said[2] ?? "s").toLowerCase();
  const unitMs = unit === "ms" || unit === "milli" ? 1 : unit.startsWith("m") ? 60_000 : 1_000;
  return Math.ceil(Number(said[1]) * unitMs);
}
