import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { openSqliteStore } from "../src/store/sqlite/store.ts";
import { decideEverything } from "../test/ledger/decide-everything.ts";
import { type Golden, hashesOf } from "../test/ledger/golden-hashes.ts";

// Writes the ledger of a fixed list of decisions as this version records it. Run once per release,
// with the version's name; the events of a written history are never changed. After a step of the fold
// `--refold` writes the hashes of the rows anew that the fold makes of them, and says which changed.
const [version] = process.argv.slice(2);
if (version === undefined) throw new Error("Give the version, for example 0.1.0, or --refold.");
const folder = join(import.meta.dirname, "../test/ledger/golden");
mkdirSync(folder, { recursive: true });
if (version === "--refold") await refold();
else await write(version);

async function write(name: string): Promise<void> {
  // The decisions wait on signals that do not keep a process alive.
  const alive = setInterval(() => undefined, 1_000);
  const store = await openSqliteStore({ path: ":memory:", clock: Date.now });
  const decided = await decideEverything(store, 2026);
  await store.close();
  clearInterval(alive);
  const file = join(folder, `${name.replaceAll(".", "-")}.gz`);
  writeFileSync(file, gzipSync(JSON.stringify(decided)));
  console.log(`${decided.events.length} events`);
}

async function refold(): Promise<void> {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name);
    const golden = JSON.parse(gunzipSync(readFileSync(file)).toString("utf8")) as Golden;
    const hashes = await hashesOf(golden.events);
    const changed = Object.keys(hashes).filter((table) => hashes[table] !== golden.hashes[table]);
    if (changed.length > 0) writeFileSync(file, gzipSync(JSON.stringify({ ...golden, hashes })));
    console.log(`${name}: ${changed.join(", ") || "nothing"} changed`);
  }
}
