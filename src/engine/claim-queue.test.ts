import { describe, expect, test } from "vitest";
import { steadyEnvironment } from "../../test/ledger/steady-environment.ts";
import { addMs, instantOf } from "../kernel/instant.ts";
import { LOCAL_ACTOR } from "../work/envelope.ts";
import { ALL_LENGTH_MAX, ClaimQueue, HELD_LENGTH_MAX, HeardNames } from "./claim-queue.ts";

const names = (count: number, prefix: string): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`.padEnd(450, "x"));

function queueOf() {
  const queue = new ClaimQueue(steadyEnvironment(1));
  let leases = 0;
  const wait = (assets: string[], token_id: string | null = null) =>
    queue.wait(
      {
        worker_id: "w",
        lease_id: `lease-${++leases}`,
        slots: 1,
        assets,
        code_version: null,
        wait_ms: 10_000,
      },
      { ...LOCAL_ACTOR, token_id },
      0,
      undefined,
    );
  return { queue, wait };
}

describe("claims that wait", () => {
  test("I64: keep the names of a fleet once, however many of it wait", () => {
    const { queue, wait } = queueOf();
    for (let worker = 0; worker < 300; worker++) void wait(names(2_000, "a"));
    const lists = new Set(queue.worthTrying().map(({ request }) => request.assets));
    expect(queue.size).toBe(300);
    expect(lists.size).toBe(1);
  });

  test("I64: take no more names from one token than its share, and go on for others", () => {
    const { queue, wait } = queueOf();
    for (const prefix of ["1-", "2-", "3-", "4-"]) void wait(names(2_000, prefix), "flood");
    const more = () => wait(names(2_000, "5-"), "flood");
    expect(more).toThrow(expect.objectContaining({ code: "OVERLOADED" }));
    void wait(names(2_000, "honest"), "honest");
    expect(queue.unserved().some(({ actor }) => actor.token_id === "honest")).toBe(true);

    for (const claim of queue.unserved()) claim.resolve({ groups: [] });
    void wait(names(2_000, "again"), "flood");
    expect(queue.size).toBe(1);
  });

  test("I37: are tried once before their time is up, also when they have none", async () => {
    const environment = steadyEnvironment(1);
    const timers: (() => void)[] = [];
    const queue = new ClaimQueue({
      ...environment,
      timer: (_ms, callback) => {
        timers.push(callback);
        return () => undefined;
      },
    });
    const request = { worker_id: "w", slots: 1, assets: ["a"], code_version: null, wait_ms: 0 };
    let answered = 0;
    const ask = (lease_id: string): void =>
      void queue.wait({ ...request, lease_id }, LOCAL_ACTOR, 0, undefined).then(() => answered++);
    ask("first");
    for (const timer of timers.splice(0)) timer();
    const [claim] = queue.worthTrying();
    expect(claim).toMatchObject({ leaseKey: expect.stringContaining("first") });
    if (claim !== undefined) queue.wasEmpty(claim);
    await Promise.resolve();
    expect(answered).toBe(1);

    // What is known to be nothing need not be tried again.
    ask("second");
    for (const timer of timers.splice(0)) timer();
    await Promise.resolve();
    expect(answered).toBe(2);
    expect(queue.size).toBe(0);
  });

  test("I98: end in time when one like them was tried, and the commit had no room for them", async () => {
    const environment = steadyEnvironment(1);
    const timers: (() => void)[] = [];
    const queue = new ClaimQueue({
      ...environment,
      timer: (_ms, callback) => {
        timers.push(callback);
        return () => undefined;
      },
    });
    const request = { worker_id: "w", slots: 1, assets: ["a"], code_version: null, wait_ms: 0 };
    const answered: string[] = [];
    const ask = (lease_id: string): void =>
      void queue.wait({ ...request, lease_id }, LOCAL_ACTOR, 0, undefined).then(() => {
        answered.push(lease_id);
      });
    for (const lease of ["tried", "late", "patient"]) ask(lease);
    timers[1]?.();
    const [claim] = queue.worthTrying();
    if (claim !== undefined) queue.wasEmpty(claim);
    await Promise.resolve();
    expect(answered).toEqual(["late"]);

    timers[2]?.();
    await Promise.resolve();
    expect(answered).toEqual(["late", "patient"]);
  });
});

describe("workers that drain for suspects", () => {
  test("I78: are as many as suspects wait, and keep their turn while they ask", () => {
    const environment = steadyEnvironment(1);
    let now = 0;
    const queue = new ClaimQueue({ ...environment, elapsedMs: () => now });
    const claimOf = (worker_id: string) => {
      const request = {
        worker_id,
        lease_id: worker_id,
        slots: 1,
        assets: ["a"],
        alone: false,
        code_version: null,
        wait_ms: 10_000,
      };
      void queue.wait(request, LOCAL_ACTOR, 0, undefined);
      const claim = queue.unserved().find(({ leaseKey }) => leaseKey.endsWith(worker_id));
      if (claim === undefined) throw new Error("It does not wait.");
      return claim;
    };
    const [one, two] = [claimOf("one"), claimOf("two")];
    expect(queue.drainedMs(one, 1)).toBe(0);
    expect(queue.drainedMs(two, 1)).toBeNull();
    now = 10_000;
    expect(queue.drainedMs(one, 1)).toBe(10_000);
    expect(queue.drainedMs(two, 2)).toBe(0);

    queue.endTurn(one);
    expect(queue.drainedMs(one, 2)).toBe(0);
    // One that does not ask any more has gone.
    now = 26_000;
    expect(queue.drainedMs(two, 1)).toBe(0);
    expect(queue.drainedMs(one, 1)).toBeNull();
  });
});

const NOW = instantOf(Date.UTC(2026, 2, 10));
const long = (count: number, prefix: string): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`.padEnd(450, "x"));

/** How many characters of names are remembered. */
function held(heard: HeardNames): number {
  return [...heard.all().keys()].reduce((sum, name) => sum + name.length, 0);
}

describe("HeardNames", () => {
  test("remembers names for a minute after they were heard last", () => {
    const heard = new HeardNames();
    heard.hear("t", ["a", "b"], NOW);
    heard.hear("t", ["b"], addMs(NOW, 30_000));
    expect(heard.all()).toEqual(
      new Map([
        ["a", NOW],
        ["b", addMs(NOW, 30_000)],
      ]),
    );
    heard.hear("t", [], addMs(NOW, 61_000));
    expect([...heard.all().keys()]).toEqual(["b"]);
    heard.hear("u", ["c"], addMs(NOW, 200_000));
    expect([...heard.all().keys()]).toEqual(["c"]);
  });

  test("I64: keeps no more than its share of one token, and forgets none of the others for it", () => {
    const heard = new HeardNames();
    heard.hear("honest", ["sales"], NOW);
    for (let request = 0; request < 50; request++) {
      heard.hear("flood", long(10_000, `${request}-`), NOW);
    }
    expect(held(heard)).toBeLessThanOrEqual(HELD_LENGTH_MAX);
    expect(heard.all().has("sales")).toBe(true);
  });

  test("I64: keeps no more of all tokens than there is room for", () => {
    const heard = new HeardNames();
    for (let token = 0; token < 20; token++) heard.hear(`t${token}`, long(4_000, `${token}-`), NOW);
    expect(held(heard)).toBeLessThanOrEqual(ALL_LENGTH_MAX);
    expect(heard.all().size).toBeGreaterThan(10_000);
  });
});
