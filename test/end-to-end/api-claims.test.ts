import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { EventDocument } from "../../src/work/server-api.ts";
import { OPERATIONS } from "../../src/work/operations.ts";
import type { TaskRef } from "../../src/work/run/protocol.ts";
import { outcomeOfError } from "../../src/worker/tasks/outcome.ts";
import { type Api, checkedFetch, startApi, type TokenClient } from "./api-server.ts";
import { TRANSFERS } from "./sync-hand.ts";

/** For a signal that comes soon, but not on a machine that is busy. */
const WAIT = { interval: 10, timeout: 600_000 };
const SAID = { logBytesRunMax: 65_536, checkpointBytesRunMax: 1_048_576 };

let api: Api;
let admin: TokenClient;
let mine: TokenClient;
let other: TokenClient;
let leases = 0;

beforeAll(async () => {
  api = await startApi({ tokensRequired: true, saidLimits: SAID });
  admin = await api.clientOf(0, ["read", "write", "admin"], "ann");
  mine = await api.clientOf(0, ["work"], "fleet");
  // The same principal: a claim is the token's own.
  other = await api.clientOf(0, ["work"], "fleet");
  const specs = ["a", "b"].map((asset_key) => {
    return { kind: "asset" as const, asset_key, partitions: null };
  });
  const body = { specs };
  await admin.call("publishDefinitions", { body });
});

afterAll(() => api.close());

type Claimed = { lease_id: string; run_id: string; ref: TaskRef };

/** Has a run asked for, and its task claimed under the name of one worker. */
async function claimed(client: TokenClient, asset = "a"): Promise<Claimed> {
  const { run_id } = await admin.call("requestRun", { body: { assets: [asset] } });
  const lease_id = `lease-${++leases}`;
  // A worker with a lease that ran out gets an empty answer, and asks again.
  const ref = await vi.waitFor(async () => {
    const found = await claimAs(client, lease_id, asset, 10_000);
    if (found === null) throw new Error("There is nothing to claim.");
    return found;
  }, WAIT);
  return { lease_id, run_id, ref };
}

async function claimAs(
  client: TokenClient,
  lease_id: string,
  asset = "a",
  wait_ms = 0,
): Promise<TaskRef | null> {
  const body = {
    worker_id: "w",
    lease_id,
    slots: 1,
    assets: [asset],
    code_version: null,
    wait_ms,
  };
  const { groups } = await client.call("claim", { body });
  const [group] = groups;
  const [task] = group?.tasks ?? [];
  if (group === undefined || task === undefined) return null;
  return { run_pos: group.run_pos, task_key: task.task_key, attempt: task.attempt };
}

const report = (client: TokenClient, ref: TaskRef, released_leases: string[] = []) =>
  client.call("report", {
    body: {
      worker_id: "w",
      code_version: null,
      results: [{ ...ref, outcome: "SUCCEEDED" as const }],
      released_leases,
    },
  });

const beat = (client: TokenClient, lease_id: string, ref: TaskRef) =>
  client.call("heartbeat", {
    body: {
      worker_id: "w",
      leases: [lease_id],
      tasks: [{ ...ref, progress: { done: 1, total: 2, note: null } }],
    },
  });

async function eventsOf(run_id: string): Promise<EventDocument[]> {
  const query = { entity: run_id, limit: 100 };
  return (await admin.call("listEvents", { query })).items;
}

