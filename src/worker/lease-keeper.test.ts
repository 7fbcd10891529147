import { describe, expect, test } from "vitest";
import { ManualClock } from "../../test/manual-clock.ts";
import { PawlError } from "../kernel/errors.ts";
import type { HeartbeatAnswer, HeartbeatRequest } from "../work/run/protocol.ts";
import { type KeptLease, LeaseKeeper, type LeaseNews } from "./lease-keeper.ts";

const TTL_MS = 15_000;

type Beat = HeartbeatRequest & { at: number };

function keeperWith(answer: (request: Beat) => Partial<HeartbeatAnswer> | Error | "never") {
  const clock = new ManualClock();
  const beats: Beat[] = [];
  const news: (LeaseNews & { at: number })[] = [];
  const keeper = new LeaseKeeper({
    connection: {
      heartbeat(request) {
        const beat = { ...request, at: clock.now() };
        beats.push(beat);
        const given = answer(beat);
        if (given === "never") return new Promise(() => undefined);
        if (given instanceof Error) return Promise.reject(given);
        const agreed = { ttl_ms: TTL_MS, renewed: request.leases, lost: [], cancelled: [] };
        return Promise.resolve({ ...agreed, ...given });
      },
    },
    workerId: "worker",
    clock,
    random: () => 1,
    tell: (each) => news.push({ ...each, at: clock.now() }),
  });
  return { clock, beats, news, keeper };
}

function lease(leaseId: string, ids: readonly number[], more: Partial<KeptLease> = {}): KeptLease {
  const tasks = ids.map((id) => ({ id, ref: ref(id), timeoutMs: 3_600_000, stallAfterMs: null }));
  return { leaseId, ttlMs: TTL_MS, isFresh: true, tasks, ...more };
}

function ref(id: number) {
  return { run_pos: 7, task_key: id, attempt: 1 };
}

const away = new PawlError("SERVER_UNREACHABLE", "Nobody is there.");

