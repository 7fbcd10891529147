import { expect, test } from "vitest";
import { epochMsOf } from "../../src/kernel/instant.ts";
import type { NewProbe, Probe, ProbeClaim, Store } from "../../src/store/store.ts";
import { NOON } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const TTL_MS = 15_000;
const LATER = "2999-01-01T00:00:00.000Z";

/** The store's own time is after this one, and each of these is after the one before. */
const pastAt = (second: number): string => new Date(epochMsOf(NOON) + second * 1_000).toISOString();

function probe(given: Partial<NewProbe>): NewProbe {
  return { probe_id: "p1", kind: "poll", subject: "s1", due_at: NOON, value: null, ...given };
}

function claim(given: Partial<ProbeClaim>): ProbeClaim {
  return { kinds: ["poll"], subjects: null, limit: 100, ttlMs: TTL_MS, holder: null, ...given };
}

const idsOf = (probes: readonly Probe[]): string[] => probes.map(({ probe_id }) => probe_id);

/** Probes: written beside the ledger, leased from their own rows, ended behind a fence. */
export function probeCases({ store, ws }: Suite): void {
  const add = (...given: Partial<NewProbe>[]): Promise<void> =>
    store().addProbes(ws(), given.map(probe));
  const lease = (given: Partial<ProbeClaim> = {}): Promise<Probe[]> =>
    store().leaseProbes(ws(), claim(given));
  const probes = (...ids: string[]): Promise<Probe[]> =>
    store().read(ws(), (reader) => reader.probes(ids));
  const probesOf = (subject: string | null, limit = 100): Promise<string[]> =>
    store().read(ws(), async (reader) => idsOf(await reader.probesOf("poll", subject, limit)));

  test("adds probes that nobody has leased, and leaves those that are there", async () => {
    const value = { b: "é🙂 \"quoted\" \\ {a,'b'}", a: [1, null] };
    await add({ value }, { probe_id: "p2" }, { value: "the second of this id" });
    await lease({ limit: 1 });
    await add({ subject: "other", due_at: LATER, value: "later" }, { probe_id: "p3", value: 0 });
    const [first, ...rest] = (await probes("p1", "p2", "p3", "unknown")).toSorted((a, b) =>
      a.probe_id < b.probe_id ? -1 : 1,
    );
    expect(first).toMatchObject({ ...probe({ value }), attempt: 1 });
    expect(rest).toEqual([
      { ...probe({ probe_id: "p2" }), attempt: 0, leased_until: null, leased_by: null },
      { ...probe({ probe_id: "p3", value: 0 }), attempt: 0, leased_until: null, leased_by: null },
    ]);
    await store().addProbes(ws(), []);
    expect(await probes()).toEqual([]);
  });

  test("lists probes of a kind, and of a subject, those due soonest first", async () => {
    await add(
      { probe_id: "late", due_at: LATER },
      { probe_id: "b", due_at: pastAt(2) },
      { probe_id: "a", due_at: pastAt(2) },
      { probe_id: "other", due_at: pastAt(1), subject: "s2" },
      { probe_id: "message", kind: "message" },
    );
    expect(await probesOf(null)).toEqual(["other", "a", "b", "late"]);
    expect(await probesOf(null, 2)).toEqual(["other", "a"]);
    expect(await probesOf("s1")).toEqual(["a", "b", "late"]);
    expect(await probesOf("s1", 1)).toEqual(["a"]);
    expect(await probesOf("nobody")).toEqual([]);
    const behind = await store().read(ws(), async (reader) => {
      const [first] = await reader.probesOf("poll", "s1", 1);
      return idsOf(await reader.probesOf("poll", "s1", 100, first));
    });
    expect(behind).toEqual(["b", "late"]);
    const inside = await store().transact(ws(), (reader) => reader.probesOf("message", null, 1));
    expect(idsOf(inside)).toEqual(["message"]);
  });

  test("leases what is due, soonest first, by the store's clock and without an event", async () => {
    const dueNow = await store().now();
    await add(
      { probe_id: "now", due_at: dueNow },
      { probe_id: "b", due_at: pastAt(2), value: { seen: 7 } },
      { probe_id: "a", due_at: pastAt(3) },
      { probe_id: "later", due_at: LATER },
    );
    const before = epochMsOf(await store().now());
    const leased = await lease();
    const after = epochMsOf(await store().now());
    expect(leased).toMatchObject([
      { ...probe({ probe_id: "b", due_at: pastAt(2), value: { seen: 7 } }), attempt: 1 },
      { ...probe({ probe_id: "a", due_at: pastAt(3) }), attempt: 1 },
      { ...probe({ probe_id: "now", due_at: dueNow }), attempt: 1 },
    ]);
    for (const { leased_until } of leased) {
      expect(epochMsOf(leased_until ?? "") - TTL_MS).toBeGreaterThanOrEqual(before);
      expect(epochMsOf(leased_until ?? "") - TTL_MS).toBeLessThanOrEqual(after);
    }
    expect(await probes("a")).toEqual(leased.slice(1, 2));
    expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ pos: 0 });
  });

  test("leases no more than asked for, and nothing twice", async () => {
    const numbers = Array.from({ length: 60 }, (_, index) => index);
    // Many are due at the same time, so that the order rests on their ids as well.
    await add(
      ...numbers.map((number) => {
        return { probe_id: `p${number + 10}`, due_at: pastAt(Math.floor(number / 7)) };
      }),
    );
    expect(await lease({ limit: 0 })).toEqual([]);
    const rounds: Probe[][] = [];
    for (let round = 0; round < 8; round++) rounds.push(await lease({ limit: 8 }));
    expect(rounds.map(({ length }) => length)).toEqual([8, 8, 8, 8, 8, 8, 8, 4]);
    expect(idsOf(rounds.flat())).toEqual(numbers.map((number) => `p${number + 10}`));
    expect(await lease()).toEqual([]);
  });

  test("leases a probe again once its lease has run out", async () => {
    await add({});
    expect(await lease({ ttlMs: 0 })).toMatchObject([{ probe_id: "p1", attempt: 1 }]);
    expect(await lease()).toMatchObject([{ probe_id: "p1", attempt: 2 }]);
    expect(await lease()).toEqual([]);
  });

  test("I77: remembers who leased a probe, and renews it for nobody else", async () => {
    await add({});
    expect(await lease({ holder: "token-1" })).toMatchObject([{ leased_by: "token-1" }]);
    expect(await probes("p1")).toMatchObject([{ attempt: 1, leased_by: "token-1" }]);
    const renew = (leased_by: string | null): Promise<boolean[]> =>
      store().renewProbes(ws(), [{ probe_id: "p1", attempt: 1, leased_by }], TTL_MS);
    expect([await renew("token-2"), await renew(null), await renew("token-1")].flat()).toEqual([
      false,
      false,
      true,
    ]);
  });

  test("I37: keeps a lease for as long as it is renewed behind its fence", async () => {
    await add({}, { probe_id: "p2", due_at: pastAt(5) }, { probe_id: "p3", due_at: LATER });
    const renew = (...fences: [string, number][]): Promise<boolean[]> => {
      const given = fences.map(([probe_id, attempt]) => ({ probe_id, attempt, leased_by: null }));
      return store().renewProbes(ws(), given, TTL_MS);
    };
    expect(idsOf(await lease({ ttlMs: 0 }))).toEqual(["p1", "p2"]);
    const before = epochMsOf(await store().now());
    // Of an old lease, of one that is not there, of one that is not leased; one that ran out counts.
    expect(await renew(["p1", 1], ["p2", 7], ["p3", 1], ["p9", 1], ["p1", 1])).toEqual([
      true,
      false,
      false,
      false,
      true,
    ]);
    const [renewed] = await probes("p1");
    expect(renewed).toMatchObject({ attempt: 1 });
    expect(epochMsOf(renewed?.leased_until ?? "") - TTL_MS).toBeGreaterThanOrEqual(before);
    expect(idsOf(await lease())).toEqual(["p2"]);
    await store().settleProbes(ws(), [{ ...probe({}), attempt: 1, due_at: LATER }]);
    expect(await renew(["p1", 1])).toEqual([false]);
    expect(await renew()).toEqual([]);
  });

  test("leases of the kinds and about the subjects that are named", async () => {
    await add(
      { probe_id: "poll 1", due_at: pastAt(4) },
      { probe_id: "poll 2", due_at: pastAt(3), subject: "s2" },
      { probe_id: "message 2", due_at: pastAt(2), subject: "s2", kind: "message" },
      { probe_id: "message 3", due_at: pastAt(1), subject: "s3", kind: "message" },
      { probe_id: "notification", kind: "notification", subject: "s3" },
      { probe_id: "manual", kind: "manual", subject: "s3", due_at: LATER },
    );
    const leaseIds = async (given: Partial<ProbeClaim>): Promise<string[]> =>
      idsOf(await lease({ ...given, ttlMs: 0 }));
    expect(await leaseIds({ kinds: [] })).toEqual([]);
    expect(await leaseIds({ subjects: [] })).toEqual([]);
    expect(await leaseIds({ subjects: ["nobody"] })).toEqual([]);
    expect(await leaseIds({ kinds: ["manual"], subjects: ["s3"] })).toEqual([]);
    expect(await leaseIds({ kinds: ["message"] })).toEqual(["message 3", "message 2"]);
    const kinds = ["poll", "message", "poll", "manual"] as const;
    const all = ["message 3", "message 2", "poll 2", "poll 1"];
    expect(await leaseIds({ kinds })).toEqual(all);
    expect(await leaseIds({ kinds, limit: 3 })).toEqual(all.slice(0, 3));
    const subjects = ["s1", "s2", "s2", "nobody"];
    expect(await leaseIds({ kinds, subjects })).toEqual(all.slice(1));
    expect(await leaseIds({ kinds, subjects, limit: 2 })).toEqual(all.slice(1, 3));
  });

  test("a long queue of one subject does not hide another's", async () => {
    const queue = Array.from({ length: 500 }, (_, index) => {
      return { probe_id: `queued ${index}`, subject: "busy", due_at: pastAt(index) };
    });
    await add(...queue, { probe_id: "last", subject: "quiet", due_at: pastAt(999) });
    expect(idsOf(await lease({ subjects: ["quiet"], limit: 2 }))).toEqual(["last"]);
    const both = await lease({ subjects: ["quiet", "busy"], limit: 2 });
    expect(idsOf(both)).toEqual(["queued 0", "queued 1"]);
  });

  test("reschedules probes sooner and later, and leaves a lease as it is", async () => {
    await add({ probe_id: "a" }, { probe_id: "b", due_at: LATER }, { probe_id: "c" });
    const [leased] = await lease({ limit: 1 });
    expect(leased?.probe_id).toBe("a");
    await store().rescheduleProbes(ws(), [
      { probe_id: "b", due_at: LATER },
      { probe_id: "unknown", due_at: NOON },
      { probe_id: "c", due_at: LATER },
      { probe_id: "a", due_at: pastAt(9) },
      { probe_id: "b", due_at: pastAt(1) },
    ]);
    expect(await probes("a")).toEqual([{ ...leased, due_at: pastAt(9) }]);
    expect(await probesOf(null)).toEqual(["b", "a", "c"]);
    expect(idsOf(await lease())).toEqual(["b"]);
    await store().rescheduleProbes(ws(), []);
    expect(await probes("unknown")).toEqual([]);
  });

  test("a probe that is due sooner while it is leased is settled all the same", async () => {
    await add({});
    await lease();
    await store().rescheduleProbes(ws(), [{ probe_id: "p1", due_at: pastAt(1) }]);
    const end = { probe_id: "p1", attempt: 1, due_at: LATER, value: "seen" };
    expect(await store().settleProbes(ws(), [end])).toEqual([true]);
    expect(await probes("p1")).toMatchObject([{ due_at: LATER, value: "seen", attempt: 1 }]);
  });

  test("ends a lease only for the current attempt, and once", async () => {
    const settle = (attempt: number, value: string): Promise<boolean[]> =>
      store().settleProbes(ws(), [{ probe_id: "p1", attempt, due_at: NOON, value }]);
    await add({});
    expect(await settle(0, "never leased")).toEqual([false]);
    await lease({ ttlMs: 0 });
    await lease();
    expect(await settle(1, "stale")).toEqual([false]);
    expect(await settle(3, "ahead")).toEqual([false]);
    expect(await probes("p1")).toMatchObject([{ attempt: 2, value: null }]);
    expect(await settle(2, "done")).toEqual([true]);
    expect(await settle(2, "again")).toEqual([false]);
    expect(await probes("p1")).toEqual([
      { ...probe({ value: "done" }), attempt: 2, leased_until: null, leased_by: null },
    ]);
    expect(await lease()).toMatchObject([{ attempt: 3, value: "done" }]);
  });

  test("ends a lease that ran out when nobody else took it", async () => {
    await add({});
    await lease({ ttlMs: 0 });
    const end = { probe_id: "p1", attempt: 1, due_at: LATER, value: { late: true } };
    expect(await store().settleProbes(ws(), [end])).toEqual([true]);
    expect(await probes("p1")).toMatchObject([
      { leased_until: null, leased_by: null, value: { late: true } },
    ]);
    expect(await lease()).toEqual([]);
  });

  test("ends many leases at once, answers for each, and forgets what is not due again", async () => {
    await add({ probe_id: "a", value: 1 }, { probe_id: "b" }, { probe_id: "c" }, { probe_id: "d" });
    await lease();
    const end = { attempt: 1, due_at: LATER, value: null };
    const settled = await store().settleProbes(ws(), [
      { ...end, probe_id: "d", attempt: 2 },
      { ...end, probe_id: "c", due_at: null },
      { ...end, probe_id: "a" },
      { ...end, probe_id: "unknown", due_at: null },
      { ...end, probe_id: "b", value: "first" },
      { ...end, probe_id: "b", value: "second" },
      { ...end, probe_id: "c", value: "gone" },
    ]);
    expect(settled).toEqual([false, true, true, false, true, false, false]);
    expect(await probesOf(null)).toEqual(["d", "a", "b"]);
    expect(await probes("a")).toMatchObject([{ value: null, due_at: LATER }]);
    expect(await probes("b")).toMatchObject([{ value: "first" }]);
    expect(await store().settleProbes(ws(), [])).toEqual([]);
    await add({ probe_id: "c" });
    expect(await probes("c")).toMatchObject([{ attempt: 0, leased_until: null, leased_by: null }]);
  });

  test("forgets the probes of some kinds about a subject, also leased ones", async () => {
    await add(
      { probe_id: "poll" },
      { probe_id: "message", kind: "message" },
      { probe_id: "manual", kind: "manual" },
      { probe_id: "other", subject: "s2" },
    );
    await lease({ subjects: ["s1"] });
    await store().removeProbes(ws(), ["poll", "message"], "s1");
    const left = await probes("poll", "message", "manual", "other");
    expect(idsOf(left).toSorted()).toEqual(["manual", "other"]);
    const end = { probe_id: "poll", attempt: 1, due_at: LATER, value: null };
    expect(await store().settleProbes(ws(), [end])).toEqual([false]);
    await store().removeProbes(ws(), [], "s2");
    expect(await probesOf("s2")).toEqual(["other"]);
  });

  test("keeps the probes of workspaces apart", async () => {
    const other = await store().workspace("acme", "other");
    await add({ value: "mine" });
    await store().addProbes(other.ws, [probe({ value: "theirs" })]);
    expect(await lease()).toMatchObject([{ value: "mine" }]);
    expect(await lease({ subjects: ["s1"] })).toEqual([]);
    const mine = await probes("p1");

    const end = { probe_id: "p1", attempt: 1, due_at: LATER, value: "wrong" };
    expect(await store().settleProbes(other.ws, [end])).toEqual([false]);
    const claimed = claim({ subjects: ["s1"] });
    expect(await store().leaseProbes(other.ws, claimed)).toMatchObject([{ value: "theirs" }]);
    await store().rescheduleProbes(other.ws, [{ probe_id: "p1", due_at: LATER }]);
    await store().removeProbes(other.ws, ["poll"], "s1");
    expect(await probes("p1")).toEqual(mine);
    const theirs = await store().read(other.ws, (reader) => reader.probesOf("poll", null, 10));
    expect(theirs).toEqual([]);
  });
}

