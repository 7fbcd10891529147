import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { AnswerOf, PartInput } from "../../src/work/operations.ts";
import { type Api, startApi } from "./api-server.ts";
import {
  endSegments,
  fetchSegments,
  publishSyncs,
  reach,
  seeHeads,
  takeSegments,
  TRANSFERS,
} from "./sync-hand.ts";

const MAIN = "transfers@network=main,wallet=0xa";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
});

afterEach(() => api.close());

const of = (sync = MAIN) => ({ params: { sync } });
const at = (segment_index: number, sync = MAIN) => ({ params: { sync, segment_index } });
const getSync = (sync = MAIN) => client.call("getSync", of(sync));
const segmentsOf = async (query: { status?: string; from_block?: number; to_block?: number }) =>
  (await client.call("listSegments", { ...of(), query })).items;

/** A plan of ten segments of a hundred blocks. */
async function plan(): Promise<void> {
  await publishSyncs(client, TRANSFERS);
  await seeHeads(client, "transfers", { main: 1_004 });
}

describe("a sync", () => {
  test("is shown before its head is known, with what is known", async () => {
    await publishSyncs(client, TRANSFERS);
    expect(await getSync()).toMatchObject({
      name: "transfers",
      target: { network: "main", wallet: "0xa" },
      target_key: "network=main,wallet=0xa",
      source: "main",
      origin: "code",
      defined: true,
      state: "PENDING",
      status: "PENDING",
      from_block: 0,
      to_block: null,
      to_limit: null,
      synced_to: null,
      head: null,
      safe_block: null,
      lag_blocks: null,
      blocks_total: 0,
      progress_pct: 0,
      max_parallel: 4,
      priority: 0,
      rate_blocks_per_second: null,
      eta_seconds: null,
      next_retry_at: null,
    });
  });

  test("I84: does not believe an impossible head, says why, and has it set right by a person", async () => {
    await plan();
    const impossible = Number.MAX_SAFE_INTEGER - 2;
    await seeHeads(client, "transfers", { main: impossible });
    const { items } = await client.call("listSyncSources");
    expect(items.find(({ source }) => source === "main")).toMatchObject({
      head: 1_004,
      failures: 1,
      error: { message: expect.stringContaining(`says that its head is ${impossible}`) },
    });
    const body = { head: impossible, reason: "it is right" };
    await client.call("setSyncHead", { ...of(), body });
    expect(await getSync()).toMatchObject({ head: impossible });
    await client.call("setSyncHead", { ...of(), body: { head: 1_504 } });
    await expect
      .poll(() => getSync())
      .toMatchObject({ head: 1_504, to_block: 1_499, status: "RUNNING" });
    const open = await segmentsOf({ status: "PENDING" });
    await fetchSegments(client, "transfers", open.length);
    expect(await getSync()).toMatchObject({ status: "FOLLOWING", synced_to: 1_499 });
  });

  test("is planned to what may be synced, and shows how far it is and how long it will take", async () => {
    await plan();
    expect(await getSync()).toMatchObject({
      status: "RUNNING",
      to_block: 999,
      head: 1_004,
      safe_block: 999,
      lag_blocks: 1_000,
      segments_total: 10,
      blocks_total: 1_000,
      rate_blocks_per_second: null,
    });

    const [first, second] = await takeSegments(client, "transfers", 2);
    if (first === undefined || second === undefined) throw new Error("Two were taken.");
    expect([first.segment.segment_index, second.segment.segment_index]).toEqual([0, 1]);
    await endSegments(client, [second]);
    expect(await getSync()).toMatchObject({
      segments_complete: 1,
      progress_pct: 10,
      blocks_complete: 100,
      rows_stored: 100,
      synced_to: null,
      lag_blocks: 1_000,
      // A hundred blocks in a second, and four at once while there are as many.
      rate_blocks_per_second: 400,
      eta_seconds: 3,
    });
    await endSegments(client, [first]);
    expect(await getSync()).toMatchObject({ synced_to: 199, lag_blocks: 800, progress_pct: 20 });
    await fetchSegments(client, "transfers", 8);
    expect(await getSync(first.segment.sync_id)).toMatchObject({
      status: "FOLLOWING",
      progress_pct: 100,
      synced_to: 999,
      lag_blocks: 0,
      rate_blocks_per_second: null,
      eta_seconds: null,
    });
  });

  test("says when it is tried again, of the segment and of the sync", async () => {
    await plan();
    const [first] = await takeSegments(client, "transfers", 1);
    if (first === undefined) throw new Error("One was taken.");
    await reach(client, first, 49);
    expect(await client.call("getSegment", at(0))).toMatchObject({
      segment_id: `${first.segment.sync_id}:0`,
      status: "RUNNING",
      last_processed_block: 49,
      progress_pct: 50,
      rows_stored: 7,
      worker_id: "hand",
      attempt: 1,
      has_run: true,
    });
    const error = { class: "user", message: "No answer." };
    await endSegments(client, [first], { error, report: { last_processed_block: 49 } });
    const sync = await getSync();
    const [failed] = await segmentsOf({ status: "FAILED" });
    expect(failed).toMatchObject({
      segment_index: 0,
      last_processed_block: 49,
      retry_count: 1,
      error_class: "user",
      error_message: "No answer.",
      worker_id: null,
    });
    expect(sync).toMatchObject({ status: "FAILED", state: "RUNNING", retry_count: 1 });
    expect(sync.next_retry_at).toBe(failed?.next_retry_at);
    expect(sync.last_error).toEqual(error);
    const listed = await client.call("listSyncs", { query: { status: "FAILED,PAUSED" } });
    expect(listed.items.map(({ sync_id }) => sync_id)).toEqual([sync.sync_id]);
    expect((await client.call("listSyncs", { query: { status: "RUNNING" } })).items).toEqual([]);
  });

  test("I47: has segments that say when they last changed, and are listed across syncs", async () => {
    const targets = [
      { network: "main", wallet: "0xa" },
      { network: "main", wallet: "0xb" },
      { network: "side", wallet: "0xa" },
    ];
    await publishSyncs(client, { ...TRANSFERS, targets });
    await seeHeads(client, "transfers", { main: 1_004, side: 504 });
    const [before] = await segmentsOf({});
    expect(before?.updated_at).toBe(before?.created_at);
    await fetchSegments(client, "transfers", 6);
    const listed = async (query: PartInput<"listAllSegments", "query">) => {
      const items: AnswerOf<"listAllSegments">["items"] = [];
      for await (const item of client.each("listAllSegments", { query })) items.push(item);
      return items;
    };
    const all = await listed({ limit: 7 });
    const ids = all.map(({ segment_id }) => segment_id);
    expect(new Set(ids).size).toBe(ids.length);
    const { items: syncs } = await client.call("listSyncs", {});
    const total = syncs.reduce((sum, { segments_total }) => sum + segments_total, 0);
    expect(ids).toHaveLength(total);
    const done = await listed({ status: "COMPLETE", limit: 2 });
    expect(done).toHaveLength(6);
    for (const { updated_at, finished_at } of done) expect(updated_at).toBe(finished_at);
    const side = await listed({ network: "side" });
    expect(side.length).toBeGreaterThan(0);
    expect(new Set(side.map(({ target }) => target["network"]))).toEqual(new Set(["side"]));
    const one = await listed({ target: "network=main,wallet=0xb", status: "PENDING,RUNNING" });
    expect(new Set(one.map(({ target_key }) => target_key))).toEqual(
      new Set(["network=main,wallet=0xb"]),
    );
    expect(one.every(({ status }) => status === "PENDING")).toBe(true);
    expect(await listed({ source: "side", status: "QUARANTINED" })).toEqual([]);
    // A source is told by the network here, and no segment is in two lists.
    expect(await listed({ source: "side" })).toEqual(side);
    const waiting = await listed({ status: "PENDING" });
    expect(waiting).toHaveLength(total - done.length);
    expect(new Set([...done, ...waiting].map(({ segment_id }) => segment_id))).toEqual(
      new Set(ids),
    );
    const both = client.call("listAllSegments", {
      query: { network: "side", target: "network=main" },
    });
    await expect(both).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });

  test("I38: abandons a segment after so many tries where that is wanted, until somebody retries it", async () => {
    const retry = { max_attempts: null, delay_ms: 0, max_delay_ms: 0 };
    await publishSyncs(client, { ...TRANSFERS, retry, max_parallel: 1, abandon_after: 2 });
    await seeHeads(client, "transfers", { main: 1_004 });
    const error = { class: "source-unavailable", message: "No answer." };
    await endSegments(client, await takeSegments(client, "transfers", 1), { error });
    expect(await client.call("getSegment", at(0))).toMatchObject({ status: "FAILED" });
    await endSegments(client, await takeSegments(client, "transfers", 1), { error });
    expect(await client.call("getSegment", at(0))).toMatchObject({
      status: "ABANDONED",
      retry_count: 2,
      error_class: "abandoned",
      error_message: "It was abandoned after 2 failed attempts. The last one: No answer.",
      next_retry_at: null,
    });
    // The others go on, and it waits for somebody.
    await fetchSegments(client, "transfers", 2);
    expect(await getSync()).toMatchObject({ segments_quarantined: 1, segments_complete: 2 });
    const [abandoned] = await segmentsOf({ status: "ABANDONED" });
    expect(abandoned).toMatchObject({ segment_index: 0, was_quarantined: true });
    // Counted among those that were quarantined, and so listed with them.
    expect(await segmentsOf({ status: "QUARANTINED" })).toMatchObject([{ status: "ABANDONED" }]);
    const { items } = await client.call("listQuarantine");
    expect(items).toMatchObject([{ segment_index: 0, status: "ABANDONED" }]);
    const across = (status: string) => client.call("listAllSegments", { query: { status } });
    expect((await across("ABANDONED")).items).toMatchObject([{ segment_index: 0 }]);
    expect((await across("FAILED,PENDING")).items.map(({ status }) => status)).not.toContain(
      "ABANDONED",
    );
    await client.call("retrySegment", { ...at(0), body: { reason: "it is back" } });
    const open = await segmentsOf({ status: "PENDING,RUNNING" });
    await fetchSegments(client, "transfers", open.length);
    expect(await getSync()).toMatchObject({ status: "FOLLOWING", synced_to: 999 });
  });

  test("is paused, resumed, retuned and removed for the version that was seen", async () => {
    await plan();
    const before = await getSync();
    const { state_version } = before;
    const paused = await client.call("pauseSync", {
      ...of(),
      body: { reason: "quiet", expected_state_version: state_version },
    });
    expect(paused).toMatchObject({
      message: `Sync ${MAIN} is PAUSED.`,
      sync_id: before.sync_id,
      name: "transfers",
      target_key: "network=main,wallet=0xa",
      state: "PAUSED",
      state_version: state_version + 1,
    });
    expect(await getSync()).toMatchObject({ state: "PAUSED", reason: "quiet", segments_queued: 0 });
    await expect(client.call("pauseSync", of())).rejects.toMatchObject({ code: "STATE_ILLEGAL" });

    const header = { headers: { "if-match": `"${state_version}"` }, body: {} };
    const path = `/api/v1/syncs/${encodeURIComponent(MAIN)}`;
    const stale = await api.send("POST", `${path}/resume`, header);
    expect(stale.status).toBe(412);
    await client.call("resumeSync", of(before.sync_id));
    const body = { max_parallel: 2, priority: 7 };
    await client.call("retuneSync", { ...of(), body });
    expect(await getSync()).toMatchObject({ state: "RUNNING", max_parallel: 2, priority: 7 });
    await client.call("retuneSync", { ...of(), body: { max_parallel: null } });
    expect(await getSync()).toMatchObject({ max_parallel: 4, priority: 7 });

    const removed = await api.send("DELETE", path);
    expect(removed.status).toBe(400);
    expect(await removed.json()).toMatchObject({
      code: "DEFINITION_INVALID",
      detail: expect.stringContaining("is named by code; take it out there") as string,
    });
  });

  test("is gone from lists when it is removed, and can still be read and added again", async () => {
    await publishSyncs(client, { ...TRANSFERS, targets: [] });
    const target = { network: "main", wallet: "0xa" };
    const { sync_id } = await client.call("addSync", { body: { name: "transfers", target } });
    const query = { expected_state_version: 1 };
    const removed = await client.call("removeSync", { ...of(), query });
    expect(removed).toMatchObject({ sync_id, state: "REMOVED", state_version: 2 });
    expect(await getSync()).toMatchObject({ sync_id, state: "REMOVED" });
    expect((await client.call("listSyncs")).items).toEqual([]);
    const gone = await client.call("listSyncs", { query: { status: "REMOVED" } });
    expect(gone.items).toHaveLength(1);
    expect(await client.call("syncOverview")).toMatchObject({ syncs: 0, names: [] });
    for (const change of ["pauseSync", "resumeSync"] as const) {
      await expect(client.call(change, of())).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    }
    const again = await client.call("addSync", { body: { name: "transfers", target } });
    expect(await getSync()).toMatchObject({ sync_id: again.sync_id, state: "PENDING" });
    expect(await getSync(sync_id)).toMatchObject({ state: "REMOVED" });
  });

  test("is added once, with a range and limits of its own", async () => {
    await publishSyncs(client, TRANSFERS);
    const target = { wallet: "0xb", network: "side" };
    const body = {
      name: "transfers",
      target,
      from_block: 100,
      to_block: 299,
      max_parallel: 1,
      priority: -3,
      client_request_id: "once",
    };
    const added = await client.call("addSync", { body });
    expect(added).toMatchObject({
      message: "Sync transfers@network=side,wallet=0xb was added.",
      state: "PENDING",
      state_version: 1,
    });
    expect(await client.call("addSync", { body })).toEqual(added);
    const again = client.call("addSync", { body: { ...body, client_request_id: "twice" } });
    await expect(again).rejects.toMatchObject({ code: "NAME_TAKEN" });
    const sync = "transfers@wallet=0xb,network=side";
    expect(await getSync(sync)).toMatchObject({
      sync_id: added.sync_id,
      origin: "api",
      source: "side",
      from_block: 100,
      to_limit: 299,
      max_parallel: 1,
      priority: -3,
    });
    // What the API added stays when code is published again.
    await publishSyncs(client, { ...TRANSFERS, targets: [] });
    const left = await client.call("listSyncs");
    expect(left.items.map(({ sync_id }) => sync_id)).toEqual([added.sync_id]);
    await publishSyncs(client);
    expect(await getSync(added.sync_id)).toMatchObject({ defined: false });
  });
});

