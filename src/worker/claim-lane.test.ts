import { describe, expect, test } from "vitest";
import { ManualClock } from "../../test/manual-clock.ts";
import { PawlError } from "../kernel/errors.ts";
import type {
  ClaimAlong,
  ClaimAnswer,
  ClaimedGroup,
  ClaimRequest,
  ReportAnswer,
} from "../work/run/protocol.ts";
import { ClaimLane } from "./claim-lane.ts";
import { TaskAttempt } from "./tasks/attempt.ts";
import { ClaimRides, Solitude, TaskSlots } from "./tasks/task-slots.ts";

const TTL_MS = 15_000;
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** A task that never began. */
const TASK = new TaskAttempt(
  1,
  { leaseId: "l", ttlMs: TTL_MS, unreported: 1, deadAt: null, isForsaken: false },
  groupOf(1),
  { task_key: 0, attempt: 1, partition_keys: [], checkpoint: null },
  {
    clock: new ManualClock(),
    abandonMs: 0,
    output: "keep-and-show",
    progressed: () => undefined,
    checkpoint: () => Promise.resolve(),
    log: () => undefined,
    readUpstream: () => Promise.reject(new Error("nothing is read")),
    ended: () => undefined,
  },
);

function groupOf(count: number): ClaimedGroup {
  const tasks = Array.from({ length: count }, (_, task_key) => ({
    task_key,
    attempt: 1,
    partition_keys: [],
    checkpoint: null,
  }));
  return {
    run_id: "run",
    run_pos: 1,
    run_key: "manual:1",
    backfill_id: null,
    asset_key: "a",
    spec_hash: "0".repeat(64),
    batch: false,
    config: {},
    labels: {},
    timeout_ms: 60_000,
    stall_after_ms: null,
    tasks,
  };
}

const answerTo = ({ lease_id }: ClaimAlong, count: number): ClaimAnswer => ({
  lease_id,
  ttl_ms: TTL_MS,
  groups: count === 0 ? [] : [groupOf(count)],
  takes_claims_with_reports: true,
});

/** A lane whose claims are answered, and whose tasks end, when a test says so. */
function claimingLane(concurrency: number) {
  const clock = new ManualClock();
  const rides = new ClaimRides();
  const held = { open: 0 };
  const solitude = new Solitude(clock, () => held.open);
  const lane = new TaskSlots({ concurrency, isPatient: true }, clock, () => undefined);
  const accepted: string[] = [];
  const declined: string[] = [];
  const failures: unknown[] = [];
  /** Claims by themselves that are not answered yet. */
  const asked: { request: ClaimRequest; answer: (count: number) => Promise<void> }[] = [];
  const take = (list: string[]) => (_lane: TaskSlots, answer: ClaimAnswer) => {
    list.push(answer.lease_id);
    const count = answer.groups.reduce((sum, { tasks }) => sum + tasks.length, 0);
    held.open += count;
    lane.opened(count);
  };
  let leases = 0;
  const claims = new ClaimLane(
    { lane, assets: ["a"], isUrgent: false },
    {
      connection: {
        claim: (request) =>
          new Promise((resolve) => {
            const answer = async (count: number): Promise<void> => {
              resolve(answerTo(request, count));
              await clock.advance(0);
            };
            asked.push({ request, answer });
          }),
      },
      runner: { accept: take(accepted), decline: take(declined), solitude },
      workerId: "w",
      codeVersion: null,
      logger: quiet,
      clock,
      random: () => 1,
      rides,
      newLeaseId: () => `lease-${++leases}`,
      failed: (error) => failures.push(error),
    },
  );
  const stop = new AbortController();
  const ended = claims.claimUntil(stop.signal);
  /** So many tasks end, and a report of them leaves; says what claim went with it, and answers it. */
  const report = async (count: number) => {
    for (let task = 0; task < count; task++) {
      held.open--;
      lane.ended(TASK);
    }
    const { promise, resolve, reject } = Promise.withResolvers<ReportAnswer>();
    const sent: { claim?: ClaimAlong } = {};
    const sending = rides.along((claim) => {
      Object.assign(sent, claim);
      return promise;
    });
    sending.catch(() => undefined);
    await clock.advance(0);
    const { claim } = sent;
    const answer = async (got: number, more: Partial<ClaimAnswer> = {}): Promise<void> => {
      const claimed = claim === undefined ? {} : { claimed: { ...answerTo(claim, got), ...more } };
      resolve({ results: [], ...claimed });
      await clock.advance(0);
    };
    const lose = async (): Promise<void> => {
      reject(new PawlError("SERVER_UNREACHABLE", "The answer is lost."));
      await clock.advance(0);
    };
    return { claim, answer, lose };
  };
  return { clock, asked, accepted, declined, failures, report, stop, ended };
}