describe("LeaseKeeper", () => {
  test("sends nothing for a lease that is settled within a third of its life", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    keeper.hold(lease("a", [1, 2]));
    await clock.advance(4_000);
    keeper.settle([1, 2]);
    await clock.advance(60_000);

    expect(beats).toEqual([]);
  });

  test("renews every third of the life with the tasks that are not settled", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    keeper.hold(lease("a", [1, 2]));
    await clock.advance(5_000);
    keeper.settle([1]);
    await clock.advance(10_000);

    expect(beats.map(({ at, tasks }) => [at, tasks.map((each) => each.task_key)])).toEqual([
      [5_000, [1, 2]],
      [10_000, [2]],
      [15_000, [2]],
    ]);
  });

  test("renews at once what may have been granted some time ago", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    keeper.hold(lease("a", [1], { isFresh: false }));
    await clock.advance(0);

    expect(beats.map(({ at }) => at)).toEqual([0]);
  });

  test("I42: says that tasks are unconfirmed at two thirds of the life, and lets them go", async () => {
    const { clock, beats, news, keeper } = keeperWith(() => away);
    keeper.hold(lease("a", [1, 2]));
    await clock.advance(9_999);
    expect(news).toEqual([]);
    expect(beats.length).toBeGreaterThan(3);

    await clock.advance(1);
    expect(news).toEqual([{ type: "unconfirmed", ids: [1, 2], at: 10_000 }]);
    const sent = beats.length;
    await clock.advance(60_000);
    expect(beats.length).toBe(sent);
  });

  test("goes on after the server was away for less than a third", async () => {
    const { clock, news, keeper } = keeperWith(({ at }) => (at < 9_000 ? away : {}));
    keeper.hold(lease("a", [1]));
    await clock.advance(60_000);

    expect(news).toEqual([]);
  });

  test("asks again when an answer does not come", async () => {
    const { clock, beats, news, keeper } = keeperWith(({ at }) => (at < 6_000 ? "never" : {}));
    keeper.hold(lease("a", [1]));
    await clock.advance(12_000);

    expect(beats.map(({ at }) => at)).toEqual([5_000, 7_500]);
    expect(news).toEqual([]);
  });

  test("tells of a lease that was not renewed, of lost tasks and of cancelled ones", async () => {
    const { clock, news, keeper } = keeperWith(() => ({
      renewed: ["b"],
      lost: [ref(3)],
      cancelled: [ref(4)],
    }));
    keeper.hold(lease("a", [1, 2]));
    keeper.hold(lease("b", [3, 4, 5]));
    await clock.advance(5_000);

    expect(news).toEqual([
      { type: "lost", ids: [1, 2, 3], at: 5_000 },
      { type: "cancelled", ids: [4], at: 5_000 },
    ]);
  });

  test("sends progress within a second, and once", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    keeper.hold(lease("a", [1]));
    await clock.advance(100);
    keeper.progress(1, { done: 1, total: 3, note: null });
    await clock.advance(1_000);
    keeper.progress(1, { done: 2, total: 3, note: null });
    keeper.progress(1, { done: 3, total: 3, note: "last" });
    await clock.advance(2_000);

    const sent = beats.flatMap(({ tasks }) => tasks.map(({ progress }) => progress?.done));
    expect(sent).toEqual([1, 3]);
  });

  test("does not renew a task for long after its timeout", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    const task = { id: 1, ref: ref(1), timeoutMs: 20_000, stallAfterMs: null };
    keeper.hold(lease("a", [], { tasks: [task] }));
    await clock.advance(600_000);

    expect(beats.at(-1)?.at).toBeLessThanOrEqual(50_000);
  });

  test("does not renew a task for long after it stalled, but while it gets on", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    const task = { id: 1, ref: ref(1), timeoutMs: 3_600_000, stallAfterMs: 20_000 };
    keeper.hold(lease("a", [], { tasks: [task] }));
    await clock.advance(40_000);
    keeper.progress(1, null);
    await clock.advance(600_000);

    expect(beats.at(-1)?.at).toBeLessThanOrEqual(90_000);
    expect(beats.at(-1)?.at).toBeGreaterThan(80_000);
  });

  test("I37: renews a look as it renews tasks, and tells when it is somebody else's", async () => {
    const look = { probe_id: "sensor:a", attempt: 3 };
    let isLost = false;
    const { clock, beats, news, keeper } = keeperWith(() => (isLost ? { lost_looks: [look] } : {}));
    keeper.hold(lease("a", [1]));
    keeper.holdLook({ id: 2, look, ttlMs: TTL_MS, timeoutMs: 60_000 });
    await clock.advance(5_000);
    isLost = true;
    await clock.advance(5_000);

    expect(beats).toMatchObject([
      { leases: ["a"], tasks: [ref(1)], looks: [look] },
      { leases: ["a"], tasks: [ref(1)], looks: [look] },
    ]);
    expect(news).toMatchObject([{ type: "lost", ids: [2] }]);
    await clock.advance(5_000);
    expect(beats.at(-1)).not.toHaveProperty("looks");
  });

  test("I37: does not keep a look for longer than it may take", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    const look = { probe_id: "sensor:a", attempt: 3 };
    keeper.holdLook({ id: 2, look, ttlMs: TTL_MS, timeoutMs: 60_000 });
    await clock.advance(600_000);

    expect(beats.at(-1)?.at).toBeLessThanOrEqual(90_000);
  });

  test("tells when the server does not want this worker", async () => {
    const refusal = new PawlError("UNAUTHORIZED", "The token is revoked.");
    const { clock, news, keeper } = keeperWith(() => refusal);
    keeper.hold(lease("a", [1]));
    await clock.advance(5_000);

    expect(news[0]).toMatchObject({ type: "refused", code: "UNAUTHORIZED" });
  });

  test("splits what is too much for one message", async () => {
    const { clock, beats, keeper } = keeperWith(() => ({}));
    for (let at = 0; at < 9; at++) {
      keeper.hold(
        lease(
          `lease ${at}`,
          Array.from({ length: 500 }, (_, id) => at * 500 + id),
        ),
      );
    }
    await clock.advance(5_000);

    expect(beats.map(({ tasks }) => tasks.length)).toEqual([2_000, 2_000, 500]);
  });
});
