import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { openSqliteStore } from "../src/store/sqlite/store.ts";
import { decideEverything } from "../test/ledger/decide-everything.ts";

// Writes the ledger of a fixed list of decisions as this version records it. Run once per release,
// with the version's name; a written history is never changed.
const [version] = process.argv.slice(2);
if (version === undefined) throw new Error("Give the version, for example 0.1.0.");
const folder = join(import.meta.dirname, "../test/ledger/golden");
mkdirSync(folder, { recursive: true });
// The decisions wait on signals that do not keep a process alive.
const alive = setInterval(() => undefined, 1_000);
const store = await openSqliteStore({ path: ":memory:", clock: Date.now });
const decided = await decideEverything(store, 2026);
await store.close();
clearInterval(alive);
writeFileSync(
  join(folder, `${version.replaceAll(".", "-")}.gz`),
  gzipSync(JSON.stringify(decided)),
);
console.log(`${decided.events.length} events`);