describe("what a token claimed", () => {
  test("I77: is reported by that token only", async () => {
    const { run_id, ref } = await claimed(mine);
    expect(await report(other, ref)).toEqual({ results: ["lost"] });
    expect((await admin.call("getRun", { params: { run_id } })).state).toBe("RUNNING");
    expect(await report(mine, ref)).toEqual({ results: ["recorded"] });
  });

  test("I77: is kept alive, and said how far it is, by that token only", async () => {
    const { lease_id, run_id, ref } = await claimed(mine);
    expect(await beat(other, lease_id, ref)).toMatchObject({ renewed: [], lost: [ref] });
    const { items } = await admin.call("listTasks", { params: { run_id } });
    expect(items[0]?.progress).toBeNull();
    const kept = { items: [{ ...ref, value: "theirs" }] };
    expect(await other.call("checkpoint", { body: kept })).toEqual({ accepted: [false] });
    const lines = { items: [{ ...ref, message: "theirs", fields: null }] };
    expect(await other.call("log", { body: lines })).toEqual({ accepted: [false] });

    expect(await beat(mine, lease_id, ref)).toMatchObject({ renewed: [lease_id], lost: [] });
    expect(await mine.call("checkpoint", { body: kept })).toEqual({ accepted: [true] });
    expect(await mine.call("log", { body: lines })).toEqual({ accepted: [true] });
    await report(mine, ref);
  });

  test("I77: stays under its lease when another token says that it is released", async () => {
    const { lease_id, ref } = await claimed(mine);
    const body = { worker_id: "w", code_version: null, results: [], released_leases: [lease_id] };
    await other.call("report", { body });
    expect(await beat(mine, lease_id, ref)).toMatchObject({ renewed: [lease_id] });
    await report(mine, ref, [lease_id]);
    expect(await beat(mine, lease_id, ref)).toMatchObject({ renewed: [], lost: [ref] });
  });

  test("I77: is not handed to another token that names the same lease", async () => {
    const { lease_id, ref } = await claimed(mine);
    expect(await claimAs(other, lease_id)).toBeNull();
    expect(await claimAs(mine, lease_id)).toEqual(ref);
    await admin.call("requestRun", { body: { assets: ["b"] } });
    const second = await claimAs(other, lease_id, "b", 10_000);
    expect(second).not.toBeNull();
    expect(await beat(mine, lease_id, ref)).toMatchObject({ renewed: [lease_id], lost: [] });
    await report(mine, ref);
    if (second !== null) await report(other, second);
  });

  test("I77, I69: stands in the ledger under who was authenticated, whatever was said", async () => {
    const { run_id, ref } = await claimed(mine);
    await report(mine, ref);
    const actor = { principal: "fleet", token_id: mine.tokenId };
    const events = await eventsOf(run_id);
    for (const type of ["TasksStarted", "TasksFinished"]) {
      expect(events.find((event) => event.type === type)?.actor).toEqual(actor);
    }
    const started = events.find(({ type }) => type === "TasksStarted");
    expect(started?.data).toMatchObject({ worker_id: "w", claimed_by: mine.tokenId });
  });
});

describe("a look that a token took", () => {
  const stop = { type: "failed", error: { class: "user", message: "no" } } as const;

  test("I77: at a sensor is renewed and reported by that token only", async () => {
    const spec = { kind: "sensor", name: "eyes", mode: "poll" } as const;
    await admin.call("publishDefinitions", { body: { specs: [spec] } });
    const claim = { worker_id: "w", sensors: ["eyes"], slots: 1, wait_ms: 5_000 };
    const { probes } = await mine.call("claimProbes", { body: claim });
    const [probe] = probes;
    if (probe === undefined) throw new Error("There is nothing to look at.");
    const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
    const look = { probe_id, attempt };
    const renew = (client: TokenClient) =>
      client.call("heartbeat", { body: { worker_id: "w", leases: [], tasks: [], looks: [look] } });
    const read = { cursor, expected_state_version, poll_epoch };
    const end = (client: TokenClient) =>
      client.call("reportProbes", {
        body: { worker_id: "w", results: [{ ...look, ...read, outcome: stop }] },
      });
    expect(await renew(other)).toMatchObject({ lost_looks: [look] });
    expect(await end(other)).toEqual({ results: ["lost"] });
    expect(await renew(mine)).toMatchObject({ lost_looks: [] });
    expect(await end(mine)).toEqual({ results: ["recorded"] });
    const query = { type: "SensorEvaluated", limit: 1 };
    const { items } = await admin.call("listEvents", { query });
    expect(items[0]?.actor).toEqual({ principal: "fleet", token_id: mine.tokenId });
  });

  test("I77: at a head is reported by that token only, and given back by no other", async () => {
    await admin.call("publishDefinitions", { body: { specs: [TRANSFERS] } });
    const claim = { worker_id: "w", syncs: ["transfers"], slots: 1, wait_ms: 5_000 };
    const { heads } = await mine.call("claimHeads", { body: claim });
    const [head] = heads;
    if (head === undefined) throw new Error("There is nothing to look at.");
    const { probe_id, attempt, sync, source } = head;
    // Another worker of the same name goes away: what this one looks at stays its own.
    const gone = new AbortController();
    const actor = { principal: "fleet", token_id: other.tokenId };
    const waiting = api.engines[0].claimHeads(claim, gone.signal, actor);
    gone.abort();
    expect(await waiting).toMatchObject({ heads: [] });
    const end = (client: TokenClient) =>
      client.call("reportHeads", {
        body: {
          worker_id: "w",
          results: [{ probe_id, attempt, sync, source, outcome: stop }],
        },
      });
    expect(await end(other)).toEqual({ results: ["lost"] });
    expect(await end(mine)).toEqual({ results: ["unchanged"] });
  });
});

