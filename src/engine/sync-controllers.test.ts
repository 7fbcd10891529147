import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seen, SyncServer, syncSpec } from "../../test/sync-server.ts";
import { pauseSync } from "../work/sync/commands.ts";
import { verifySync } from "../work/sync/repair.ts";
import type { AnyRow } from "../kernel/table.ts";
import { TABLES } from "../work/tables.ts";
import { evaluateRows } from "./commit.ts";
import { unfinishedSyncs, unseenSyncs } from "../work/sync/kind.ts";

const FIXED = { head: false, hash: false, verify: false };
const wallets = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ wallet: `w${String(n).padStart(5, "0")}` }));

let server: SyncServer;

beforeEach(async () => {
  server = await SyncServer.start();
});

afterEach(async () => {
  expect(server.base.warnings).toEqual([]);
  expect(server.engine.status().poisoned).toEqual({});
  await server.base.close();
});

const publish = (given: Record<string, unknown>): Promise<unknown> =>
  server.base.publish(syncSpec(given));

const unfinished = (): Promise<string[]> =>
  server.engine.read(async (reader) => {
    const { keys, questions } = await evaluateRows(reader, (rows) =>
      unfinishedSyncs(rows, {}, 100),
    );
    const ids = [...keys];
    for (const { where } of questions) {
      const find = { table: TABLES.syncs, where, order: [{ cell: "sync_id" }], limit: 100 };
      for (const sync of await reader.find(find)) ids.push(sync.sync_id);
    }
    return [...new Set(ids)];
  });

const states = async (): Promise<string[]> => (await server.syncs()).map(({ state }) => state);

/** Writes a row behind the engine's back, as one that died half-way leaves it. */
async function overwrite(table: (typeof TABLES)["syncs" | "syncSources"], row: AnyRow) {
  const change = { table, inserted: [], updated: [row], deleted: [] };
  await server.base.store.transact(1, (transaction) => transaction.writeRows([change]));
}

describe("syncs as the controllers see them", () => {
  test("are planned about twenty in a commit, and all of them in the end", async () => {
    const plans: number[] = [];
    server.engine.onCommit((events) => {
      plans.push(events.filter(({ type }) => type === "SyncSegmentsPlanned").length);
    });
    const segments = { max: 365, min_size: 1 };
    await publish({ targets: wallets(50), segments, max_parallel: 1 });
    await server.see(await server.head(), seen(100_000));
    expect(Math.max(...plans)).toBeLessThanOrEqual(20);
    expect(plans.reduce((sum, count) => sum + count, 0)).toBe(50);
    for (const sync of await server.syncs()) {
      expect(sync).toMatchObject({ state: "RUNNING", segments_total: 365, segments_queued: 1 });
    }
    expect(await server.segments()).toHaveLength(50 * 365);
  });

  test("stop hundreds of runs at once, by a server that knows none of them", async () => {
    await publish({ to: 599, max_parallel: 600, segments: { max: 600, min_size: 1 }, has: FIXED });
    await server.base.restart();
    const { sync_id } = await server.sync();
    expect((await server.sync()).segments_queued).toBe(600);
    await server.base.submit(pauseSync({ sync: sync_id }));
    expect(await server.sync()).toMatchObject({ state: "PAUSED", segments_queued: 0 });
  });

  test("end hundreds of attempts at once, by a server that knows none of them", async () => {
    const segments = { max: 1_000, min_size: 1 };
    await publish({ to: 999, max_parallel: 1_000, segments, has: FIXED });
    expect(await server.work("s", 1_000, () => server.base.restart())).toBe(1_000);
    expect(await server.sync()).toMatchObject({ state: "COMPLETE", segments_complete: 1_000 });
  });

  test("leave code by hundreds at once, all of which have runs", async () => {
    const segments = { max: 1, min_size: 1 };
    await publish({ to: 9, targets: wallets(400), segments, has: FIXED });
    await server.base.restart();
    await publish({ to: 9, targets: [], segments, has: FIXED });
    for (const sync of await server.syncs()) {
      expect(sync).toMatchObject({ state: "REMOVED", segments_queued: 0 });
    }
  });

  test("may have more than a thousand sources, also when a server starts", async () => {
    const segments = { max: 1, min_size: 1 };
    await publish({ targets: wallets(1_050), source: "{wallet}", segments });
    for (;;) {
      const heads = await server.heads();
      if (heads.length === 0) break;
      const results = heads.map((head) => {
        const { probe_id, attempt, sync, source } = head;
        return { probe_id, attempt, sync, source, outcome: seen(9) };
      });
      await server.engine.reportHeads({ worker_id: "w", results });
    }
    expect(new Set(await states())).toEqual(new Set(["RUNNING"]));
    await server.base.restart();
    const { sync_id } = await server.sync();
    await server.base.submit(pauseSync({ sync: sync_id }));
    expect(await server.sync()).toMatchObject({ state: "PAUSED" });
  });

  test("give history to a claim that comes after one that takes none", async () => {
    await publish({ to: 99, has: FIXED });
    const request = {
      worker_id: "w",
      assets: ["sync:s"],
      slots: 1,
      code_version: null,
      wait_ms: 20_000,
    };
    const urgent = server.engine.claim({ ...request, lease_id: "urgent", backfill_slots: 0 });
    await server.base.quiet();
    const { groups } = await server.engine.claim({ ...request, lease_id: "any" });
    expect(groups).toHaveLength(1);
    await server.base.pass(20_000);
    expect((await urgent).groups).toEqual([]);
  });

  test("all follow a head that moves on", async () => {
    await publish({ targets: wallets(5) });
    await server.see(await server.head(), seen(99));
    await server.workAll();
    expect(await states()).toEqual(Array.from({ length: 5 }, () => "FOLLOWING"));
    for (const head of [105, 120]) {
      await server.base.pass(5_000);
      await server.see(await server.head(), seen(head));
      await server.workAll();
      for (const sync of await server.syncs()) {
        expect(sync).toMatchObject({ state: "FOLLOWING", synced_to: head, planned_to: head });
      }
    }
    const { commits } = server.engine.status();
    await server.base.pass(120_000);
    // What follows and has nothing to do takes no lock.
    expect(server.engine.status().commits).toBe(commits);
  });

  test("go on when their definition ends later than it did", async () => {
    await publish({ to: 39, has: FIXED, targets: wallets(3) });
    await server.workAll();
    expect(await states()).toEqual(["COMPLETE", "COMPLETE", "COMPLETE"]);
    await publish({ to: 59, has: FIXED, targets: wallets(3) });
    await server.workAll();
    for (const sync of await server.syncs()) {
      expect(sync).toMatchObject({ state: "COMPLETE", synced_to: 59 });
    }
  });

  test("are removed when code names them no more, however many", async () => {
    await publish({ targets: wallets(1_300) });
    expect(new Set(await states())).toEqual(new Set(["PENDING"]));
    await publish({ targets: wallets(1) });
    const left = (await states()).filter((state) => state !== "REMOVED");
    expect(left).toEqual(["PENDING"]);
  });
});

