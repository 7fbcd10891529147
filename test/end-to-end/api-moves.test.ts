import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { type Api, startApi } from "./api-server.ts";
import { endStep, lookBefore, publishShards, say, SPREAD, takeMoveStep } from "./shard-hand.ts";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  await publishShards(client, SPREAD);
});

afterEach(() => api.close());

const of = (move: string) => ({ params: { move } });
const at = (move: string, segment_index: number) => ({ params: { move, segment_index } });
const getMove = (move: string) => client.call("getMove", of(move));
const commandsOf = async (move: string) =>
  (await getMove(move)).next.commands.map(({ command }) => command);

async function plan(body: object = {}): Promise<string> {
  return (await client.call("planMove", { body: { move: "spread", ...body } })).move_id;
}

/** Three segments of a hundred rows. */
const BOUNDS = {
  bounds: [
    { upper: ["100"], rows: 100 },
    { upper: ["200"], rows: 100 },
    { upper: null, rows: 100 },
  ],
  sealed: true,
};

/** A move whose segments are known. */
async function surveyed(body: object = {}): Promise<string> {
  const move = await plan(body);
  await endStep(client, await takeMoveStep(client, "survey"), BOUNDS);
  return move;
}

/** A move that is started, and about to copy. */
async function started(): Promise<string> {
  const move = await surveyed();
  await client.call("startMove", of(move));
  await lookBefore(client);
  return move;
}

const COPIED = { rows: 100, bytes: 1_000, work_ms: 500, digest: "d", equal: true };

async function copyNext(): Promise<void> {
  await endStep(client, await takeMoveStep(client, "copy"), COPIED);
}

/** Has the next segment fail for good. */
async function poisonNext(message: string): Promise<number> {
  const taken = await takeMoveStep(client, "copy");
  const error = { class: "ROWS_CONFLICT", message };
  await endStep(client, taken, { cursor: ["7"] }, { error, final: true });
  return taken.step.index ?? -1;
}

describe("the map of a move", () => {
  test("shows all segments at once, and how far each lane is", async () => {
    const move = await started();
    await copyNext();
    await poisonNext("b has rows in the way");
    await takeMoveStep(client, "copy");
    expect(await client.call("mapMoveSegments", of(move))).toMatchObject({
      move_id: move,
      cells: 3,
      states: ["PENDING", "RUNNING", "COPIED", "REMOVED", "POISONED", "EXCLUDED"],
      lengths: [2, 1, 4, 1, 1, 1],
      lanes: [
        {
          lane: 0,
          segments: 3,
          states: { COPIED: 1, POISONED: 1, RUNNING: 1 },
          rows_estimated: 300,
          rows_copied: 100,
        },
      ],
    });
  });

  test("is empty before anybody has looked how much there is", async () => {
    const map = await client.call("mapMoveSegments", of(await plan()));
    expect(map).toMatchObject({ cells: 0, lengths: [], lanes: [] });
  });
});

