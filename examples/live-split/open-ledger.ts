import type { Ledger } from "./ledger.ts";
import { databaseOf } from "./places.ts";
import { openPostgresLedger } from "./postgres-ledger.ts";
import { openSqliteLedger } from "./sqlite-ledger.ts";

/** Opens the application, wherever its shards are kept. */
export function openLedger(): Ledger {
  const [east, west] = [databaseOf("east"), databaseOf("west")];
  return east === null || west === null ? openSqliteLedger() : openPostgresLedger({ east, west });
}