/** A lane of so many slots with as many tasks, which take so long that nothing is held ahead. */
async function busyLane(concurrency: number) {
  const world = claimingLane(concurrency);
  await world.clock.advance(0);
  await world.asked.shift()?.answer(concurrency);
  await world.clock.advance(10_000_000);
  return world;
}

describe("ClaimLane", () => {
  test("I97: has a claim go with each of two reports, for what is free beside the other", async () => {
    const { report, asked, accepted } = await busyLane(400);
    const first = await report(250);
    expect(first.claim).toMatchObject({ slots: 250, alone: false });
    const second = await report(100);
    expect(second.claim).toMatchObject({ slots: 100, alone: false });
    expect(second.claim?.lease_id).not.toBe(first.claim?.lease_id);
    expect((await report(10)).claim).toBeUndefined();

    await second.answer(100);
    await first.answer(250);
    expect(accepted.slice(1)).toEqual([second.claim?.lease_id, first.claim?.lease_id]);
    expect(asked).toEqual([]);
  });

  test("I97: claims beside a report by itself when nothing is left to do, and does not wait", async () => {
    const { clock, report, asked } = await busyLane(1_000);
    const first = await report(1_000);
    expect(first.claim?.slots).toBe(500);
    const [beside] = asked.splice(0);
    expect(beside?.request).toMatchObject({ slots: 500, wait_ms: 0, alone: false });
    // Nothing was ready: then it waits for the other answer before it asks again.
    await beside?.answer(0);
    await clock.advance(1_000);
    expect(asked).toEqual([]);
    await first.answer(400);
    await clock.advance(10);
    expect(asked[0]?.request).toMatchObject({ slots: 500, wait_ms: 20_000 });
  });

  test("I97: leaves the claim to the report where something is still to do", async () => {
    const { clock, report, asked } = await busyLane(1_000);
    await report(999);
    await clock.advance(1_000);
    expect(asked).toEqual([]);
    expect((await report(0)).claim?.slots).toBe(499);
  });

  test("I97: leaves few slots to one claim", async () => {
    const { clock, report, asked } = await busyLane(16);
    expect((await report(8)).claim).toMatchObject({ slots: 8 });
    expect((await report(8)).claim).toBeUndefined();
    await clock.advance(1_000);
    expect(asked).toEqual([]);
  });

  test("I97: claims again when answers bring less than was asked for, though no task has ended since", async () => {
    const { clock, report, asked } = await busyLane(400);
    const first = await report(250);
    const second = await report(150);
    await first.answer(1);
    await second.answer(0);
    await clock.advance(10);
    expect(asked[0]?.request.slots).toBe(399);
  });

  test("I97: asks again under the same leases when both answers are lost", async () => {
    const { report, asked, accepted } = await busyLane(400);
    const first = await report(250);
    const second = await report(150);
    await first.lose();
    await second.lose();
    expect(asked.map(({ request }) => request.lease_id)).toEqual([
      first.claim?.lease_id,
      second.claim?.lease_id,
    ]);
    for (const { answer } of asked.splice(0)) await answer(10);
    expect(accepted).toHaveLength(3);
  });

  test("I65: ends once it knows what both claims got that it let go, and gives that back", async () => {
    const { clock, report, asked, declined, stop, ended } = await busyLane(400);
    const first = await report(250);
    const second = await report(150);
    stop.abort();
    await first.answer(250);
    expect(declined).toEqual([first.claim?.lease_id]);
    await clock.advance(250);
    const [again] = asked;
    expect(again?.request).toMatchObject({ lease_id: second.claim?.lease_id, assets: [] });
    await again?.answer(150);
    await ended;
    expect(declined).toHaveLength(2);
  });

  test("I78: takes nothing more beside a claim that is told that a suspect waits", async () => {
    const { clock, report, asked } = await busyLane(400);
    const first = await report(200);
    const second = await report(100);
    await first.answer(0, { suspects_wait: true });
    // What the other brings does not end the wait.
    await second.answer(50);
    expect((await report(100)).claim).toBeUndefined();
    expect(asked).toEqual([]);
    await report(50);
    expect(asked).toEqual([]);
    await clock.advance(1_000);
    expect(asked[0]?.request).toMatchObject({ slots: 400, alone: true });
  });
});