describe("what a token sends", () => {
  test("I64: is refused where a checkpoint or the fields of a line are too large, and says why", async () => {
    const { ref } = await claimed(mine);
    const large = "x".repeat(5_000_000);
    const checkpoint = mine.call("checkpoint", { body: { items: [{ ...ref, value: large }] } });
    await expect(checkpoint).rejects.toMatchObject({
      code: "QUOTA_EXCEEDED",
      message: "A checkpoint has 5000002 bytes; at most 4194304 are kept.",
    });
    const line = { ...ref, message: "m", fields: "x".repeat(70_000) };
    const log = mine.call("log", { body: { items: [line] } });
    await expect(log).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
    await report(mine, ref);
  });

  test("I64: is not remembered without end, whatever names it asks for", async () => {
    for (let request = 0; request < 12; request++) {
      const names = Array.from({ length: 2_000 }, (_, at) => `${request}-${at}-`.padEnd(490, "n"));
      const body = { worker_id: `w${request}`, slots: 1, wait_ms: 0 };
      const claim = { ...body, lease_id: `flood-${request}`, assets: names, code_version: null };
      expect((await other.call("claim", { body: claim })).groups).toEqual([]);
      const probes = { ...body, sensors: names };
      expect((await other.call("claimProbes", { body: probes })).probes).toEqual([]);
    }
    const [engine] = api.engines;
    for (const heard of [engine.claimedAssets(), engine.claimedSensors()]) {
      const length = [...heard.keys()].reduce((sum, name) => sum + name.length, 0);
      expect(length).toBeLessThan(5_000_000);
    }
    const many = Array.from({ length: 3_000 }, (_, at) => `${at}-`.padEnd(490, "n"));
    for (const sensors of [["n".repeat(501)], many]) {
      const refused = other.call("claimProbes", {
        body: { worker_id: "w", sensors, slots: 1, wait_ms: 0 },
      });
      await expect(refused).rejects.toMatchObject({ code: "INPUT_INVALID" });
    }
  });
});

describe("what a token reports", () => {
  const end = (ref: TaskRef, result: object) => {
    const results = [{ ...ref, outcome: "FAILED" as const, final: true, ...result }];
    return mine.call("report", {
      body: { worker_id: "w", code_version: null, results, released_leases: [] },
    });
  };

  test("I64: is cut where it is said at length, before it stands in the ledger for ever", async () => {
    const long = "é".repeat(100_000);
    const { run_id, ref } = await claimed(mine);
    const exceptions = Array.from({ length: 10 }, () => {
      return {
        index: 0,
        outcome: "FAILED" as const,
        error: { class: long, message: "x".repeat(5_000) },
      };
    });
    await end(ref, { error: { class: long, message: long }, exceptions });
    const run = await admin.call("getRun", { params: { run_id } });
    expect(run.first_error?.message).toHaveLength(2_000);
    expect(run.first_error?.class).toHaveLength(100);
    for (const event of await eventsOf(run_id)) {
      expect(JSON.stringify(event).length).toBeLessThan(30_000);
    }
  });

  test("I64: is a failure that says so where more is to be kept about it than is", async () => {
    const { run_id, ref } = await claimed(mine);
    await end(ref, { outcome: "SUCCEEDED", metadata: { rows: "x".repeat(16_001) } });
    const [finished] = (await eventsOf(run_id)).filter(({ type }) => type === "TasksFinished");
    expect(JSON.stringify(finished)).toContain(
      "the metadata has 16012 characters of JSON; at most 16000 are kept",
    );
    const body = {
      worker_id: "w",
      results: [],
      released_leases: [],
      code_version: "v".repeat(501),
    };
    await expect(mine.call("report", { body })).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });
});