describe("a move", () => {
  test("has a definition that is found by its kind", async () => {
    const { items } = await client.call("listDefinitions", { query: { kind: "move" } });
    expect(items.map(({ kind, name }) => [kind, name])).toEqual([["move", "spread"]]);
  });

  test("is shown as it was planned, with what goes where", async () => {
    const move = await plan();
    expect(await getMove("spread")).toMatchObject({
      move_id: move,
      name: "spread",
      state: "PLANNED",
      phase: "survey",
      state_version: 1,
      dry_run: false,
      shards_from: ["a"],
      shards_to: ["b"],
      tables: ["users"],
      from: SPREAD.from,
      to: SPREAD.to,
      lanes: [{ lane: 0, table: "users", shard_by: "tenant", from: "a", to: "b", sealed: false }],
      lanes_total: 1,
      surveyed: false,
      lacks_worker: true,
      strategy: { type: "cardinality", rows: 100_000 },
      segment_concurrency: 4,
      keep_source: false,
      progress_pct: 0,
      rate_rows_per_second: null,
      check: { n: 0, running: false, ok: null, misplaced: [] },
    });
    expect((await getMove(move)).next.text).toContain("Waiting for a worker with these shards");
    await endStep(client, await takeMoveStep(client, "survey"), BOUNDS);
    const known = await getMove(move);
    expect(known).toMatchObject({ surveyed: true, segments_total: 3, rows_estimated: 300 });
    expect(known.next).toMatchObject({
      text: "300 rows in 3 segments to move; nothing is copied yet.",
      commands: [
        {
          command: "start",
          effect: "copies the rows and then removes them from the shards that they came from",
        },
        { command: "retune" },
        { command: "cancel" },
      ],
    });
  });

  test("is only looked at in a dry run, and cannot be started then", async () => {
    const move = await surveyed({ dry_run: true });
    const check = await takeMoveStep(client, "check");
    expect(check.step.lanes).toEqual([
      { table: expect.objectContaining({ shard_by: "tenant" }) as object, from: "a", to: "b" },
    ]);
    expect((await getMove(move)).next.text).toContain("checking whether that is possible");
    await endStep(client, check, { equal: true, misplaced: [] });
    const looked = await getMove(move);
    expect(looked).toMatchObject({ dry_run: true, rows_estimated: 300, surveyed: true });
    expect(looked.next.text).toBe("300 rows in 3 segments to move; this was a dry run.");
    await expect(client.call("startMove", of(move))).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
    });
  });

  test("takes a plan of its own, with what was left out filled in", async () => {
    const ranges = [
      { below: "m", shard: "a" },
      { below: null, shard: "b" },
    ];
    const wish = {
      from: { by: "hash" as const, buckets: ["a", "a", "b"] },
      to: { by: "range" as const, ranges },
      rows_per_second: 50,
    };
    const { move_id } = await client.call("planMove", { body: { plan: wish } });
    expect(await getMove(move_id)).toMatchObject({
      name: null,
      from: wish.from,
      to: wish.to,
      tables: ["users", "orders"],
      rows_per_second: 50,
      segment_attempts: 5,
      retry_budget: null,
    });
  });

  test("shows what all attempts at a segment copied together", async () => {
    const { from, to, tables } = SPREAD;
    const body = { plan: { from, to, tables, segment_attempts: 3 } };
    const { move_id: move } = await client.call("planMove", { body });
    await endStep(client, await takeMoveStep(client, "survey"), BOUNDS);
    await client.call("startMove", { ...of(move), body: {} });
    await lookBefore(client);
    const first = await takeMoveStep(client, "copy");
    const index = first.step.index ?? -1;
    const shown = async () => {
      const { rows_copied, bytes_copied } = await client.call("getMoveSegment", at(move, index));
      return { rows_copied, bytes_copied };
    };
    await say(client, first, { rows: 40, bytes: 400 });
    const error = { class: "transient", message: "it hung up" };
    await endStep(client, first, { rows: 40, bytes: 400 }, { error });
    expect(await shown()).toEqual({ rows_copied: 40, bytes_copied: 400 });
    api.jump(2 * 3_600_000);
    // The others were ready all the time.
    let again = await takeMoveStep(client, "copy");
    while (again.step.index !== index) again = await takeMoveStep(client, "copy");
    expect(await shown()).toEqual({ rows_copied: 40, bytes_copied: 400 });
    await say(client, again, { rows: 60, bytes: 200 });
    expect(await shown()).toEqual({ rows_copied: 60, bytes_copied: 600 });
  });

  test("copies, removes, checks, and shows how far it is", async () => {
    const move = await surveyed();
    await client.call("startMove", { ...of(move), body: { expected_state_version: 1 } });
    await lookBefore(client);
    const first = await takeMoveStep(client, "copy");
    await say(client, first, { rows: 40, bytes: 400, cursor: ["40"], position: "5" });
    expect(await client.call("getMoveSegment", at(move, 0))).toMatchObject({
      segment_index: 0,
      state: "PENDING",
      table_name: "users",
      from: "a",
      to: "b",
      lower: null,
      upper: ["100"],
      running: true,
      step: "copy",
      worker_id: "hand",
      rows_copied: 40,
      bytes_copied: 400,
      cursor: ["40"],
      position: "5",
      attempts: 1,
      runs: [{ step: "copy", n: 1, state: "RUNNING" }],
    });
    expect(await getMove(move)).toMatchObject({ phase: "copy", current_segment: 0 });
    await endStep(client, first, COPIED);
    expect(await getMove(move)).toMatchObject({
      segments_copied: 1,
      rows_copied: 100,
      bytes_copied: 1_000,
      progress_pct: 33.3,
      // A hundred rows in half a second, and two segments at once.
      rate_rows_per_second: 400,
      eta_seconds: 1,
    });
    await copyNext();
    await copyNext();
    expect(await getMove(move)).toMatchObject({ phase: "remove", segments_copied: 3 });
    for (const _ of [0, 1, 2]) {
      const removal = await takeMoveStep(client, "remove");
      await endStep(client, removal, { equal: true, rows_removed: 100 });
    }
    expect(await getMove(move)).toMatchObject({ phase: "check", rows_removed: 300 });
    await endStep(client, await takeMoveStep(client, "check"), { equal: true, misplaced: [] });
    expect(await getMove(move)).toMatchObject({
      state: "COMPLETE",
      phase: "done",
      progress_pct: 100,
      check: { n: 2, ok: true },
      next: { text: "Complete; every row is on its shard." },
    });
    const { runs } = await client.call("getMoveSegment", at(move, 0));
    expect(runs.map(({ step, state }) => [step, state])).toEqual([
      ["remove", "SUCCEEDED"],
      ["copy", "SUCCEEDED"],
    ]);
  });

  test("I47: looks before the first copy, and pauses with what stands in the way", async () => {
    const move = await surveyed();
    await client.call("startMove", of(move));
    const look = await takeMoveStep(client, "check");
    expect(look.step).toMatchObject({ lanes: [{ from: "a", to: "b" }] });
    expect(await getMove(move)).toMatchObject({
      phase: "copy",
      segments_active: 0,
      check: { running: true },
      next: { text: "Checking whether all rows can be copied." },
    });
    const note = "rows of users cannot go from a to b: b has no table users";
    await endStep(client, look, { equal: false, misplaced: [], note });
    const reason = `it would not come to a good end: ${note}`;
    expect(await getMove(move)).toMatchObject({ state: "PAUSED", reason, segments_pending: 3 });
    await client.call("resumeMove", of(move));
    await lookBefore(client);
    await copyNext();
    expect(await getMove(move)).toMatchObject({ state: "RUNNING", segments_copied: 1 });
  });

  test("is in the phase that it had come to when it was cancelled", async () => {
    const move = await started();
    await copyNext();
    await client.call("cancelMove", of(move));
    const cancelled = { state: "CANCELLED", phase: "copy", progress_pct: 33.3 };
    expect(await getMove(move)).toMatchObject(cancelled);
  });

  test("is paused, retuned, resumed and cancelled for the version that was seen", async () => {
    const move = await surveyed();
    await client.call("startMove", of(move));
    const stale = { expected_state_version: 1 };
    await expect(client.call("pauseMove", { ...of(move), body: stale })).rejects.toMatchObject({
      code: "STATE_VERSION_MISMATCH",
    });
    const paused = await client.call("pauseMove", {
      ...of(move),
      body: { expected_state_version: 2, reason: "quiet hours" },
    });
    expect(paused).toMatchObject({ state: "PAUSED", state_version: 3 });
    expect((await getMove(move)).next.text).toContain("Paused (quiet hours)");
    const body = { segment_concurrency: 1, rows_per_second: 10 };
    await client.call("retuneMove", { ...of(move), body });
    expect(await getMove(move)).toMatchObject(body);
    await client.call("retuneMove", { ...of(move), body: { rows_per_second: null } });
    expect(await getMove(move)).toMatchObject({ segment_concurrency: 1, rows_per_second: null });
    await expect(client.call("startMove", of(move))).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
      message: expect.stringContaining("possible only while it is PLANNED") as string,
    });
    const header = { headers: { "if-match": '"1"' }, body: {} };
    expect((await api.send("POST", `/api/v1/moves/${move}/resume`, header)).status).toBe(412);
    await client.call("resumeMove", of(move));
    expect(await client.call("cancelMove", of(move))).toMatchObject({ state: "CANCELLED" });
    expect(await commandsOf(move)).toEqual([]);
  });

  test("I59: answers a change that is sent again under its key alike, and records it once", async () => {
    const move = await surveyed();
    await client.call("startMove", of(move));
    const body = { expected_state_version: 2, reason: "quiet hours" };
    const pause = { ...of(move), body, idempotencyKey: "quiet" };
    const first = await client.call("pauseMove", pause);
    expect(first).toMatchObject({ state: "PAUSED", state_version: 3 });
    expect(await client.call("pauseMove", pause)).toEqual(first);
    const other = { ...pause, body: { reason: "for good" } };
    await expect(client.call("pauseMove", other)).rejects.toMatchObject({
      code: "IDEMPOTENCY_KEY_REUSED",
    });
    expect(await getMove(move)).toMatchObject({ state: "PAUSED", state_version: 3 });
  });

  test("shows what was quarantined, and has it tried again, copied again or excluded", async () => {
    const move = await started();
    const indexes = [await poisonNext("one"), await poisonNext("two"), await poisonNext("three")];
    expect(indexes).toEqual([0, 1, 2]);
    const document = await getMove(move);
    expect(document).toMatchObject({
      segments_poisoned: 3,
      retries: 0,
      retries_counted: 3,
      last_error: { class: "ROWS_CONFLICT", message: "three" },
    });
    expect(document.next.text).toContain("3 segments are quarantined");
    const poisoned = await client.call("listMoveSegments", {
      ...of(move),
      query: { state: "POISONED", limit: 2 },
    });
    expect(
      poisoned.items.map(({ segment_index, error }) => [segment_index, error?.message]),
    ).toEqual([
      [0, "one"],
      [1, "two"],
    ]);
    const rest = await client.call("listMoveSegments", {
      ...of(move),
      query: { state: "POISONED", cursor: poisoned.next_cursor ?? "" },
    });
    expect(rest.items.map(({ segment_index }) => segment_index)).toEqual([2]);

    const retried = await client.call("retryMoveSegment", at(move, 0));
    expect(retried).toMatchObject({
      segment_index: 0,
      message: `Move ${move} tries segment 0 again.`,
    });
    await client.call("recopyMoveSegment", at(move, 1));
    expect(await client.call("getMoveSegment", at(move, 1))).toMatchObject({ generation: 1 });
    const reason = "nobody needs them";
    await client.call("excludeMoveSegment", { ...at(move, 2), body: { reason } });
    expect(await client.call("getMoveSegment", at(move, 2))).toMatchObject({
      state: "EXCLUDED",
      excluded: { reason },
    });
    expect(await getMove(move)).toMatchObject({ segments_poisoned: 0, segments_excluded: 1 });
    await expect(client.call("retryMoveSegment", at(move, 2))).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
      message: expect.stringContaining("possible only while it is POISONED") as string,
    });
    const active = await client.call("listMoveSegments", {
      ...of(move),
      query: { active: "true" },
    });
    expect(active.items.length).toBeGreaterThan(0);
  });

  test("tries all that was quarantined at once", async () => {
    const move = await started();
    for (const name of ["one", "two", "three"]) await poisonNext(name);
    expect(await client.call("retryMove", of(move))).toMatchObject({ segment_index: null });
    expect(await getMove(move)).toMatchObject({ segments_poisoned: 0, segments_pending: 3 });
  });

  test("compares what was copied once more, and says what differs", async () => {
    const move = await started();
    await copyNext();
    await client.call("pauseMove", of(move));
    await client.call("verifyMove", of(move));
    const comparison = await takeMoveStep(client, "verify");
    await endStep(client, comparison, { equal: false, note: "A row differs." });
    expect(await getMove(move)).toMatchObject({ verifications: 1, verify_failed: 1 });
    const { items } = await client.call("listMoveSegments", of(move));
    expect(items.map(({ verification }) => verification?.ok ?? null)).toContain(false);
  });

  test("is listed newest first, by state and by name", async () => {
    const first = await plan();
    const second = await plan({ dry_run: true });
    await client.call("cancelMove", of(first));
    const ids = async (query: object) =>
      (await client.call("listMoves", { query })).items.map(({ move_id }) => move_id);
    expect(await ids({})).toEqual([second, first]);
    expect(await ids({ status: "CANCELLED,COMPLETE" })).toEqual([first]);
    expect(await ids({ name: "spread" })).toEqual([second, first]);
    expect(await ids({ name: "other" })).toEqual([]);
    const [item] = (await client.call("listMoves", { query: { limit: 1 } })).items;
    expect(item).not.toHaveProperty("from");
  });

  test("is planned once for one key", async () => {
    const body = { move: "spread", client_request_id: "once" };
    const [one, other] = [
      await client.call("planMove", { body }),
      await client.call("planMove", { body }),
    ];
    expect(other.move_id).toBe(one.move_id);
  });

  test("has a story, and so has a segment", async () => {
    const move = await started();
    await poisonNext("No.");
    const why = async (entity: string) =>
      (await client.call("explainEntity", { query: { entity } })).items.map(({ type }) => type);
    expect(await why(move)).toEqual([
      "MovePlanned",
      "MoveSegmentsPlanned",
      "MoveStateChanged",
      "MoveChecked",
      "MoveSegmentChanged",
    ]);
    expect(await why(`${move}:0`)).toEqual(
      expect.arrayContaining(["MovePlanned", "MoveSegmentChanged", "RunRequested", "RunFinished"]),
    );
    const { runs } = await client.call("getMoveSegment", at(move, 0));
    expect(await why(runs[0]?.run_id ?? "")).toContain("MovePlanned");
    const { items } = await client.call("listEvents", { query: { entity: "spread" } });
    expect(items.map(({ type }) => type)).toContain("MovePlanned");
  });

  test("is counted for those who watch", async () => {
    const move = await started();
    const labels = `{move_id="${move}",move="spread"}`;
    const metrics = async () => (await api.send("GET", "/metrics")).text();
    await copyNext();
    await poisonNext("No.");
    // A failure that nobody tries again is none that was tried again.
    expect(await metrics()).toContain(`pawl_migration_segment_retries_total${labels} 0`);
    await client.call("retryMoveSegment", at(move, 1));
    const current = await takeMoveStep(client, "copy");
    expect(current.step.index).toBe(2);
    expect(await poisonNext("No.")).toBe(1);
    const text = await metrics();
    expect(text).toContain(`pawl_migration_segment_completed_total${labels} 1`);
    expect(text).toContain(`pawl_migration_segment_retries_total${labels} 1`);
    expect(text).toContain(`pawl_migration_rows_total${labels} 100`);
    expect(text).toContain(`pawl_migration_bytes_total${labels} 1000`);
    expect(text).toContain(`pawl_migration_current_segment${labels} 2`);
    expect(text).toContain(`pawl_migration_segments_poisoned${labels} 1`);
  });

  test("is counted no more once a hundred newer ones have ended", async () => {
    const first = await plan();
    for (let n = 0; n < 100; n++) await client.call("cancelMove", of(await plan()));
    const shown = async () => {
      const text = await (await api.send("GET", "/metrics")).text();
      return text.split("\n").filter((line) => line.startsWith("pawl_migration_segments{"));
    };
    expect(await shown()).toHaveLength(101);
    await client.call("cancelMove", of(first));
    const lines = await shown();
    expect(lines).toHaveLength(100);
    expect(lines.join()).not.toContain(first);
  });
});
