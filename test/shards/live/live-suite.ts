import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EventData } from "../../../src/work/events.ts";
import type { KillPoint } from "./kill-points.ts";
import { driveSplit, driveSplits } from "./drive-splits.ts";
import type { LoadOptions, LoadSaid } from "./live-load.ts";
import { isReversible, LiveSite, type RunningLoad } from "./live-site.ts";
import { openOutsider } from "./outsider.ts";

const FENCE_HOLD_MS = 5_000;
const EVENTS_OF_OTHERS = 5_000;

/** Tenants by what happens to them; `plain` and `outsider` stay where they are. */
const TENANTS = {
  whole: ["ash", "birch"],
  back: ["cedar", "elm"],
  pair: ["fir", "oak", "pine"],
  stale: ["rowan"],
  late: ["yew"],
  busy: ["larch"],
  plain: ["willow", "hazel"],
};

/** A tenant that the load leaves alone: what its book has is for a test to say. */
const OUTSIDER = "alder";

/** Where the cutover of this tenant stands still until somebody is in its way. */
const BEFORE_CLOSE: KillPoint = {
  name: "before close",
  step: "cutover",
  call: "east.closeFences",
  when: "before",
  n: 1,
  path: "ahead",
};

/** What all tests of a file share. */
type Stage = {
  site: LiveSite;
  worker: ReturnType<LiveSite["startKillingWorker"]>;
  load: RunningLoad;
  pauses: number[];
};

/** What a writer in REPEATABLE READ has to expect of PostgreSQL, with or without Pawl. */
const SERIALIZATION_FAILURE = "40001";

/**
 * Splits under a load that never stops, with a server, a worker and the load in processes of their
 * own, on shards of any engine.
 */
export function liveSplits(
  name: string,
  open: () => Promise<readonly [string, string] | undefined>,
  load: Partial<LoadOptions>,
): void {
  describe(`splits under load, ${name}`, () => {
    let stage: Stage;
    beforeAll(async () => {
      const databases = await open();
      const tenants = [...Object.values(TENANTS).flat(), OUTSIDER];
      const site = await LiveSite.open({
        tenants,
        accounts: 6,
        entries: 100,
        ...(databases === undefined ? {} : { databases }),
      });
      await site.startServer();
      const points = TENANTS.busy.map((tenant) => ({ tenant, point: BEFORE_CLOSE }));
      const worker = site.startKillingWorker(points);
      await site.client.call("changeRouting", { body: { default_shard: "east" } });
      const running = await site.startLoad({
        tenants: tenants.filter((each) => each !== OUTSIDER),
        ...load,
      });
      stage = { site, worker, load: running, pauses: [] };
    });
    afterAll(() => stage?.site.close());

    wholeWay(() => stage);
    waysBack(() => stage);
    twoAtOnce(() => stage);
    oldRoutes(() => stage);
    eventsOfOthers(() => stage);
    busyFence(() => stage);

    test("I54: every acknowledged write of every tenant is on its owner, once; I58: no read was stale", async () => {
      const { site, pauses } = stage;
      const { said, mismatches } = await site.settle(stage.load, (tenant) => site.ownerOf(tenant));
      console.log(summaryOf(name, said, pauses));
      expect(mismatches).toEqual([]);
      expect(said.staleReads).toEqual([]);
      expect(said.acknowledged).toBeGreaterThan(0);
      expect(said.reads).toBeGreaterThan(0);
      const failed = Object.keys(said.failed).filter((why) => why !== SERIALIZATION_FAILURE);
      expect(failed).toEqual([]);
      expect(site.complaints(), site.output()).toEqual([]);
      const bumps = await site.events("RoutingChanged");
      expect(bumps.map(({ version }) => version)).toEqual(bumps.map((_, at) => at + 1));
    });
  });
}

function wholeWay(stage: () => Stage): void {
  test("I54, I55: a split goes from plan to completed, with a write pause below its bound", async () => {
    const { site, load, pauses } = stage();
    const split = await site.plan(TENANTS.whole, { fence_hold_ms: FENCE_HOLD_MS });
    const over = await driveSplit(site, split, "cut over", isReversible);
    const version = over.routing_version_cutover;
    expect(version).toBe(over.routing_version_at_start + 1);

    // A repeat is the same cutover.
    const again = await site.client.call("cutOverSplit", { params: { split }, body: {} });
    expect(again.routing_version_cutover).toBe(version);
    await furtherWrites(load);
    const done = await driveSplit(site, split, "ahead");
    expect(done.phase).toBe("completed");
    expect(done.routing_version_cutover).toBe(version);
    const pause = (await pauseOf(site, split)) ?? Number.NaN;
    expect(pause).toBeLessThan(FENCE_HOLD_MS);
    pauses.push(pause);
    for (const tenant of TENANTS.whole) {
      expect(await site.ownerOf(tenant)).toBe("west");
      expect(await countRows(site, "east", tenant)).toBe(0);
    }
    expect(await bumpsOf(site, split)).toBe(1);
  });
}

