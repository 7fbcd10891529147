import { PawlError } from "../kernel/errors.ts";
import { CheckSpec } from "../work/asset/checks.ts";
import type { TaskContext } from "./automation-context.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";

/** What the function of a check is told. */
export interface CheckContext
  extends Pick<
    TaskContext,
    "asset" | "runId" | "attempt" | "partition" | "values" | "window" | "config" | "signal" | "log"
  > {
  /** What the function of the asset returned as metadata; empty when it returned none. Of a batch, the whole batch's. */
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** What a check found: whether the partition is good, with the reason and with facts to keep. */
export type CheckAnswer =
  | boolean
  | { passed: boolean; message?: string; metadata?: Readonly<Record<string, unknown>> };

/** The function of a check. One that throws has not passed. */
export type Judge = (context: CheckContext) => Promise<CheckAnswer> | CheckAnswer;

/** Everything that can be said about a check. */
export type CheckOptions = {
  /** `fail`, unless told: what does not pass is not good. `warn`: it only shows. */
  severity?: "warn" | "fail";
  /** Whether what is made from the partition in the same run is held back. */
  blocking?: boolean;
  description?: string;
};

/** A check as defined: its spec and its function. */
export type Check = { readonly spec: CheckSpec; readonly judge: Judge };

const OPTIONS = ["severity", "blocking", "description"];

/** Defines a check: a function that judges each partition of an asset after it was made. */
export function check(name: string, judge: Judge): Check;
export function check(name: string, options: CheckOptions, judge: Judge): Check;
export function check(name: string, first: CheckOptions | Judge, second?: Judge): Check {
  const subject = `The check ${JSON.stringify(name)}`;
  const options = typeof first === "function" ? {} : first;
  const judge = typeof first === "function" ? first : second;
  refuseUnknownOptions(subject, options, OPTIONS);
  if (typeof judge !== "function") {
    throw invalid(`${subject} needs a function, not ${JSON.stringify(judge) ?? "nothing"}.`);
  }
  const { severity = "fail", blocking, description } = options;
  const said = { name, severity, blocking: blocking === false ? undefined : blocking, description };
  const spec = parseDefinition(subject, CheckSpec, withoutUndefined(said));
  if (spec.blocking === true && spec.severity === "warn") {
    throw invalid(
      `${subject} has blocking with the severity warn; only one of severity fail can block.`,
    );
  }
  return Object.freeze({ spec, judge });
}

function invalid(message: string): PawlError {
  return new PawlError("DEFINITION_INVALID", message);
}
