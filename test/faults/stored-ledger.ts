import { join } from "node:path";
import type { EventDocument } from "../../src/work/server-api.ts";
import { verifyLedger } from "../../src/engine/ledger/verify.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Lease, Store, Workspace } from "../../src/store/store.ts";
import type { Site } from "./pawl-process.ts";

/** The file of a site's store. */
export function databaseFile({ directory }: Site): string {
  return join(directory, "data", "pawl.db");
}

/** Everything in the ledger of a site whose server does not run, and the leases that are left. */
export function readLedger(site: Site): Promise<{ events: EventDocument[]; leases: Lease[] }> {
  return withStore(site, (store, { ws, tenant_id, workspace_id }) =>
    store.read(ws, async (reader) => {
      const recorded = await reader.events({ after: 0, limit: 1_000_000 });
      const events = recorded.map((event) => ({
        ...event,
        tenant_id,
        workspace_id,
        actor: JSON.parse(event.actor) as EventDocument["actor"],
        data: JSON.parse(event.data) as EventDocument["data"],
      }));
      return { events, leases: await reader.leases(1_000) };
    }),
  );
}

/** Verifies a site's store and answers the hash of all its rows. */
export function verifiedHash(site: Site): Promise<string> {
  return withStore(site, async (store, workspace) => {
    const { state_hash } = await verifyLedger(store, workspace);
    return state_hash;
  });
}

async function withStore<Result>(
  site: Site,
  body: (store: Store, workspace: Workspace) => Promise<Result>,
): Promise<Result> {
  const store = await openSqliteStore({ path: databaseFile(site), clock: Date.now });
  try {
    return await body(store, await store.workspace("default", "default"));
  } finally {
    await store.close();
  }
}
