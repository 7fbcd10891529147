import { matchFoldVersion } from "../../src/engine/ledger/refold.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";

// A process of its own, which is killed when it has begun to make rows anew.
const [path = ""] = process.argv.slice(2);
const store = await openSqliteStore({ path, clock: Date.now });
const [workspace] = await store.workspaces();
if (workspace === undefined) throw new Error("The database has no workspace.");
await matchFoldVersion(store, workspace, () => process.kill(process.pid, "SIGKILL"));
