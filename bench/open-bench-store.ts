import { openPostgresStore } from "../src/store/postgres/store.ts";
import { openSqliteStore } from "../src/store/sqlite/store.ts";
import type { Store } from "../src/store/store.ts";

/** Where a ledger is kept: a file, or a PostgreSQL database. */
export type StorePlace = { path: string } | { databaseUrl: string };

/** Opens a store as the product does, with a commit on disk before its answer. */
export function openBenchStore(place: StorePlace): Promise<Store> {
  if ("databaseUrl" in place) return openPostgresStore({ url: place.databaseUrl });
  return openSqliteStore({ path: place.path, clock: Date.now });
}
