import { openLedger } from "./open-ledger.ts";
import { ACCOUNTS, ENTRIES, TENANTS } from "./places.ts";

/* node prepare.ts: makes two shards with the same tables, and all tenants on the first of them. */

const ledger = openLedger();
try {
  await ledger.prepare();
} finally {
  await ledger.close();
}
const entries = ACCOUNTS * ENTRIES;
console.log(
  `${TENANTS.length} tenants on east, each with ${ACCOUNTS} accounts and ${entries} entries.`,
);
