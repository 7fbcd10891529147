import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addPartitionKeys } from "../../src/work/definition/partition-keys.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { AssetSpec } from "../../src/work/definition/spec.ts";
import { Engine } from "../../src/engine/engine.ts";
import { machineEnvironment } from "../../src/engine/config.ts";
import { rebuildRows } from "../../src/engine/ledger/refold.ts";
import { verifyLedger, verifyTail } from "../../src/engine/ledger/verify.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import type { Store } from "../../src/store/store.ts";
import { freshDatabaseUrl } from "../postgres.ts";

/** Longer than PostgreSQL lets a transaction rest. */
const LONG_MS = 2_500;

let url: string;
let store: Store;
let engine: Engine;
let requests = 0;

beforeEach(async () => {
  url = await freshDatabaseUrl();
  store = await openPostgresStore({ url });
  const environment = machineEnvironment(() => undefined);
  engine = await Engine.open({ store, tenantId: "t", workspaceId: "w", environment });
  const partitions = { type: "dynamic", name: "keys" };
  const spec = AssetSpec.parse({ kind: "asset", asset_key: "a", partitions });
  await submit(publishDefinitions({ origin: "code", specs: [spec], prune: true }));
  for (let n = 0; n < 20; n++) await addKey();
});

afterEach(async () => {
  await engine.stop();
  await store.close();
});

function submit(decide: Parameters<Engine["submit"]>[0]): Promise<unknown> {
  const actor = { principal: "anna", token_id: null };
  return engine.submit(decide, { actor, correlationId: "c" });
}

function addKey(): Promise<unknown> {
  requests += 1;
  const key = `k${requests}`;
  return submit(addPartitionKeys({ asset_key: "a", request_id: key, keys: [key] }));
}

/** Nothing of this process goes on meanwhile, as while much is folded. */
function standStill(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LONG_MS);
}

describe("verifyLedger on PostgreSQL", () => {
  test("I8: holds no transaction open while it folds, however long that takes", async () => {
    let pages = 0;
    const verified = await verifyLedger(store, engine.workspace, {
      onProgress: () => {
        pages += 1;
        if (pages === 1) standStill();
      },
    });

    expect(verified.events).toBe(21);
    expect(pages).toBeGreaterThan(0);
  });

  test("I8: verifies what is appended to meanwhile", async () => {
    let adding: Promise<unknown> = Promise.resolve();
    const verified = await verifyLedger(store, engine.workspace, {
      onProgress: () => {
        if (requests < 40) adding = addKey();
      },
    });
    await adding;

    expect(verified.events).toBeGreaterThanOrEqual(21);
    expect(await verifyTail(store, engine.workspace)).toBeNull();
  });

  test("I85: a failed check keeps every server of the database from appending", async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("alter table pawl.events disable trigger events_refuse_change");
    await client.query("update pawl.events set data = data || ' ' where pos = 5");
    await client.end();
    const elsewhere = await openPostgresStore({ url });
    const failure: unknown = await verifyLedger(elsewhere, engine.workspace).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(PawlError);
    expect(failure).toMatchObject({ code: "LEDGER_CORRUPT", details: { pos: 5 } });

    await expect(addKey()).rejects.toMatchObject({ code: "LEDGER_CORRUPT" });
    await expect(rebuildRows(store, engine.workspace)).rejects.toMatchObject({
      code: "LEDGER_CORRUPT",
    });
    await verifyLedger(elsewhere, engine.workspace, { accept: true });
    await addKey();
    await elsewhere.close();
  });
});
