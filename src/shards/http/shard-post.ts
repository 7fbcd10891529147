import { openHttpPost } from "../../client/http-post.ts";
import { problemError } from "../../work/operation.ts";
import { PawlError } from "../../kernel/errors.ts";
import { hidePassword } from "../../kernel/message-text.ts";

/** Where a shard is served, and the token it wants. */
export type ShardEndpoint = { url: string; token?: string | undefined };

/** How one request is sent. */
export type SendOptions = {
  timeoutMs: number;
  /** Whether sending it twice does what sending it once does. */
  isRepeatable: boolean;
  headers?: Record<string, string>;
};

/** Sends JSON to a shard over connections that stay open. */
export interface ShardPost {
  readonly url: string;
  /**
   * Posts a text and gives that of the answer. Throws what the shard refused it with, and
   * `SHARD_UNREACHABLE` when no answer came; `details.sent` is false when it never got there.
   */
  send(path: string, text: string, options: SendOptions): Promise<string>;
  close(): void;
}

/** Opens a way to post to a shard; `CONFIG_INVALID` when the address is not a URL. */
export function openShardPost(address: ShardEndpoint): ShardPost {
  const url = hidePassword(address.url);
  const http = openHttpPost(address);
  return {
    url,
    async send(path, text, options) {
      const answer = await http.post(path, text, options).catch((error: unknown) => {
        throw unreachable(url, error);
      });
      if (answer.status >= 200 && answer.status < 300) return answer.text;
      throw refusalIn(url, answer);
    },
    close: () => http.close(),
  };
}

/** What a connection says that was never made: nothing was sent over it. */
const NEVER_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);

function unreachable(url: string, cause: unknown): PawlError {
  const code = codeOf(cause);
  const message = cause instanceof Error && cause.message !== "" ? cause.message : code;
  const reason = code === "ECONNREFUSED" ? "nothing listens there (ECONNREFUSED)" : message;
  return new PawlError(
    "SHARD_UNREACHABLE",
    `The shard at ${url} cannot be reached: ${reason}. \`pawl shard serve\` serves it.`,
    { cause, details: { url, sent: !NEVER_SENT.has(code) } },
  );
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "";
}

function refusalIn(url: string, { status, text }: { status: number; text: string }): PawlError {
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // The page of a proxy, or of another program on that port.
  }
  return (
    problemError(body) ??
    new PawlError(
      "SHARD_UNREACHABLE",
      `What answers at ${url} is not a shard of Pawl (status ${status}).`,
      { details: { url, status, sent: true } },
    )
  );
}
