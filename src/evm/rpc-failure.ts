/** What is known of a request that a node did not answer with a result. */
export type RpcFailureFacts = {
  method: string;
  /**
   * - `refused`: the node answered with a JSON-RPC error;
   * - `status`: it answered with an HTTP error and no JSON-RPC error in it;
   * - `unreachable`: there was no answer, or it broke off;
   * - `timeout`: the answer took too long;
   * - `oversized`: the answer has more bytes than may be held in memory;
   * - `malformed`: the answer is not what the protocol says.
   */
  kind: "refused" | "status" | "unreachable" | "timeout" | "oversized" | "malformed";
  /** The HTTP status, where there was an answer. */
  status?: number;
  /** The code of the JSON-RPC error. */
  code?: number;
  data?: unknown;
  /** The `Retry-After` header, as it came. */
  retryAfter?: string | null;
};

/** Longest message of a node that is kept: patterns are matched against it, and a node may be hostile. */
export const MESSAGE_LENGTH_MAX = 1_000;

/**
 * A request that a node did not answer with a result, before it is known what that means. Whatever
 * the node says is cut here, before anything is matched against it.
 */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
  readonly facts: Readonly<RpcFailureFacts>;

  constructor(message: string, facts: RpcFailureFacts, cause?: unknown) {
    super(message.slice(0, MESSAGE_LENGTH_MAX), { cause });
    this.facts = facts;
  }
}
