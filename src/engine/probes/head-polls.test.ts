import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { seen, SyncServer, syncSpec } from "../../../test/sync-server.ts";
import { addSync, pauseSync, removeSync, resumeSync } from "../../work/sync/commands.ts";
import { excludeSyncSegment } from "../../work/sync/repair.ts";
import { addMs } from "../../kernel/instant.ts";

const FAILED = { type: "failed", error: { class: "user", message: "no network" } } as const;
const THREE = [{ wallet: "a" }, { wallet: "b" }, { wallet: "c" }];

let server: SyncServer;

beforeEach(async () => {
  server = await SyncServer.start();
});

afterEach(async () => {
  expect(server.base.warnings).toEqual([]);
  await server.base.close();
});

const publish = (...specs: object[]): Promise<unknown> => server.base.publish(...specs);
const pos = (): Promise<number> => server.base.pos();

describe("the head of a source", () => {
  test("is due at once, once for all targets, and again after its interval", async () => {
    await publish(syncSpec({ targets: THREE, finality: 3 }));
    const head = await server.head();
    expect(head).toMatchObject({ probe_id: "head:s:node", attempt: 1, sync: "s", source: "node" });
    expect(head).toMatchObject({ target: { wallet: "a" }, finality: 3, anchors: [] });
    expect(await server.heads()).toEqual([]);
    expect(await server.see(head, seen(102))).toBe("recorded");
    expect((await server.syncs()).map(({ planned_to }) => planned_to)).toEqual([99, 99, 99]);
    await server.base.pass(4_999);
    expect(await server.heads()).toEqual([]);
    await server.base.pass(1);
    expect(await server.head()).toMatchObject({ attempt: 2 });
  });

  test("is looked up for each source of each sync by itself", async () => {
    const targets = [{ net: "one" }, { net: "two" }];
    await publish(syncSpec({ targets, source: "{net}" }), syncSpec({ name: "t", source: "one" }));
    const heads = await server.heads(["s", "t"]);
    const named = heads.map(({ probe_id }) => probe_id).toSorted();
    expect(named).toEqual(["head:s:one", "head:s:two", "head:t:one"]);
    expect(heads.find(({ source }) => source === "two")).toMatchObject({ target: { net: "two" } });
  });

  test("is given only to a worker that has the functions", async () => {
    await publish(syncSpec());
    expect(await server.heads(["other"])).toEqual([]);
    expect(await server.heads([])).toEqual([]);
    expect(await server.heads(["other", "s"])).toHaveLength(1);
  });

  test("leaves no event while it stands still or goes back", async () => {
    await publish(syncSpec());
    await server.see(await server.head(), seen(50));
    const before = await pos();
    const { commits } = server.engine.status();
    for (const at of [50, 50, 20]) {
      await server.base.pass(5_000);
      expect(await server.see(await server.head(), seen(at))).toBe("unchanged");
    }
    expect(await pos()).toBe(before);
    expect(server.engine.status().commits).toBe(commits);
    expect(await server.engine.headStatus()).toMatchObject([
      { sync: "s", source: "node", failures: 0, error: null },
    ]);
  });

  test("waits longer the more often it fails, shows why, and recovers", async () => {
    await publish(syncSpec());
    await server.see(await server.head(), seen(50));
    const before = await pos();
    await server.base.pass(5_000);
    expect(await server.see(await server.head(), FAILED)).toBe("unchanged");
    for (const wait of [10_000, 20_000, 40_000, 60_000, 60_000]) {
      await server.base.pass(wait - 1);
      expect(await server.heads()).toEqual([]);
      await server.base.pass(1);
      await server.see(await server.head(), FAILED);
    }
    expect(await pos()).toBe(before);
    expect(await server.engine.headStatus()).toMatchObject([{ failures: 6, error: FAILED.error }]);
    await server.base.pass(60_000);
    expect(await server.see(await server.head(), seen(60))).toBe("recorded");
    expect(await server.engine.headStatus()).toMatchObject([{ failures: 0, error: null }]);
    await server.base.pass(5_000);
    expect(await server.heads()).toHaveLength(1);
  });

  test("is looked up until a fixed range is whole whose last block has another hash", async () => {
    const has = { head: true, hash: true, verify: false };
    await publish(syncSpec({ to: 29, segments: { max: 1, min_size: 1 }, has }));
    await server.see(await server.head(), seen(29, { safe: { block: 29, hash: "old" } }));
    server.hashOf = () => "new";
    expect(await server.work()).toBe(1);
    expect(await server.sync()).toMatchObject({ state: "RUNNING", synced_to: -1 });
    await server.base.pass(5_000);
    const head = await server.head();
    expect(head.anchors).toEqual([{ block: 29, hash: "old" }]);
    const rewritten = { safe: { block: 29, hash: "new" }, fork: { block: null } };
    expect(await server.see(head, seen(29, rewritten))).toBe("recorded");
    await server.workAll();
    expect(await server.sync()).toMatchObject({ state: "COMPLETE", synced_to: 29 });
    await server.base.pass(30_000);
    expect(await server.heads()).toEqual([]);
  });

  test("I48: is looked up until a fixed range is whole, wherever the known hashes are", async () => {
    await publish(syncSpec({ to: 29, has: { head: true, hash: true, verify: false } }));
    await server.see(await server.head(), seen(80, { safe: { block: 80, hash: "old" } }));
    expect(await server.sync()).toMatchObject({ planned_to: 29, synced_to: -1 });
    await server.base.pass(5_000);
    // What was fetched after a rewrite is complete only once the rewrite is known.
    const rewritten = { safe: { block: 81, hash: "new" }, fork: { block: null } };
    expect(await server.see(await server.head(), seen(81, rewritten))).toBe("recorded");
    await server.workAll();
    expect(await server.sync()).toMatchObject({ state: "COMPLETE" });
    await server.base.pass(60_000);
    expect(await server.heads()).toEqual([]);
  });

  test("I37: stays a worker's while that is heard of, and is free as soon as a task would be", async () => {
    await publish(syncSpec());
    const { probe_id, attempt } = await server.head();
    const beat = { worker_id: "w", leases: [], tasks: [], looks: [{ probe_id, attempt }] };
    for (let beats = 0; beats < 6; beats++) {
      await server.base.pass(10_000);
      expect(await server.engine.heartbeat(beat)).toMatchObject({ lost_looks: [] });
      expect(await server.heads()).toEqual([]);
    }
    await server.base.pass(15_000);
    expect(await server.head()).toMatchObject({ attempt: attempt + 1 });
    expect(await server.engine.heartbeat(beat)).toMatchObject({
      lost_looks: [{ probe_id, attempt }],
    });
  });

  test("I65: is free at once when its worker gives it back", async () => {
    await publish(syncSpec());
    const { probe_id, attempt, sync, source } = await server.head();
    const before = await pos();
    const outcome = { type: "released" } as const;
    const results = [{ probe_id, attempt, sync, source, outcome }];
    expect(await server.engine.reportHeads({ worker_id: "w", results })).toEqual({
      results: ["unchanged"],
    });
    expect(await server.head()).toMatchObject({ attempt: attempt + 1 });
    expect(await pos()).toBe(before);
  });

  test("I37: is somebody else's once its lease ran out, and a late report is lost", async () => {
    await publish(syncSpec());
    const head = await server.head();
    await server.base.pass(14_999);
    expect(await server.heads()).toEqual([]);
    await server.base.pass(1);
    const again = await server.head();
    const before = await pos();
    expect(await server.see(head, seen(50))).toBe("lost");
    expect(await pos()).toBe(before);
    expect(await server.see(again, seen(50))).toBe("recorded");
    expect(await server.see(again, seen(60))).toBe("lost");
  });

  test("is free again when the server starts, as whoever looked may have gone with it", async () => {
    await publish(syncSpec());
    const head = await server.head();
    await server.base.restart();
    const again = await server.head();
    expect(again).toMatchObject({ attempt: 2 });
    expect(await server.see(head, seen(40))).toBe("lost");
    expect(await server.see(again, seen(50))).toBe("recorded");
  });

  test("is free again when the worker that has it hangs up", async () => {
    await publish(syncSpec());
    const head = await server.head();
    const gone = new AbortController();
    const next = { worker_id: "w", syncs: ["s"], slots: 1, wait_ms: 30_000 };
    const waiting = server.engine.claimHeads(next, gone.signal);
    await server.base.quiet();
    gone.abort();
    expect((await waiting).heads).toEqual([]);
    const again = await server.head();
    expect(again).toMatchObject({ attempt: 2 });
    expect(await server.see(head, seen(40))).toBe("lost");
    expect(await server.see(again, seen(50))).toBe("recorded");
  });

  test("wakes a claim that waits when it falls due, and when a target is added", async () => {
    const request = { worker_id: "w", syncs: ["s"], slots: 1, wait_ms: 30_000 };
    const first = server.engine.claimHeads(request);
    await publish(syncSpec());
    const [head] = (await first).heads;
    if (head === undefined) throw new Error("There is a head.");
    await server.see(head, seen(50));
    const second = server.engine.claimHeads(request);
    await server.base.pass(5_000);
    expect((await second).heads).toHaveLength(1);
  });

  test("is free again when whoever asked for it has gone, or the wait is over", async () => {
    await publish(syncSpec());
    await server.see(await server.head(), seen(50));
    const request = { worker_id: "w", syncs: ["s"], slots: 1, wait_ms: 3_000 };
    const late = server.engine.claimHeads(request);
    await server.base.pass(3_000);
    expect((await late).heads).toEqual([]);
    const gone = new AbortController();
    const aborted = server.engine.claimHeads(request, gone.signal);
    await server.base.quiet();
    gone.abort();
    expect((await aborted).heads).toEqual([]);
    await server.base.pass(2_000);
    expect(await server.head()).toMatchObject({ attempt: 2 });
  });

  test("is handed the hashes that are known, the newest first", async () => {
    await publish(syncSpec({ has: { head: true, hash: true, verify: false } }));
    for (const block of [10, 20, 30]) {
      const safe = { block, hash: `h${block}` };
      expect(await server.see(await server.head(), seen(block, { safe }))).toBe("recorded");
      await server.base.pass(5_000);
    }
    const head = await server.head();
    expect(head.anchors.map(({ block }) => block)).toEqual([30, 20, 10]);
    const fork = { block: 10 };
    expect(await server.see(head, seen(31, { fork }))).toBe("recorded");
    await server.base.pass(5_000);
    expect((await server.head()).anchors).toEqual([{ block: 10, hash: "h10" }]);
  });

  test("I48: is handed them also when the definition has no hash, as the worker's code may have one", async () => {
    await publish(syncSpec({ has: { head: true, hash: true, verify: false } }));
    const safe = { block: 10, hash: "h10" };
    expect(await server.see(await server.head(), seen(10, { safe }))).toBe("recorded");
    await publish(syncSpec({ has: { head: true, hash: false, verify: false } }));
    await server.base.pass(5_000);
    expect((await server.head()).anchors).toEqual([{ block: 10, hash: "h10" }]);
  });

  test("is handed the ends of complete segments below those hashes, for a rewrite that is deep", async () => {
    server.hashOf = (block) => `h${block}`;
    await publish(syncSpec({ has: { head: true, hash: true, verify: false } }));
    const safe = { block: 39, hash: "h39" };
    await server.see(await server.head(), seen(39, { safe }));
    await server.workAll();
    await server.base.pass(5_000);
    const head = await server.head();
    expect(head.anchors.map(({ block }) => block)).toEqual([39, 29, 19, 9]);
    await server.see(head, seen(39, { fork: { block: 19 } }));
    const open = (await server.segments()).filter(({ status }) => status !== "COMPLETE");
    expect(open.map(({ from_block }) => from_block)).toEqual([20, 30]);
    expect(await server.sync()).toMatchObject({ state: "RUNNING", synced_to: 19 });
  });
});