function waysBack(stage: () => Stage): void {
  test("I56: a split is rolled back before and after its cutover, and then succeeds", async () => {
    const { site, load, pauses } = stage();
    const tenants = TENANTS.back;
    const before = await site.plan(tenants);
    const backBefore = await driveSplit(site, before, "back before");
    expect(backBefore.routing_version_cutover).toBeNull();
    expect(await countAll(site, "west", tenants)).toBe(0);
    expect(await bumpsOf(site, before)).toBe(0);

    const after = await site.plan(tenants);
    await driveSplit(site, after, "cut over", isReversible);
    await furtherWrites(load);
    const back = await driveSplit(site, after, "back after");
    expect(back.routing_version_rollback).toBeGreaterThan(back.routing_version_cutover ?? 0);
    expect(await countAll(site, "west", tenants)).toBe(0);
    expect(await bumpsOf(site, after)).toBe(2);
    for (const tenant of tenants) expect(await site.ownerOf(tenant)).toBe("east");

    const last = await site.plan(tenants);
    const done = await driveSplit(site, last, "ahead");
    expect(done.phase).toBe("completed");
    pauses.push((await pauseOf(site, last)) ?? 0, (await pauseOf(site, after)) ?? 0);
    expect(await countAll(site, "east", tenants)).toBe(0);
  });
}

function twoAtOnce(stage: () => Stage): void {
  test("I57: a split of tenants that are under another is refused; I53: two at once do not touch each other", async () => {
    const { site } = stage();
    const [one = "", other = "", third = ""] = TENANTS.pair;
    const first = await site.plan([one]);
    await expect(site.plan([other, one])).rejects.toMatchObject({ code: "SPLIT_OVERLAPS" });
    const second = await site.plan([other, third]);
    const goals = new Map([
      [first, "cut over"],
      [second, "cut over"],
    ] as const);
    await driveSplits(site, goals, (splits) => splits.every(isReversible));
    const epoch = async (tenant: string): Promise<number> =>
      (await site.client.call("getRoute", { query: { tenant } })).epoch;
    const epochBefore = await epoch(other);

    await driveSplit(site, first, "back now");
    expect(await site.ownerOf(one)).toBe("east");
    expect(await site.ownerOf(other)).toBe("west");
    expect(await epoch(other)).toBe(epochBefore);
    expect(await epoch(one)).toBeGreaterThan(epochBefore);
    expect((await driveSplit(site, second, "ahead")).phase).toBe("completed");
  });
}

function oldRoutes(stage: () => Stage): void {
  test("I53, I58: who keeps the old route is refused with the new epoch, and succeeds there", async () => {
    const { site } = stage();
    const [east, west] = [
      await openOutsider(site.shards.east),
      await openOutsider(site.shards.west),
    ];
    try {
      const old = await site.client.call("getRoute", { query: { tenant: OUTSIDER } });
      const split = await site.plan([OUTSIDER]);
      await driveSplit(site, split, "pending", ({ phase }) => phase === "cutover_pending");
      expect(await east.add(OUTSIDER, old.epoch)).toBeNull();
      expect(await west.add(OUTSIDER, old.epoch)).toMatchObject({ code: "EPOCH_STALE" });
      const { routing_version_cutover } = await driveSplit(site, split, "cut over", isReversible);

      const epoch = routing_version_cutover ?? 0;
      const refusal = { code: "EPOCH_STALE", details: { tenant: OUTSIDER, epoch, shard: "west" } };
      expect(await east.add(OUTSIDER, old.epoch)).toMatchObject(refusal);
      expect(await east.look(OUTSIDER, old.epoch)).toMatchObject(refusal);
      expect(await west.add(OUTSIDER, epoch)).toBeNull();
      expect(await west.look(OUTSIDER, epoch)).toBe(2);

      const done = await driveSplit(site, split, "ahead");
      expect(done.phase).toBe("completed");
      expect(await east.add(OUTSIDER, old.epoch)).toMatchObject(refusal);
      expect(await east.look(OUTSIDER, old.epoch)).toMatchObject(refusal);
      expect(await west.look(OUTSIDER, epoch)).toBe(2);
    } finally {
      await Promise.all([east.close(), west.close()]);
    }
  });
}