describe("a list of syncs", () => {
  const target = (network: string, wallet: string) => ({ network, wallet });
  const targets = ["main", "side"].flatMap((network) =>
    ["0xa", "0xb", "0xc"].map((wallet) => target(network, wallet)),
  );

  const keys = async (query: { target?: string; source?: string; name?: string }) => {
    const found: string[] = [];
    for await (const sync of client.each("listSyncs", { query: { ...query, limit: 2 } })) {
      found.push(`${sync.name}@${sync.target_key}`);
    }
    return found;
  };

  test("is in the order of name and target, page by page, and narrowed by any field", async () => {
    await publishSyncs(client, { ...TRANSFERS, targets }, { ...TRANSFERS, name: "balances" });
    const all = targets.map(
      ({ network, wallet }) => `transfers@network=${network},wallet=${wallet}`,
    );
    const balances = "balances@network=main,wallet=0xa";
    expect(await keys({})).toEqual([balances, ...all]);
    expect(await keys({ name: "transfers" })).toEqual(all);
    expect(await keys({ target: "network=side" })).toEqual(all.slice(3));
    expect(await keys({ target: "wallet=0xa" })).toEqual([balances, all[0], all[3]]);
    expect(await keys({ target: "wallet=0xb,network=main" })).toEqual([all[1]]);
    expect(await keys({ target: "wallet=0xz" })).toEqual([]);
    expect(await keys({ source: "main", name: "transfers" })).toEqual(all.slice(0, 3));

    const first = await client.call("listSyncs", { query: { limit: 2 } });
    await client.call("addSync", { body: { name: "balances", target: target("zero", "0x0") } });
    const cursor = first.next_cursor ?? "";
    const second = await client.call("listSyncs", { query: { limit: 3, cursor } });
    const pageKeys = second.items.map(({ name, target_key }) => `${name}@${target_key}`);
    expect(pageKeys).toEqual(all.slice(1, 4));
  });
});

