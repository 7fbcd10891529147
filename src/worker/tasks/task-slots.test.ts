import { describe, expect, test } from "vitest";
import type { Clock } from "../outbox.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { ClaimAnswer } from "../../work/run/protocol.ts";
import { ClaimPace, ClaimRides, Solitude } from "./task-slots.ts";

function paceAfter(finished: number, ms: number): ClaimPace {
  const pace = new ClaimPace(8, 0);
  for (let round = 1; round <= 10; round++) {
    for (let task = 0; task < finished; task++) pace.taskFinished();
    pace.claimed(round * ms);
  }
  return pace;
}

describe("ClaimPace", () => {
  test("holds nothing ahead while tasks take long", () => {
    expect(new ClaimPace(8, 0).wanted).toBe(8);
    expect(paceAfter(8, 60_000).wanted).toBe(8);
  });

  test("holds a tenth of a second ahead of short tasks, within a bound", () => {
    expect(paceAfter(50, 50).wanted).toBeGreaterThan(100);
    expect(paceAfter(50, 50).wanted).toBeLessThanOrEqual(108);
    expect(paceAfter(10_000, 10).wanted).toBe(1_008);
  });

  test("holds nothing ahead any more when tasks turn out to take longer", () => {
    const pace = paceAfter(50, 50);
    pace.slowDown();

    expect(pace.wanted).toBe(8);
  });
});

describe("ClaimRides", () => {
  const claim = { lease_id: "l", slots: 1, assets: ["a"] };
  const claimed: ClaimAnswer = { lease_id: "l", ttl_ms: 15_000, groups: [] };

  /** Somebody who waits for a ride, on a server that takes them. */
  function waiting(make = () => claim) {
    const rides = new ClaimRides();
    rides.isTaken = true;
    const told: (ClaimAnswer | null)[] = [];
    const sent: object[] = [];
    const callOff = rides.wait(make, (answer) => told.push(answer));
    const send = (refusal: PawlError | null) =>
      rides.along(async (along) => {
        sent.push(along);
        if (refusal !== null && "claim" in along) throw refusal;
        return "claim" in along ? { results: [], claimed } : { results: [] };
      });
    return { rides, told, sent, send, callOff };
  }

  test("go with one report, and with none that they are called off for", async () => {
    const { told, sent, send } = waiting();
    await send(null);
    await send(null);
    expect(sent).toEqual([{ claim }, {}]);
    expect(told).toEqual([claimed]);
    const other = waiting();
    other.callOff();
    await other.send(null);
    expect(other.sent).toEqual([{}]);
  });

  test("are not sent to a server that does not know of them", async () => {
    const { rides, sent, send } = waiting();
    rides.isTaken = false;
    await send(null);
    expect(sent).toEqual([{}]);
  });

  test("I65: cost no result when they are refused", async () => {
    const { rides, told, sent, send } = waiting();
    expect(await send(new PawlError("INPUT_INVALID", "No claim here."))).toEqual({ results: [] });
    expect(sent).toEqual([{ claim }, {}]);
    expect(told).toEqual([null]);
    expect(rides.isTaken).toBe(false);
  });

  test("are told that nothing is known of them when the report failed", async () => {
    const { told, sent, send } = waiting();
    const lost = new PawlError("SERVER_UNREACHABLE", "The answer is lost.");
    await expect(send(lost)).rejects.toBe(lost);
    expect(sent).toEqual([{ claim }]);
    expect(told).toEqual([null]);
  });
});

/** A process that holds so much, with a clock that stands until it is told to go on. */
function processWith(open: number) {
  const timers = new Set<{ at: number; callback: () => void }>();
  const held = { open, now: 0 };
  const clock: Clock = {
    now: () => held.now,
    after(ms, callback) {
      const timer = { at: held.now + ms, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
  };
  const pass = (ms: number): void => {
    held.now += ms;
    for (const timer of [...timers].filter(({ at }) => at <= held.now)) {
      timers.delete(timer);
      timer.callback();
    }
  };
  const solitude = new Solitude(clock, () => held.open);
  const { signal } = new AbortController();
  const lane = {};
  /** Whether what was awaited is over; it is told in a later turn. */
  const isOver = async (wait: Promise<void>): Promise<boolean> => {
    let over = false;
    void wait.then(() => (over = true));
    await new Promise((resolve) => setImmediate(resolve));
    return over;
  };
  return { held, pass, solitude, signal, lane, isOver };
}

describe("Solitude", () => {
  test("I78: keeps all others from taking work while one drains, until that is over", async () => {
    const { held, solitude, signal, lane, isOver } = processWith(1);
    const drained = solitude.drain(lane, signal);
    const other = solitude.untilFree({}, signal);
    expect(await isOver(drained)).toBe(false);
    expect(await isOver(solitude.untilFree(lane, signal))).toBe(true);

    held.open = 0;
    solitude.changed();
    expect(await isOver(drained)).toBe(true);
    expect(await isOver(other)).toBe(false);
    solitude.undrain(lane);
    expect(await isOver(other)).toBe(true);
  });

  test("I37, I78: lets one of two drain that are told to, and never both wait for each other", async () => {
    const { solitude, signal, lane, isOver } = processWith(0);
    const other = {};
    await solitude.drain(lane, signal);
    void solitude.drain(other, signal);
    expect(await isOver(solitude.untilFree(lane, signal))).toBe(true);
    const waiting = solitude.untilFree(other, signal);
    solitude.undrain(other);
    expect(await isOver(waiting)).toBe(false);
    solitude.undrain(lane);
    expect(await isOver(waiting)).toBe(true);
  });

  test("I78: has the second that is told to drain wait for the first, and ask again after a while", async () => {
    const { pass, solitude, signal, lane, isOver } = processWith(0);
    await solitude.drain(lane, signal);
    const second = solitude.drain({}, signal);
    expect(await isOver(second)).toBe(false);
    pass(1_000);
    expect(await isOver(second)).toBe(true);
    const fourth = solitude.drain({}, signal);
    expect(await isOver(fourth)).toBe(false);
    solitude.undrain(lane);
    expect(await isOver(fourth)).toBe(true);
  });

  test("I78: has who drains ask again after a while, whatever runs", async () => {
    const { pass, solitude, signal, lane, isOver } = processWith(1);
    const drained = solitude.drain(lane, signal);
    pass(1_000);
    expect(await isOver(drained)).toBe(true);
  });

  test("I78: keeps everybody waiting while a task is on trial, until it ends or has stood it", async () => {
    const { pass, solitude, signal, lane, isOver } = processWith(0);
    const first = {};
    solitude.try(first, 60_000);
    const waiting = solitude.untilFree(lane, signal);
    solitude.ended({});
    expect(await isOver(waiting)).toBe(false);
    solitude.ended(first);
    expect(await isOver(waiting)).toBe(true);

    solitude.try({}, 60_000);
    expect(await isOver(solitude.untilFree(lane, signal))).toBe(false);
    pass(60_000);
    expect(solitude.isTrial).toBe(false);
    expect(await isOver(solitude.untilFree(lane, signal))).toBe(true);
  });

  test("lets nobody wait for longer than told, nor in a worker that stops", async () => {
    const { pass, solitude, signal, lane, isOver } = processWith(0);
    solitude.try({}, 600_000);
    const look = solitude.untilFree(lane, signal, 60_000);
    pass(60_000);
    expect(await isOver(look)).toBe(true);
    expect(await isOver(solitude.untilFree(lane, AbortSignal.abort()))).toBe(true);
  });
});