function eventsOfOthers(stage: () => Stage): void {
  test(`I57: ${EVENTS_OF_OTHERS} changes of other tenants before the tail do not keep it from catching up`, async () => {
    const { site } = stage();
    const split = await site.plan(TENANTS.late);
    await driveSplit(site, split, "ahead", ({ phase, armed }) => phase === "dual_write" && armed);
    const numbers = Array.from({ length: EVENTS_OF_OTHERS }, (_, at) => `('nobody', ${at}, 0)`);
    await site.tables.east.run(`insert into accounts values ${numbers.join(", ")}`);
    const done = await driveSplit(site, split, "ahead");
    expect(done.phase).toBe("completed");
    expect((await site.tables.west.rowsOf("nobody")).accounts).toEqual([]);
  });
}

function busyFence(stage: () => Stage): void {
  test("I55: a fence that cannot be had in time leaves everything as it was, and is had later", async () => {
    const { site, worker } = stage();
    const [tenant = ""] = TENANTS.busy;
    const split = await site.plan(TENANTS.busy, { fence_wait_ms: 200 });
    await driveSplit(site, split, "pending", ({ phase }) => phase === "cutover_pending");
    const { epoch } = await site.client.call("getRoute", { query: { tenant } });
    const outsider = await openOutsider(site.shards.east);
    try {
      await site.client.call("cutOverSplit", { params: { split }, body: {} });
      await worker.heard("reached");
      const commit = await outsider.hold(tenant, epoch);
      worker.tell({ points: [], goOn: true });
      const settled = await untilSettled(site, split);
      await commit();
      expect(settled).toMatchObject({ step: "cutover", outcome: "fell_back" });
      expect(await bumpsOf(site, split)).toBe(0);
    } finally {
      await outsider.close();
    }
    const done = await driveSplit(site, split, "ahead");
    expect(done.phase).toBe("completed");
    expect(await bumpsOf(site, split)).toBe(1);
  });
}

/** Waits for the end of a cutover to be taken note of. */
async function untilSettled(site: LiveSite, split: string): Promise<EventData<"SplitStepSettled">> {
  for await (const { data } of site.client.follow({ types: ["SplitStepSettled"] })) {
    if (data.split_id === split && data.step === "cutover") return data;
  }
  throw new Error("There are no more events.");
}

/** Waits until the load has made more writes. */
async function furtherWrites(load: RunningLoad): Promise<void> {
  const acknowledged = async (): Promise<number> => {
    load.tell({ type: "say" });
    return (await load.heard("said")).said.acknowledged;
  };
  const before = await acknowledged();
  while ((await acknowledged()) < before + 50) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function countRows(site: LiveSite, shard: "east" | "west", tenant: string): Promise<number> {
  const { accounts, entries } = await site.tables[shard].rowsOf(tenant);
  return accounts.length + entries.length;
}

async function countAll(
  site: LiveSite,
  shard: "east" | "west",
  tenants: readonly string[],
): Promise<number> {
  const counts = await Promise.all(tenants.map((tenant) => countRows(site, shard, tenant)));
  return counts.reduce((sum, each) => sum + each, 0);
}

/** How often a split has changed the routing. */
async function bumpsOf(site: LiveSite, split: string): Promise<number> {
  const cutovers = await site.events("SplitCutOver");
  return cutovers.filter(({ split_id }) => split_id === split).length;
}

async function pauseOf(site: LiveSite, split: string): Promise<number | null> {
  return (await site.split(split)).write_pause_ms;
}

/** What is printed of a load, and of how long writes stood still. */
export function summaryOf(name: string, said: LoadSaid, pauses: readonly number[]): string {
  const { median, p99, longest } = said.latency;
  const ms = (value: number): string => `${value.toFixed(1)} ms`;
  return (
    `${name}: ${said.acknowledged} writes and ${said.reads} reads; writes took ${ms(median)} ` +
    `(median), ${ms(p99)} (p99), ${ms(longest)} (longest); pauses ${pauses.map(ms).join(", ")}`
  );
}