describe("a block that cannot be fetched", () => {
  const error = { class: "user", message: "No such block." };

  async function setAside() {
    await plan();
    const [first] = await takeSegments(client, "transfers", 1);
    if (first === undefined) throw new Error("One was taken.");
    await endSegments(client, [first], {
      report: {
        quarantined: [
          { block: 40, error },
          { block: 60, error },
        ],
      },
    });
    const { items } = await client.call("listQuarantine");
    return items;
  }

  test("is listed by itself, with the sync that it holds up", async () => {
    const items = await setAside();
    expect(items).toMatchObject([
      { from_block: 40, to_block: 40, status: "QUARANTINED", error_message: "No such block." },
      { from_block: 60, to_block: 60, name: "transfers", target_key: "network=main,wallet=0xa" },
    ]);
    const own = await client.call("listSyncQuarantine", { ...of(), query: { limit: 1 } });
    expect(own.items).toEqual([items[0]]);
    expect(own.next_cursor).not.toBe(null);
    expect(await getSync()).toMatchObject({ segments_quarantined: 2, synced_to: 39 });
    const tiles = await segmentsOf({ from_block: 35, to_block: 65 });
    expect(tiles.map(({ from_block, to_block }) => [from_block, to_block])).toEqual([
      [0, 39],
      [40, 40],
      [41, 59],
      [60, 60],
      [61, 99],
    ]);
    await expect(client.call("getSegment", at(0))).rejects.toMatchObject({
      code: "SEGMENT_NOT_FOUND",
    });
  });

  test("is tried again, or excluded with who said so and why", async () => {
    const [first, second] = await setAside();
    const index = first?.segment_index ?? -1;
    const retried = await client.call("retrySegment", { ...at(index), body: { reason: "again" } });
    expect(retried).toMatchObject({ segment_index: index, state: "RUNNING" });
    expect(await client.call("getSegment", at(index))).toMatchObject({
      status: "PENDING",
      generation: 1,
      reason: "again",
      was_quarantined: true,
    });
    const other = second?.segment_index ?? -1;
    const body = { reason: "the node lost it" };
    await client.call("excludeSegment", { ...at(other), body });
    expect(await client.call("getSegment", at(other))).toMatchObject({
      status: "COMPLETE",
      progress_pct: 100,
      excluded: { reason: "the node lost it" },
    });
    const twice = client.call("excludeSegment", { ...at(other), body });
    await expect(twice).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    expect((await client.call("listQuarantine")).items).toEqual([]);
  });
});

