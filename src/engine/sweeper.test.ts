import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SensorServer } from "../../test/sensor-server.ts";
import { SqliteReader } from "../store/sqlite/reader.ts";
import { requestRun } from "../work/run/request.ts";
import { askingAs } from "./asking.ts";
import { LEASE_MS } from "./config.ts";

let server: SensorServer;

beforeEach(async () => {
  server = await SensorServer.start();
  await server.publish({ asset_key: "a" });
});

afterEach(async () => {
  vi.restoreAllMocks();
  expect(server.warnings).toEqual([]);
  await server.close();
});

async function types(): Promise<string[]> {
  const events = await server.store.read(server.engine.workspace.ws, (reader) =>
    reader.events({ after: 0, limit: 100 }),
  );
  return events.map(({ type }) => type);
}

test("looks only at where the ledger ends while that stands still and nothing is due", async () => {
  await server.pass(40_000);
  const find = vi.spyOn(SqliteReader.prototype, "find");
  const head = vi.spyOn(SqliteReader.prototype, "head");

  await server.pass(9_000);

  expect(head.mock.calls.length).toBeGreaterThanOrEqual(9);
  expect(find.mock.calls.length).toBe(0);
});

test("finds a lease that ran out after it was renewed, although nothing was recorded since", async () => {
  await server.submit(requestRun({ request_id: "r", assets: ["a"] }));
  const claim = { worker_id: "w", lease_id: "l", slots: 1, assets: ["a"], code_version: null };
  const claiming = server.engine.claim({ ...claim, wait_ms: 0 });
  await server.pass(0);
  expect((await claiming).groups).toHaveLength(1);

  await server.pass(LEASE_MS - 2_000);
  await server.engine.heartbeat({ worker_id: "w", leases: ["l"], tasks: [] });
  await server.pass(LEASE_MS - 2_000);
  expect(await types()).not.toContain("TaskLeaseExpired");

  await server.pass(4_000);
  expect(await types()).toContain("TaskLeaseExpired");
});

test("I109: what somebody sets going reads in nobody's name", async () => {
  const read = vi.spyOn(server.store, "read");
  await askingAs("ann", async () => {
    await server.publish({ asset_key: "b" });
    await server.submit(requestRun({ request_id: "r", assets: ["b"] }));
  });
  await server.pass(31_000);
  expect(read.mock.calls.length).toBeGreaterThan(0);
  expect(read.mock.calls.filter(([, , asker]) => typeof asker === "string")).toEqual([]);
});