describe("what a task checkpoints", () => {
  test("I64: is bounded by its run, and the task fails for good with the reason", async () => {
    const { run_id, ref } = await claimed(mine);
    const keep = (bytes: number) => {
      const body = { items: [{ ...ref, value: "x".repeat(bytes - 2) }] };
      return mine.call("checkpoint", { body });
    };
    expect(await keep(600_000)).toEqual({ accepted: [true] });
    // What is written over does not count.
    expect(await keep(400_000)).toEqual({ accepted: [true] });
    expect(await keep(400_000)).toEqual({ accepted: [true] });
    const refused: unknown = await keep(800_000).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "QUOTA_EXCEEDED",
      message: "The checkpoints of the run have as many bytes as are kept: 1048576.",
    });
    const results = [{ ...ref, ...outcomeOfError(refused) }];
    const body = { worker_id: "w", code_version: null, results, released_leases: [] };
    expect(await mine.call("report", { body })).toEqual({ results: ["recorded"] });
    const run = await admin.call("getRun", { params: { run_id } });
    expect(run).toMatchObject({
      state: "FAILED",
      first_error: { class: "quota", message: expect.stringContaining("QUOTA_EXCEEDED") },
    });
  });
});

describe("what a task logs", () => {
  test("I64: ends with a line that says so where the run's quota was reached, and is counted", async () => {
    const { run_id, ref } = await claimed(mine);
    const say = (count: number) => {
      const lines = Array.from({ length: count }, () => {
        return { ...ref, message: "x".repeat(1_000), fields: {} };
      });
      return mine.call("log", { body: { items: lines } });
    };
    expect((await say(10)).accepted).toEqual(Array(10).fill(true));
    expect((await say(100)).accepted.filter(Boolean).length).toBeLessThan(60);
    expect((await say(100)).accepted).toEqual(Array(100).fill(false));
    const params = { run_id, task_key: 0 };
    const { items } = await admin.call("listTaskLogs", { params, query: { limit: 200 } });
    const cuts = items.filter(({ message }) => message.startsWith("…"));
    expect(cuts.map(({ message }) => message)).toEqual([
      "… lines were dropped here: the run's log reached 64 KiB.",
    ]);
    expect(items.at(-1)).toEqual(cuts[0]);
    const headers = { authorization: `Bearer ${admin.token}` };
    const metrics = await (await api.send("GET", "/metrics", { headers })).text();
    const valueOf = (name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(metrics)?.[1]);
    expect(valueOf("pawl_log_lines_dropped_total")).toBe(210 - items.length + 1);
    expect(valueOf("pawl_log_lines_expired_total")).toBe(0);
    expect(valueOf("pawl_log_bytes")).toBeGreaterThan(60_000);
    await report(mine, ref);
  });
});

describe("a report that asks for more", () => {
  const reportFor = (client: TokenClient, ref: TaskRef, lease_id: string) =>
    client.call("report", {
      body: {
        worker_id: "w",
        code_version: null,
        results: [{ ...ref, outcome: "SUCCEEDED" as const }],
        released_leases: [],
        claim: { lease_id, slots: 5, assets: ["b"] },
      },
    });

  test("I37: gets the next tasks with its answer, under a lease of its own", async () => {
    const { ref } = await claimed(mine, "b");
    const { run_id } = await admin.call("requestRun", { body: { assets: ["b"] } });
    const lease_id = `lease-${++leases}`;
    const { results, claimed: more } = await reportFor(mine, ref, lease_id);
    expect(results).toEqual(["recorded"]);
    expect(more).toMatchObject({ lease_id, groups: [{ run_id, tasks: [{ attempt: 1 }] }] });
    const [group] = more?.groups ?? [];
    const next = { run_pos: group?.run_pos ?? 0, task_key: 0, attempt: 1 };
    // Whoever did not hear the answer asks by itself, and gets the same.
    expect(await claimAs(mine, lease_id, "b")).toEqual(next);
    expect(await beat(mine, lease_id, next)).toMatchObject({ renewed: [lease_id], lost: [] });
    const { results: ended, claimed: nothing } = await reportFor(mine, next, `lease-${++leases}`);
    expect(ended).toEqual(["recorded"]);
    expect(nothing?.groups).toEqual([]);
  });
});

