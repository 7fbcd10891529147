import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import Database from "better-sqlite3";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { machineEnvironment } from "../../src/engine/config.ts";
import { Engine } from "../../src/engine/engine.ts";
import { stateHashes, verifyLedger } from "../../src/engine/ledger/verify.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { schemaSteps } from "../../src/store/schema-steps.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store } from "../../src/store/store.ts";
import { canonicalJson } from "../../src/kernel/canonical.ts";
import { FOLD_VERSION } from "../../src/work/fold.ts";
import { PARTITION_METADATA } from "../../src/work/run/rows.ts";
import { freshDatabaseUrl } from "../postgres.ts";

/** A database as the version before wrote it: its schema had 13 steps, its rows are of fold version 3. */
const OLD = { file: "fold-3.gz", steps: 13, foldVersion: 3, events: 1_931 };

const folder = mkdtempSync(join(tmpdir(), "pawl-upgrade-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function oldDatabase(name: string): string {
  mkdirSync(join(folder, name), { mode: 0o700 });
  const path = join(folder, name, "pawl.db");
  const packed = readFileSync(join(import.meta.dirname, "frozen", OLD.file));
  writeFileSync(path, gunzipSync(packed), { mode: 0o600 });
  return path;
}

const openFile = (path: string): Promise<Store> => openSqliteStore({ path, clock: Date.now });

/** Opens the only workspace, as a server does; answers how far the refold said it had got. */
async function upgrade(store: Store): Promise<number[]> {
  const told: number[] = [];
  const [workspace] = await store.workspaces();
  if (workspace === undefined) throw new Error("The database has no workspace.");
  const engine = await Engine.open({
    store,
    tenantId: workspace.tenant_id,
    workspaceId: workspace.workspace_id,
    environment: machineEnvironment(() => undefined),
    onRefold: (pos) => told.push(pos),
  });
  await engine.stop();
  const head = await store.read(workspace.ws, (reader) => reader.head());
  expect(head).toMatchObject({ pos: OLD.events, fold_version: FOLD_VERSION, damage: null });
  await verifyLedger(store, workspace);
  return told;
}

async function hashesIn(store: Store): Promise<Record<string, string>> {
  const [workspace] = await store.workspaces();
  return store.read(workspace?.ws ?? 0, stateHashes);
}

describe("a database of the version before", () => {
  test("I15: is made anew from its ledger when it is opened, which is told, and only once", async () => {
    const store = await openFile(oldDatabase("whole"));
    const told = await upgrade(store);
    expect(told.length).toBeGreaterThan(1);
    expect(told.at(-1)).toBe(OLD.events);
    expect(await upgrade(store)).toEqual([]);
    await store.close();
  });

  test("I103: has what earlier materializations said once it is made anew", async () => {
    const store = await openFile(oldDatabase("history"));
    await upgrade(store);
    const [workspace] = await store.workspaces();
    const find = { table: PARTITION_METADATA, where: [], order: [], limit: 1_000 };
    const rows = await store.read(workspace?.ws ?? 0, (reader) => reader.find(find));
    const earlier = rows.filter(({ metadata }) => canonicalJson(metadata).length <= 256);
    expect(earlier.length).toBeGreaterThan(0);
    await store.close();
  });

  test("I15: is in order, and not called damaged, before it is made anew", async () => {
    const store = await openFile(oldDatabase("unopened"));
    const [workspace] = await store.workspaces();
    if (workspace === undefined) throw new Error("The database has no workspace.");
    const { state_hash, ...verified } = await verifyLedger(store, workspace);
    expect(verified).toMatchObject({ events: OLD.events, rows_outdated: true });
    await upgrade(store);
    const after = await verifyLedger(store, workspace);
    expect(after).toMatchObject({ state_hash, rows_outdated: false });
    await store.close();
  });

  test("I15: is made anew from the start when that is killed half-way", async () => {
    const path = oldDatabase("killed");
    const killed = spawnSync(process.execPath, [
      join(import.meta.dirname, "killed-upgrade.ts"),
      path,
    ]);
    expect(killed.signal).toBe("SIGKILL");
    const before = new Database(path, { readonly: true });
    expect(before.prepare("select fold_version from heads").pluck().all()).toEqual([3]);
    before.close();
    const store = await openFile(path);
    expect((await upgrade(store)).length).toBeGreaterThan(1);
    const whole = await openFile(oldDatabase("beside"));
    await upgrade(whole);
    expect(await hashesIn(store)).toEqual(await hashesIn(whole));
    await store.close();
    await whole.close();
  });

  test("I10: folds to the same rows on PostgreSQL", async () => {
    const path = oldDatabase("moved");
    const url = await freshDatabaseUrl();
    await copyToPostgres(path, url);
    const store = await openPostgresStore({ url, unsafe: true });
    expect((await upgrade(store)).at(-1)).toBe(OLD.events);
    const file = await openFile(path);
    await upgrade(file);
    expect(await hashesIn(store)).toEqual(await hashesIn(file));
    await store.close();
    await file.close();
  });
});

const LEDGER_TABLES = ["schema_steps", "workspaces", "events", "heads"];
const STEPS_TABLE =
  "create table pawl.schema_steps (step bigint primary key, name text not null, applied_at text not null)";

/** Makes the schema that the version before had, and copies the ledger into it: its rows are left behind. */
async function copyToPostgres(path: string, url: string): Promise<void> {
  const database = new Database(path, { readonly: true });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("create schema pawl");
  for (const { sql } of schemaSteps("postgres").slice(0, OLD.steps)) await client.query(sql);
  await client.query(STEPS_TABLE);
  for (const table of LEDGER_TABLES) {
    for (const row of database.prepare(`select * from ${table}`).all() as object[]) {
      const names = Object.keys(row);
      const list = names.map((each) => `"${each}"`).join(", ");
      const places = names.map((_, at) => `$${at + 1}`).join(", ");
      const text = `insert into pawl.${table} (${list}) overriding system value values (${places})`;
      await client.query(text, Object.values(row));
    }
  }
  await client.end();
  database.close();
}