describe("being sure", () => {
  async function whole() {
    await plan();
    await fetchSegments(client, "transfers", 10);
  }

  test("fetches exactly the blocks of a repair again", async () => {
    await whole();
    const body = { from_block: 150, to_block: 249, reason: "rows were lost" };
    const repaired = await client.call("repairSync", { ...of(), body });
    expect(repaired).toMatchObject({ state: "RUNNING", segments: 2 });
    const open = await segmentsOf({ status: "PENDING" });
    expect(open).toMatchObject([
      { from_block: 150, to_block: 199, undo: true, reason: "rows were lost" },
      { from_block: 200, to_block: 249, undo: true },
    ]);
    expect(await getSync()).toMatchObject({ synced_to: 149, segments_pending: 2, reopenings: 1 });
    await fetchSegments(client, "transfers", 2);
    expect(await getSync()).toMatchObject({ status: "FOLLOWING", synced_to: 999 });
  });

  test("keeps what a verification found on the segment", async () => {
    await whole();
    const body = { from_block: 100, to_block: 299 };
    const asked = await client.call("verifySync", { ...of(), body });
    expect(asked).toMatchObject({ segments: 2 });
    const taken = await takeSegments(client, "transfers", 2);
    expect(taken.map(({ segment }) => segment.purpose)).toEqual(["verify", "verify"]);
    await endSegments(client, taken.slice(0, 1));
    await endSegments(client, taken.slice(1), {
      report: { verification: { ok: false, note: "2 rows are missing" } },
    });
    const query = { verification: "FAILED" };
    const failed = await client.call("listSegments", { ...of(), query });
    expect(failed.items).toMatchObject([
      { status: "COMPLETE", verification: { status: "FAILED", note: "2 rows are missing" } },
    ]);
    const all = await client.call("listSegments", {
      ...of(),
      query: { verification: "PASSED,FAILED" },
    });
    expect(all.items).toHaveLength(2);
    expect(await getSync()).toMatchObject({ verify_waiting: 0, verify_active: 0 });
  });
});

