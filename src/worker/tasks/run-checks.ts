import type { TaskContext, TaskResult } from "../../define/automation-context.ts";
import type { Check, CheckContext } from "../../define/check.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { intervalsOf } from "../../kernel/intervals.ts";
import {
  CHECK_MESSAGE_MAX,
  CHECK_METADATA_MAX,
  CHECKS_LENGTH_MAX,
  type CheckResult,
  lengthOfCheck,
} from "../../work/asset/checks.ts";
import { keptJson, messageOf, readableText, shortened } from "../plain-values.ts";
import { type TaskAttempt, taskContext } from "./attempt.ts";
import type { PartitionReader } from "./runner.ts";

/** What a check said of one partition. */
type Said = Omit<CheckResult, "partitions">;

/**
 * Has each partition that a task has made judged, one after the other, before the task has ended: what
 * is found is part of its report. The checks of one partition run in the order of their definition.
 */
export async function runChecks(
  attempt: TaskAttempt,
  checks: readonly Check[],
  reader: PartitionReader | null,
  made: TaskResult | void,
): Promise<void> {
  const { task } = attempt;
  const left = new Set(attempt.exceptions.differingFrom("SUCCEEDED").map(({ index }) => index));
  const keys = task.partition_keys.length === 0 ? [""] : task.partition_keys;
  const results = new CheckResults(keys.length);
  for (const [place, key] of keys.entries()) {
    if (left.has(place)) continue;
    const own = key === "" ? [] : [key];
    const context = checkContext(taskContext(attempt, reader, own), made);
    for (const each of checks) {
      attempt.signal.throwIfAborted();
      results.add(place, await judged(each, context));
      attempt.progressed(null);
    }
  }
  attempt.checks = results.all((message) => attempt.log(message, {}));
}

function checkContext(context: TaskContext, made: TaskResult | void): CheckContext {
  const { asset, runId, attempt, partition, config } = context;
  const metadata = typeof made === "object" ? made.metadata : undefined;
  return {
    asset,
    runId,
    attempt,
    partition,
    config,
    log: (message, fields) => context.log(message, fields),
    metadata: typeof metadata === "object" && metadata !== null ? metadata : {},
    get values() {
      return context.values;
    },
    get window() {
      return context.window;
    },
    get signal() {
      return context.signal;
    },
  };
}

/** What a check says of a partition; one that throws, or says nothing that is meant, has not passed. */
async function judged({ spec, judge }: Check, context: CheckContext): Promise<Said> {
  const { name, severity, blocking } = spec;
  const own = { name, severity, ...(blocking === true ? { blocking } : {}) };
  try {
    const answer: unknown = await judge(context);
    if (typeof answer === "boolean") return { ...own, passed: answer };
    if (typeof answer !== "object" || answer === null || !("passed" in answer)) {
      return { ...own, passed: false, error: faultOf(answer) };
    }
    const { passed, message, metadata } = answer as Record<string, unknown>;
    if (typeof passed !== "boolean") return { ...own, passed: false, error: faultOf(answer) };
    return { ...own, passed, ...messageIn(message), ...metadataIn(metadata) };
  } catch (thrown) {
    return { ...own, passed: false, error: { class: "user", message: messageOf(thrown) } };
  }
}

function faultOf(answer: unknown) {
  const message = `A check answers true, false or { passed: true } with more, not ${shortened(answer)}.`;
  return { class: "input", message: readableText(message, CHECK_MESSAGE_MAX) };
}

function messageIn(message: unknown): { message?: string } {
  if (message === undefined || message === null) return {};
  return { message: readableText(message, CHECK_MESSAGE_MAX) };
}

/** Facts that cannot be kept are said to be missing, and do not change the verdict. */
function metadataIn(metadata: unknown): Pick<CheckResult, "metadata"> {
  if (metadata === undefined || metadata === null) return {};
  const kept = keptJson(metadata, CHECK_METADATA_MAX - 100);
  if ("fault" in kept) return { metadata: { not_kept: readableText(kept.fault, 200) } };
  // Escapes make a text longer than what was counted while it was copied.
  const isLong = JSON.stringify(kept.value).length > CHECK_METADATA_MAX;
  return { metadata: isLong ? { not_kept: "there is no room left for it" } : kept.value };
}

/** Gathers what checks said of partitions; what is the same is kept once. */
class CheckResults {
  readonly #count: number;
  readonly #places = new Map<string, { said: Said; places: number[] }>();
  #left = CHECKS_LENGTH_MAX;
  #cut = 0;

  constructor(count: number) {
    this.#count = count;
  }

  add(place: number, said: Said): void {
    const kept = this.#kept(said);
    const text = canonicalJson(kept);
    const known = this.#places.get(text) ?? { said: kept, places: [] };
    this.#places.set(text, known);
    known.places.push(place);
  }

  /** What it says, or only the verdict where there is no room left for more. */
  #kept(said: Said): Said {
    const { name, severity, blocking, passed } = said;
    const verdict = { name, severity, ...(blocking === true ? { blocking } : {}), passed };
    const text = canonicalJson(said);
    if (text === canonicalJson(verdict) || this.#places.has(text)) return said;
    const length = lengthOfCheck(said);
    if (length > this.#left) {
      this.#cut += 1;
      return verdict;
    }
    this.#left -= length;
    return said;
  }

  all(log: (message: string) => void): CheckResult[] {
    if (this.#cut > 0) {
      log(
        `Of ${this.#cut} results of checks only the verdict is kept: those of one task may say ` +
          `${CHECKS_LENGTH_MAX} characters of JSON together.`,
      );
    }
    return [...this.#places.values()].map(({ said, places }) => {
      if (places.length === this.#count) return said;
      const partitions = intervalsOf(places).map(([from, to]): [number, number] => [from, to]);
      return { ...said, partitions };
    });
  }
}