/** Probes under many hands at once. */
export function probeRaceCases({ durable, place, store, ws }: Suite): void {
  const withOther = async (body: (stores: [Store, Store]) => Promise<void>): Promise<void> => {
    const other = await place().open();
    try {
      await body([store(), other]);
    } finally {
      await other.close();
    }
  };
  const addMany = async (count: number): Promise<string[]> => {
    const ids = Array.from({ length: count }, (_, index) => `p${index + 1_000}`);
    const given = ids.map((probe_id, index) => probe({ probe_id, subject: `s${index % 3}` }));
    await store().addProbes(ws(), given);
    return ids;
  };
  const subjects = ["s0", "s1", "s2"];

  test("many claims at once never lease the same probe", async () => {
    const ids = await addMany(100);
    const leased = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        store().leaseProbes(ws(), claim({ limit: 5, subjects: index % 2 === 0 ? subjects : null })),
      ),
    );
    const taken = idsOf(leased.flat());
    expect(new Set(taken).size).toBe(taken.length);
    const rest = await store().leaseProbes(ws(), claim({}));
    expect([...taken, ...idsOf(rest)].toSorted()).toEqual(ids);
  });

  test.runIf(durable)("two servers at once never lease the same probe", async () => {
    const ids = await addMany(400);
    await withOther(async (servers) => {
      const drain = async (server: Store, among: string[] | null): Promise<string[]> => {
        const taken: string[] = [];
        for (let round = 0; round < 40; round++) {
          const leased = await server.leaseProbes(ws(), claim({ limit: 5, subjects: among }));
          taken.push(...idsOf(leased));
        }
        return taken;
      };
      const hands = servers.flatMap((server) => [drain(server, null), drain(server, subjects)]);
      const taken = (await Promise.all(hands)).flat();
      expect(new Set(taken).size).toBe(taken.length);
      const rest = await store().leaseProbes(ws(), claim({ limit: ids.length }));
      expect([...taken, ...idsOf(rest)].toSorted()).toEqual(ids);
    });
  });

  test.runIf(durable)("a lease that ran out is settled or taken over, never both", async () => {
    const ids = await addMany(40);
    await withOther(async ([one, two]) => {
      await one.leaseProbes(ws(), claim({ ttlMs: 0 }));
      const end = { attempt: 1, due_at: LATER, value: "late" };
      const [settled, taken] = await Promise.all([
        Promise.all(ids.map((probe_id) => one.settleProbes(ws(), [{ ...end, probe_id }]))),
        Promise.all(ids.map(() => two.leaseProbes(ws(), claim({ limit: 1 })))),
      ]);
      const late = ids.filter((_, index) => settled[index]?.[0]);
      const takenOver = taken.flat();
      expect(takenOver.every(({ attempt }) => attempt === 2)).toBe(true);
      const rest = await two.leaseProbes(ws(), claim({}));
      expect([...late, ...idsOf(takenOver), ...idsOf(rest)].toSorted()).toEqual(ids);
    });
  });

  test.runIf(durable)("batches in opposite order do not get in each other's way", async () => {
    const ids = await addMany(50);
    await withOther(async (servers) => {
      const turns = Array.from({ length: 10 }, (_, turn) => {
        const order = turn % 2 === 0 ? ids : ids.toReversed();
        const probes = order.map((probe_id) => ({ probe_id, due_at: pastAt(turn + 1) }));
        return servers.map((server) => server.rescheduleProbes(ws(), probes));
      });
      await Promise.all(turns.flat());
      const dues = await store().read(ws(), (reader) => reader.probes(ids));
      expect(dues).toHaveLength(ids.length);
    });
  });
}
