import { QueryClient } from "@tanstack/react-query";
import { Refusal } from "./call.ts";

/** How often an answer that did not come is asked for again before that is said. */
const ATTEMPTS_MAX = 3;

/** What the page knows of the server. */
export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // Whether this machine has a network says nothing about a server on it.
        networkMode: "always",
        // Events of the ledger say when an answer is old; see `live-updates.ts`.
        staleTime: 30_000,
        // What was left is asked for anew, and shown as it was until then.
        refetchOnMount: "always",
        refetchOnWindowFocus: false,
        retry: (failures, error) =>
          error instanceof Refusal &&
          (error.status === 0 || error.status >= 500) &&
          failures < ATTEMPTS_MAX,
        retryDelay: (attempt) => 300 * 2 ** attempt,
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}
