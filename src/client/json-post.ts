import { openHttpPost } from "./http-post.ts";
import { documentOf, unreachableServer } from "./server-answer.ts";

/** Where a server listens, and the token it wants. */
export type PostAddress = { url: string; token?: string };

/** Sends JSON to one server over connections that stay open. */
export interface JsonPost {
  /** Posts the body and gives back the answer's body; `PawlError` with the server's code if refused. */
  send(path: string, body: unknown, timeoutMs: number, signal?: AbortSignal): Promise<unknown>;
  close(): void;
}

/** Opens a way to post JSON to a server; `CONFIG_INVALID` when the address is not a URL. */
export function openJsonPost(address: PostAddress): JsonPost {
  const { url } = address;
  const http = openHttpPost(address);
  return {
    async send(path, body, timeoutMs, signal) {
      const options = { timeoutMs, signal, isRepeatable: true };
      const answer = await http
        .post(path, JSON.stringify(body), options)
        .catch((error: unknown) => {
          signal?.throwIfAborted();
          throw unreachableServer(url, error);
        });
      return documentOf(url, answer);
    },
    close: () => http.close(),
  };
}