describe("whether a head is needed", () => {
  const sync = "s@wallet=a";

  test("I50: is not handed the end of a segment that was excluded, which nobody fetched", async () => {
    await publish(
      syncSpec({
        has: { head: true, hash: true, verify: false },
        retry: { max_attempts: 1 },
        max_parallel: 1,
      }),
    );
    await server.see(await server.head(), seen(39, { safe: { block: 39, hash: "h39" } }));
    const request = { worker_id: "w", lease_id: "l", slots: 1, code_version: null, wait_ms: 0 };
    const { groups } = await server.engine.claim({ ...request, assets: ["sync:s"] });
    const results = groups.map(({ run_pos, segment, tasks: [task] }) => ({
      run_pos,
      task_key: task?.task_key ?? 0,
      attempt: task?.attempt ?? 0,
      outcome: "FAILED" as const,
      error: { class: "user", message: "no" },
      segment: {
        last_processed_block: null,
        end_hash: `h${segment?.to_block}`,
        rows: 0,
        blocks: 0,
        work_ms: 1,
        requests: 1,
        quarantined: [],
        verification: null,
      },
    }));
    const report = { worker_id: "w", code_version: null, results, released_leases: ["l"] };
    await server.engine.report(report);
    const { sync_id } = await server.sync();
    const [aside] = (await server.segments()).filter(({ status }) => status === "QUARANTINED");
    expect(aside).toMatchObject({ end_hash: "h9" });
    await server.base.submit(
      excludeSyncSegment({ sync: sync_id, segment_index: 0, reason: "never there" }),
    );
    await server.workAll();
    expect(await server.sync()).toMatchObject({ state: "FOLLOWING" });
    await server.base.pass(5_000);
    expect((await server.head()).anchors).toEqual([{ block: 39, hash: "h39" }]);
  });

  test("ends when the last sync of the source stands still, and begins again with it", async () => {
    await publish(syncSpec({ targets: [] }));
    expect(await server.heads()).toEqual([]);
    await server.base.submit(addSync({ name: "s", target: { wallet: "a" } }));
    await server.see(await server.head(), seen(50));
    await server.base.submit(pauseSync({ sync }));
    await server.base.pass(5_000);
    expect(await server.heads()).toEqual([]);
    expect(await server.engine.headStatus()).toEqual([]);
    await server.base.submit(resumeSync({ sync }));
    expect(await server.head()).toMatchObject({ attempt: 1 });
    await server.base.submit(removeSync({ sync }));
    await server.base.pass(60_000);
    expect(await server.heads()).toEqual([]);
    expect(await server.engine.headStatus()).toEqual([]);
  });

  test("is not the case for a range without a head, or one that is planned to its end", async () => {
    await publish(
      syncSpec({ name: "fixed", to: 99, has: { head: false, hash: false, verify: false } }),
      syncSpec({ to: 99 }),
    );
    expect(await server.heads(["fixed"])).toEqual([]);
    await server.see(await server.head(), seen(50));
    await server.base.pass(5_000);
    await server.see(await server.head(), seen(200));
    await server.base.pass(5_000);
    expect(await server.heads()).toEqual([]);
    await server.workAll();
    await server.workAll("fixed");
    expect((await server.syncs()).map(({ state }) => state)).toEqual(["COMPLETE", "COMPLETE"]);
    await server.base.pass(120_000);
    expect(await server.engine.headStatus()).toEqual([]);
  });

  test("is looked up for a range that was planned before it had a head", async () => {
    await publish(syncSpec({ to: 99, has: { head: false, hash: false, verify: false } }));
    expect(await server.heads()).toEqual([]);
    await publish(syncSpec({ to: 99 }));
    await server.see(await server.head(), seen(200));
    await server.workAll();
    expect((await server.syncs()).map(({ state }) => state)).toEqual(["COMPLETE"]);
  });

  test("is seen again from the rows when all probes are lost", async () => {
    await publish(syncSpec({ targets: THREE }));
    await server.see(await server.head(), seen(50));
    await server.base.store.removeProbes(1, ["head"], "s");
    await server.base.pass(29_999);
    expect(await server.heads()).toEqual([]);
    await server.base.pass(1_000);
    expect(await server.heads()).toHaveLength(1);
    await server.base.store.removeProbes(1, ["head"], "s");
    await server.base.restart();
    expect(await server.heads()).toHaveLength(1);
  });

  test("is looked at soon although the clock was set back by a day", async () => {
    await publish(syncSpec());
    await server.see(await server.head(), seen(50));
    const [head] = await server.engine.headStatus();
    const due_at = addMs(head?.due_at ?? "", 86_400_000);
    await server.base.store.rescheduleProbes(1, [{ probe_id: "head:s:node", due_at }]);
    await server.base.pass(30_000);
    expect(await server.head()).toMatchObject({ attempt: 2 });
    await server.base.pass(14_999);
    expect(await server.heads()).toEqual([]);
  });

  test("is looked at without waiting for the interval once a definition was published", async () => {
    await publish(syncSpec({ head_every_ms: 600_000 }));
    await server.see(await server.head(), seen(50));
    await publish(syncSpec({ head_every_ms: 1_000 }));
    await server.see(await server.head(), seen(50));
    await server.base.pass(1_000);
    expect(await server.heads()).toHaveLength(1);
  });
});

describe("without a daemon", () => {
  test("a tick makes heads due, plans what they showed, and adds nothing the second time", async () => {
    const idle = await SyncServer.start({ isIdle: true });
    await idle.base.publish(syncSpec());
    expect(await idle.heads()).toEqual([]);
    expect((await idle.engine.tick()).events).toBe(0);
    expect(await idle.see(await idle.head(), seen(39))).toBe("recorded");
    await idle.engine.tick();
    await idle.workAll();
    expect(await idle.sync()).toMatchObject({ state: "FOLLOWING", synced_to: 39 });
    expect((await idle.engine.tick()).events).toBe(0);
    expect(idle.base.warnings).toEqual([]);
    await idle.base.close();
  });
});
