import { AsyncLocalStorage } from "node:async_hooks";
import type { Reader, Store, WorkspaceId } from "../store/store.ts";

const askers = new AsyncLocalStorage<string | null>();

/**
 * Whatever `body` reads through an engine waits its turn under this name, so that no look-up of a
 * request can leave its asker out; null for those who wait for nobody, as workers do.
 */
export function askingAs<Result>(asker: string | null, body: () => Result): Result {
  return askers.run(asker, body);
}

/** The same body, under the name that holds now, whoever calls it later. */
export function asAsked<Result>(body: () => Result): () => Result {
  const asker = askers.getStore() ?? null;
  return () => askers.run(asker, body);
}

/** Reads under the name that holds now. What is read meanwhile has its turn already, and waits for no other. */
export function readInTurn<Result>(
  store: Store,
  ws: WorkspaceId,
  body: (reader: Reader) => Promise<Result>,
): Promise<Result> {
  return store.read(
    ws,
    (reader) => askers.run(null, () => body(reader)),
    askers.getStore() ?? null,
  );
}
