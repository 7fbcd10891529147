import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seen, SyncServer, syncSpec } from "../../../test/sync-server.ts";
import type { AnyRow, AnyTable, Key } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";

let server: SyncServer;

beforeEach(async () => {
  server = await SyncServer.start();
  const targets = [{ wallet: "a" }, { wallet: "b" }, { wallet: "c" }];
  await server.base.publish(syncSpec({ targets }));
  await server.see(await server.head(), seen(99));
});

afterEach(() => server.base.close());

/** Writes behind the engine's back what no decision would. */
async function damage(table: AnyTable, given: { updated?: AnyRow[]; deleted?: Key[] }) {
  const change = { table, inserted: [], updated: [], deleted: [], ...given };
  await server.base.store.transact(1, (transaction) => transaction.writeRows([change]));
}

describe("the audit of syncs", () => {
  test("goes through each about once an hour, and only reads", async () => {
    await server.workAll();
    const before = await server.base.pos();
    const { commits } = server.engine.status();
    await server.base.pass(10_000);
    expect(server.engine.syncAudits()).toEqual({ audits: 1, faults: 0 });
    await server.base.pass(60_000);
    expect(server.engine.syncAudits()).toEqual({ audits: 3, faults: 0 });
    await server.base.pass(3_500_000);
    expect(server.engine.syncAudits()).toEqual({ audits: 3, faults: 0 });
    await server.base.pass(100_000);
    expect(server.engine.syncAudits()).toEqual({ audits: 6, faults: 0 });
    expect(await server.base.pos()).toBe(before);
    expect(server.engine.status().commits).toBe(commits);
    expect(server.base.warnings).toEqual([]);
  });

  test("I47: pauses a sync with a gap, says where, and leaves the others alone", async () => {
    await server.workAll();
    const [first] = await server.syncs();
    const [, second] = await server.segments();
    if (first === undefined || second === undefined) throw new Error("There are segments.");
    expect(second.sync_id).toBe(first.sync_id);
    await damage(TABLES.segments, { deleted: [[second.sync_id, second.segment_index]] });
    await server.base.pass(30_000);
    expect(server.engine.syncAudits()).toEqual({ audits: 3, faults: 1 });
    const gap = `${second.from_block} to ${second.to_block} is nobody's`;
    const [damaged, ...others] = await server.syncs();
    expect(damaged).toMatchObject({ state: "PAUSED" });
    expect(damaged?.reason).toContain(gap);
    expect(others.map(({ state }) => state)).toEqual(["FOLLOWING", "FOLLOWING"]);
    expect(server.base.warnings).toEqual([
      expect.stringContaining("a sync has a fault and was paused"),
    ]);
  });

  test("I48: pauses a sync that counts as further than its segments, and stops its runs", async () => {
    const [first] = await server.syncs();
    expect(first).toMatchObject({ state: "RUNNING", segments_queued: 3, synced_to: -1 });
    await damage(TABLES.syncs, { updated: [{ ...first, synced_to: 50 }] });
    await server.base.restart();
    await server.base.pass(10_000);
    const [damaged] = await server.syncs();
    expect(damaged?.state).toBe("PAUSED");
    expect(damaged?.reason).toContain("it counts as synced to 50");
    expect(damaged).toMatchObject({ segments_queued: 0 });
    expect(server.base.warnings).toEqual([
      expect.stringContaining("a sync has a fault and was paused"),
    ]);
  });
});
