import type { ApplyRequest, ReadAnswer } from "../shard.ts";
import {
  applyRequestFromText,
  applyRequestToText,
  readAnswerFromText,
  readAnswerToText,
} from "../sqlite/transfer.ts";
import { ADMIN_CALLS, type AdminCall } from "./admin-calls.ts";
import { checkedJson } from "./checked-json.ts";
import { projected } from "./wire-fields.ts";

/*
 * A call goes to its path with its name in the query; the body is the list of what it takes, and
 * the answer's body is what it gives. Only what has rows in it is written by the engine's own code.
 */

/** Where a call goes. */
export function targetOf(call: AdminCall): string {
  return `${ADMIN_CALLS[call].path}?call=${call}`;
}

/** The body of a call. */
export function argsToText(call: AdminCall, args: readonly unknown[]): string {
  if (call === "apply") return applyRequestToText(args[0] as ApplyRequest);
  return JSON.stringify(projected(ADMIN_CALLS[call].args, args));
}

/** What a call takes, from its body. Throws `INPUT_INVALID`. */
export function argsFromText(call: AdminCall, text: string): unknown[] {
  if (call === "apply") return [applyRequestFromText(text)];
  return checkedJson<unknown[]>(ADMIN_CALLS[call].args, text);
}

/** The body of an answer. */
export function answerToText(call: AdminCall, answer: unknown): string {
  return call === "read" ? readAnswerToText(answer as ReadAnswer) : JSON.stringify(answer ?? null);
}

/** What a call gives, from the body of its answer. */
export function answerFromText(call: AdminCall, text: string): unknown {
  return call === "read" ? readAnswerFromText(text) : (JSON.parse(text) as unknown);
}