describe("a sweep", () => {
  beforeEach(async () => {
    await publish({ targets: wallets(2) });
    await server.see(await server.head(), seen(99));
    await server.workAll();
  });

  test("passes over what is whole, and finds what is behind its source", async () => {
    expect(await unfinished()).toEqual([]);
    const sources = { table: TABLES.syncSources, where: [], order: [], limit: 1 };
    const [source] = await server.engine.read((reader) => reader.find(sources));
    await overwrite(TABLES.syncSources, { ...source, head: 150 });
    expect(await unfinished()).toHaveLength(2);
    await overwrite(TABLES.syncSources, { ...source, rewrites: 1 });
    expect(await unfinished()).toHaveLength(2);
    await overwrite(TABLES.syncSources, { ...source, head: 150 });
    await server.base.restart();
    await server.workAll();
    for (const sync of await server.syncs()) expect(sync).toMatchObject({ synced_to: 150 });
    expect(await unfinished()).toEqual([]);
  });

  test("finds what is unfinished behind ten thousand others that are", async () => {
    await publish({ name: "many", targets: wallets(10_000), source: "silent" });
    await publish({ name: "last", source: "known" });
    const found = { table: TABLES.syncSources, where: [], order: [], limit: 1 };
    const [source] = await server.engine.read((reader) => reader.find(found));
    const inserted = [{ ...source, name: "last", source: "known" }];
    const change = { table: TABLES.syncSources, inserted, updated: [], deleted: [] };
    await server.base.store.transact(1, (transaction) => transaction.writeRows([change]));
    await server.base.restart();
    for (let commits = 0; commits < 10; commits++) await server.base.quiet();
    const last = (await server.syncs()).find(({ name }) => name === "last");
    expect(last).toMatchObject({ state: "RUNNING", planned_to: 99 });
  });

  test("finds verifications that nobody runs, and runs of what stands still", async () => {
    const [first, second] = await server.syncs();
    if (first === undefined || second === undefined) throw new Error("There are two.");
    await overwrite(TABLES.syncs, { ...first, verify_waiting: 1 });
    expect(await unfinished()).toEqual([first.sync_id]);
    await overwrite(TABLES.syncs, first);
    await server.base.pass(5_000);
    await server.see(await server.head(), seen(120));
    expect(await unfinished()).toHaveLength(2);
    for (const sync of await server.syncs()) {
      await overwrite(TABLES.syncs, { ...sync, state: "PAUSED", status: "PAUSED" });
    }
    expect(await unfinished()).toEqual([first.sync_id, second.sync_id]);
  });

  test("passes over what was removed before its verifications were run", async () => {
    const has = { head: true, hash: false, verify: true };
    await publish({ targets: wallets(1), has, max_parallel: 1 });
    const [sync] = await server.syncs();
    await server.base.submit(verifySync({ sync: sync?.sync_id ?? "", repair: false }));
    await publish({ targets: [], has });
    expect((await server.sync()).verify_waiting).toBeGreaterThan(0);
    expect(await unfinished()).toEqual([]);
  });

  test("finds once, at the start, what its definition has left behind", async () => {
    const unseen = (): Promise<string[]> =>
      server.engine.read((reader) => evaluateRows(reader, (rows) => unseenSyncs(rows, 100)));
    expect(await unseen()).toEqual([]);
    const [first] = await server.syncs();
    if (first === undefined) throw new Error("There is one.");
    await overwrite(TABLES.syncs, { ...first, row_version: 0 });
    expect(await unseen()).toEqual([first.sync_id]);
    const gone = { table: TABLES.definitions, inserted: [], updated: [], deleted: [["sync", "s"]] };
    await server.base.store.transact(1, (transaction) => transaction.writeRows([gone]));
    expect(await unseen()).toHaveLength(2);
  });
});