describe("all syncs together", () => {
  test("are counted by name and status, with the slowest and the sources", async () => {
    const targets = [
      { network: "main", wallet: "0xa" },
      { network: "main", wallet: "0xb" },
      { network: "side", wallet: "0xa" },
    ];
    await publishSyncs(client, { ...TRANSFERS, targets });
    await seeHeads(client, "transfers", { main: 1_004, side: 105 });
    await client.call("pauseSync", of("transfers@network=main,wallet=0xb"));
    const taken = await takeSegments(client, "transfers", 1);
    await endSegments(client, taken);
    await client.call("exchangeSources", {
      body: {
        worker_id: "hand",
        sources: [
          {
            source: "main",
            learnt: { request_size: 500, interval_ms: 20, throttled_until: null },
          },
        ],
      },
    });

    const overview = await client.call("syncOverview");
    expect(overview).toMatchObject({
      syncs: 3,
      syncs_by_status: { RUNNING: 2, PAUSED: 1, COMPLETE: 0 },
      segments_complete: 1,
      lag_blocks_max: 1_000,
      names: [{ name: "transfers", defined: true, syncs: 3 }],
    });
    expect(overview.segments_total).toBe(30);
    expect(overview.rate_blocks_per_second).toBeGreaterThan(0);
    expect(overview.slowest.map(({ target_key }) => target_key)).toEqual([
      "network=main,wallet=0xa",
      "network=side,wallet=0xa",
    ]);

    const sources = await client.call("listSyncSources", { query: { limit: 1 } });
    expect(sources.items).toMatchObject([
      {
        name: "transfers",
        source: "main",
        targets: 2,
        head: 1_004,
        failures: 0,
        request_size: 500,
        interval_ms: 20,
        workers: 1,
      },
    ]);
    const cursor = sources.next_cursor ?? "";
    const rest = await client.call("listSyncSources", { query: { cursor } });
    expect(rest.items).toMatchObject([{ source: "side", head: 105, request_size: null }]);
    expect(rest.next_cursor).toBe(null);
  });
});

describe("the record of a sync", () => {
  test("tells what happened to it and to a segment, and why", async () => {
    await plan();
    const { sync_id } = await getSync();
    await fetchSegments(client, "transfers", 1);
    const types = async (entity: string) =>
      (await client.call("listEvents", { query: { entity } })).items.map(({ type }) => type);
    expect(await types(sync_id)).toEqual(await types(MAIN));
    expect(await types(sync_id)).toContain("SyncSegmentsPlanned");
    expect(await types(`${sync_id}:0`)).toContain("RunFinished");
    const why = await client.call("explainEntity", { query: { entity: `${sync_id}:0` } });
    const chain = why.items.map(({ type }) => type);
    expect(chain).toEqual(
      expect.arrayContaining(["SyncsAdded", "SyncSegmentsPlanned", "RunRequested", "RunFinished"]),
    );
    const story = await client.call("explainEntity", { query: { entity: MAIN } });
    expect(story.items.map(({ type }) => type)).toContain("SyncStateChanged");
    const { items } = await client.call("listRuns", { query: { status: "SUCCEEDED" } });
    expect(items).toMatchObject([
      { trigger_source_ref: { type: "sync", sync_id, segment_index: 0, purpose: "fetch" } },
    ]);
  });
});