describe("a token that ends", () => {
  const gone = { code: "UNAUTHORIZED" };
  const waiting = { worker_id: "w", slots: 1, wait_ms: 10_000 };
  /** Why a claim was refused, or what it got. */
  const endOf = (claim: Promise<unknown>): Promise<unknown> => claim.catch((error) => error);
  const revoke = ({ tokenId }: TokenClient) =>
    admin.call("revokeToken", { params: { token_id: tokenId } });
  /** Asks until there is a task: a worker whose older lease ran out gets an empty answer first. */
  const claimedAtLast = async (client: Pick<TokenClient, "call">, lease_id: string) => {
    for (;;) {
      const body = { ...waiting, lease_id, assets: ["a"], code_version: null };
      const { groups } = await client.call("claim", { body });
      if (groups.length > 0) return groups;
    }
  };

  test("I77: gets no task for a claim that waits, which the next one gets", async () => {
    for (const end of ["revoked", "expired"] as const) {
      const { token, token_id } = await admin.call("createToken", {
        body: { principal: "fleet", verbs: ["work"], expires_in_seconds: 3_600 },
      });
      const client = createClient({ url: api.url, token, fetch: checkedFetch, retryDelaysMs: [] });
      const ended = endOf(claimedAtLast(client, `${end}-lease`));
      await vi.waitFor(() => expect(api.engines[0].status().waiting_claims).toBe(1), WAIT);
      if (end === "revoked") await admin.call("revokeToken", { params: { token_id } });
      else api.jump(3_600_000);
      const { ref, run_id } = await claimed(mine);
      expect(await ended).toMatchObject(gone);
      const events = await eventsOf(run_id);
      const started = events.filter(({ type }) => type === "TasksStarted");
      expect(started.map(({ actor }) => actor.token_id)).toEqual([mine.tokenId]);
      await report(mine, ref);
    }
  });

  test("I77: gets no look for a claim that waits", async () => {
    const client = await api.clientOf(0, ["work"], "fleet");
    const looks = client.call("claimProbes", { body: { ...waiting, sensors: ["late"] } });
    const actor = { principal: "fleet", token_id: client.tokenId };
    const heads = api.engines[0].claimHeads({ ...waiting, syncs: ["late"] }, undefined, actor);
    const ended = [looks, heads].map(endOf);
    await vi.waitFor(() => expect(api.engines[0].claimedSensors().has("late")).toBe(true), WAIT);
    await revoke(client);
    const spec = { kind: "sensor", name: "late", mode: "poll" } as const;
    const specs = [spec, { ...TRANSFERS, name: "late" }];
    await admin.call("publishDefinitions", { body: { specs } });
    expect(await Promise.all(ended)).toMatchObject([gone, gone]);
    const { probes } = await mine.call("claimProbes", { body: { ...waiting, sensors: ["late"] } });
    expect(probes).toMatchObject([{ attempt: 1 }]);
    const others = await mine.call("claimHeads", { body: { ...waiting, syncs: ["late"] } });
    expect(others.heads).toMatchObject([{ attempt: 1 }]);
  });

  test("I77: is heard no more, whatever a worker may say", async () => {
    const client = await api.clientOf(0, ["work"], "fleet");
    const { lease_id, run_id, ref } = await claimed(client);
    await revoke(client);
    await expect(report(client, ref, [lease_id])).rejects.toMatchObject(gone);
    await expect(beat(client, lease_id, ref)).rejects.toMatchObject(gone);
    const headers = { authorization: `Bearer ${client.token}` };
    for (const { method, path, verb } of Object.values(OPERATIONS)) {
      if (verb !== "work") continue;
      const answer = await api.send(method, path, { headers, body: {} });
      expect([path, answer.status]).toEqual([path, 401]);
      expect(await answer.json()).toMatchObject(gone);
    }
    const { items } = await admin.call("listTasks", { params: { run_id } });
    expect(items).toMatchObject([{ state: "RUNNING", attempt: 1 }]);
  });

  test("I77: is heard no more when it ends while a body is on its way", async () => {
    const client = await api.clientOf(0, ["work"], "fleet");
    const { run_id, ref } = await claimed(client, "b");
    const result = { ...ref, outcome: "SUCCEEDED" };
    const text = JSON.stringify({
      worker_id: "w",
      code_version: null,
      results: [result],
      released_leases: [],
    });
    // The body is asked for once it is known who sends it; only then does the token end.
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          await revoke(client);
          controller.enqueue(new TextEncoder().encode(text));
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    const { method, path } = OPERATIONS.report;
    const headers = {
      authorization: `Bearer ${client.token}`,
      "content-type": "application/json",
      host: new URL(api.url).host,
    };
    const request = new Request(`${api.url}${path}`, { method, headers, body, duplex: "half" });
    const answer = await api.app.fetch(request);
    expect(answer.status).toBe(401);
    const { items } = await admin.call("listTasks", { params: { run_id } });
    expect(items).toMatchObject([{ state: "RUNNING", attempt: 1 }]);
  });
});
