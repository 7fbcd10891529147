import { z } from "zod";
import { type Interval, mergeIntervals } from "../../kernel/intervals.ts";
import { FailureField, IntervalPair, JsonValue } from "../envelope.ts";

/** The name of a check of an asset. */
export const CheckName = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}$/, {
  error: "must be 1 to 100 letters, digits, _ . / - and start with a letter, a digit or _",
});

/** What a check that does not pass means: only a warning, or that what was made is not good. */
export const CheckSeverity = z.enum(["warn", "fail"]);
export type CheckSeverity = z.infer<typeof CheckSeverity>;

const named = {
  name: CheckName,
  severity: CheckSeverity,
  /** Whether what is made from the partition in the same run is held back; only with severity `fail`. */
  blocking: z.literal(true).exactOptional(),
};

/** A check as it is published with its asset: everything about it but its function. */
export const CheckSpec = z.strictObject({
  ...named,
  description: z.string().max(2_000).exactOptional(),
});
export type CheckSpec = z.infer<typeof CheckSpec>;

/** Most checks of one asset. */
export const CHECKS_MAX = 50;
/** Most characters of what a check says in words, and of its metadata as JSON. */
export const CHECK_MESSAGE_MAX = 1_000;
export const CHECK_METADATA_MAX = 2_000;
/** Most characters of what the checks of one task say together; beyond that, verdicts are kept and no more. */
export const CHECKS_LENGTH_MAX = 64_000;
/** Most results of one task: what says something of its own, and the verdicts. */
const CHECK_RESULTS_MAX = 2_000;

/** What one check found in partitions that a task has made, alike in all that it says of them. */
export const CheckResult = z.strictObject({
  ...named,
  passed: z.boolean(),
  /** Their places among the task's partitions; all that were made when absent. */
  partitions: z.array(IntervalPair).min(1).max(10_000).exactOptional(),
  message: z.string().max(CHECK_MESSAGE_MAX).exactOptional(),
  metadata: JsonValue.refine((value) => JSON.stringify(value).length <= CHECK_METADATA_MAX, {
    error: `must not be longer than ${CHECK_METADATA_MAX} characters of JSON`,
  }).optional(),
  /** Why it could not be carried out, which counts as not passed. */
  error: FailureField.exactOptional(),
});
export type CheckResult = z.infer<typeof CheckResult>;

/** How long what a result says is, as JSON. */
export function lengthOfCheck(result: CheckResult): number {
  return JSON.stringify({ ...result, partitions: undefined }).length;
}

const VERDICT_LENGTH_MAX = 200;

/** The results of a task's checks. */
export const CheckResults = z
  .array(CheckResult)
  .min(1)
  .max(CHECK_RESULTS_MAX)
  .refine(
    (results) => {
      const length = results.reduce((sum, result) => sum + lengthOfCheck(result), 0);
      return length <= CHECKS_LENGTH_MAX + 2 * CHECKS_MAX * VERDICT_LENGTH_MAX;
    },
    { error: `must not say more than ${CHECKS_LENGTH_MAX} characters of JSON together` },
  )
  .refine((results) => resultsOfOne(results) <= CHECKS_MAX, {
    error: `must not have more than ${CHECKS_MAX} results about one partition`,
  });

/** How many results are about the one partition that most are about. */
function resultsOfOne(results: readonly CheckResult[]): number {
  const about = results.flatMap(({ partitions }) => partitions ?? [EVERYWHERE]).filter(isForward);
  // As numbers, which are sorted without a function: a report may have very many.
  const starts = Float64Array.from(about, ([from]) => from).toSorted();
  const ends = Float64Array.from(about, ([, to]) => to).toSorted();
  let ended = 0;
  let most = 0;
  for (const [started, from] of starts.entries()) {
    while ((ends[ended] ?? from) < from) ended++;
    most = Math.max(most, started + 1 - ended);
  }
  return most;
}

const EVERYWHERE: Interval = [0, Number.MAX_SAFE_INTEGER];

function isForward([from, to]: Interval): boolean {
  return from <= to;
}

/** What a check found in one partition, as the API shows it. */
export const CheckDocument = z
  .strictObject({
    name: z.string(),
    severity: CheckSeverity,
    /** Whether what is made from the partition in the same run was held back, where it did not pass. */
    blocking: z.boolean(),
    passed: z.boolean(),
    message: z.string().nullable(),
    metadata: JsonValue,
    /** Why it could not be carried out, which counts as not passed. */
    error: FailureField.nullable(),
  })
  .meta({ id: "Check" });
export type CheckDocument = z.infer<typeof CheckDocument>;

/** A result as the API shows it. */
export function checkDocument(result: CheckResult): CheckDocument {
  const { name, severity, blocking, passed, message, metadata, error } = result;
  return {
    name,
    severity,
    blocking: blocking ?? false,
    passed,
    message: message ?? null,
    metadata: metadata ?? null,
    error: error ?? null,
  };
}

/** What the checks of a partition came to: the worst of them. */
export const CheckStatus = z.enum(["PASSED", "WARNED", "FAILED"]);
export type CheckStatus = z.infer<typeof CheckStatus>;

/** What is remembered of a partition: `BLOCKED` is a failure that holds back what is made from it. */
export type CheckVerdict = CheckStatus | "BLOCKED";

/** From the best to the worst. */
const VERDICTS: readonly CheckVerdict[] = [...CheckStatus.options, "BLOCKED"];

/** What a single result comes to. */
export function verdictOf(
  check: Pick<CheckResult, "passed" | "severity" | "blocking">,
): CheckVerdict {
  if (check.passed) return "PASSED";
  if (check.severity === "warn") return "WARNED";
  return check.blocking === true ? "BLOCKED" : "FAILED";
}

/** A verdict as it is shown. */
export function checkStatusOf(verdict: CheckVerdict): CheckStatus {
  return verdict === "BLOCKED" ? "FAILED" : verdict;
}

/** The places that a result is about, among so many partitions of its task, whatever else it names. */
export function placesOf({ partitions }: CheckResult, count: number): Interval[] {
  const about: readonly Interval[] = partitions ?? [EVERYWHERE];
  const there = about.map(([from, to]): Interval => [from, Math.min(to, count - 1)]);
  return mergeIntervals(there.filter(isForward));
}

/** What the checks came to at each of so many places of a task: the worst of them. */
export function checkVerdicts(
  checks: readonly CheckResult[],
  count: number,
): (CheckVerdict | undefined)[] {
  const worst: (CheckVerdict | undefined)[] = Array.from({ length: count }, () => undefined);
  const alike = Map.groupBy(checks, verdictOf);
  for (const verdict of VERDICTS) {
    const places = (alike.get(verdict) ?? []).flatMap((check) => placesOf(check, count));
    for (const [from, to] of mergeIntervals(places)) worst.fill(verdict, from, to + 1);
  }
  return worst;
}

/** What the checks of a task came to, the worst of all. */
export function worstOf(checks: readonly CheckResult[]): CheckStatus | null {
  const [worst] = checks
    .map(verdictOf)
    .toSorted((a, b) => VERDICTS.indexOf(b) - VERDICTS.indexOf(a));
  return worst === undefined ? null : checkStatusOf(worst);
}
