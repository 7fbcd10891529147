import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { requestRun } from "../../src/work/run/request.ts";
import { LOCAL_ACTOR } from "../../src/work/envelope.ts";
import { AssetSpec } from "../../src/work/definition/spec.ts";
import { leaseKeyOf } from "../../src/engine/claim-queue.ts";
import { Engine } from "../../src/engine/engine.ts";
import { machineEnvironment } from "../../src/engine/config.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store } from "../../src/store/store.ts";

const HOUR_MS = 3_600_000;
const LEASE_MS = 15_000;

let folder: string;
let clockMs: number;
let elapsedMs: number;
let store: Store;
let engine: Engine;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-clock-"));
  clockMs = Date.parse("2026-03-01T12:00:00.000Z");
  elapsedMs = 0;
  await open();
});

afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(): Promise<void> {
  store = await openSqliteStore({
    path: join(folder, "pawl.db"),
    clock: () => clockMs,
    elapsedMs: () => elapsedMs,
  });
  const environment = machineEnvironment(() => undefined);
  const workspace = { tenantId: "t", workspaceId: "w" };
  engine = await Engine.open({ store, ...workspace, environment, leaseMs: LEASE_MS });
}

function pass(ms: number): void {
  clockMs += ms;
  elapsedMs += ms;
}

/** A run whose one task a worker has taken. */
async function takeTask(): Promise<void> {
  const options = { actor: { principal: "anna", token_id: null }, correlationId: "c" };
  const partitions = { type: "static", keys: ["x"] };
  const spec = AssetSpec.parse({ kind: "asset", asset_key: "a", partitions });
  await engine.submit(publishDefinitions({ origin: "code", specs: [spec], prune: true }), options);
  await engine.submit(
    requestRun({ request_id: "r", assets: ["a"], partition_keys: ["x"] }),
    options,
  );
  const claim = { worker_id: "w", lease_id: "l", slots: 1, assets: ["a"], code_version: null };
  const { groups } = await engine.claim({ ...claim, wait_ms: 5_000 });
  expect(groups).toHaveLength(1);
}

const events = () =>
  store.read(engine.workspace.ws, (reader) => reader.events({ after: 0, limit: 1_000 }));
const isTakenBack = async () => (await events()).some(({ type }) => type === "TaskLeaseExpired");

describe("a clock that is set back by an hour", () => {
  test.each([
    ["while nothing runs, after an event", 0],
    ["while nothing runs, after a time in which the worker was only heard of", HOUR_MS / 2],
  ])("I42 I18: gives a dead worker's task back in time: %s", async (_when, quietMs) => {
    await takeTask();
    const held = [leaseKeyOf(LOCAL_ACTOR, "l")];
    for (let heard = 0; heard < quietMs; heard += LEASE_MS - 1_000) {
      pass(LEASE_MS - 1_000);
      expect(await store.renewLeases(engine.workspace.ws, held, LEASE_MS)).toEqual(held);
    }
    await engine.tick();
    expect(await isTakenBack()).toBe(false);
    await engine.stop();
    await store.close();

    clockMs -= HOUR_MS;
    elapsedMs = 0;
    await open();
    await engine.tick();
    expect(await isTakenBack()).toBe(false);
    pass(LEASE_MS + 5_000);
    await engine.tick();
    expect(await isTakenBack()).toBe(true);

    const times = (await events()).map(({ occurred_at }) => occurred_at);
    expect(times).toEqual(times.toSorted());
  });

  test("I42 I18: gives a dead worker's task back in time: while the server runs", async () => {
    await takeTask();
    clockMs -= HOUR_MS;
    await engine.tick();
    expect(await isTakenBack()).toBe(false);
    pass(LEASE_MS + 5_000);
    await engine.tick();
    expect(await isTakenBack()).toBe(true);
    const times = (await events()).map(({ occurred_at }) => occurred_at);
    expect(times).toEqual(times.toSorted());
    await engine.stop();
  });
});
