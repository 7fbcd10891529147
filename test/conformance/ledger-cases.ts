import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { AssertionFailure } from "../../src/kernel/errors.ts";
import { GENESIS_HASH } from "../../src/work/envelope.ts";
import type { EventFilter } from "../../src/work/envelope.ts";
import { append, commit, eventsAfter, flushOf, hashAt } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const GENESIS = { pos: 0, hash: GENESIS_HASH };

const DAMAGE = {
  pos: 2,
  table: null,
  reason: "the ledger is damaged at position 2",
  found_at: "2026-01-01T00:00:00.000Z",
};

/** What the ledger does: order, uniqueness, and that nothing in it ever changes. */
export function ledgerCases({ durable, place, store, ws }: Suite): void {
  const positions = (filter: Partial<EventFilter>): Promise<number[]> =>
    store().read(ws(), async (reader) => {
      const events = await reader.events({ after: 0, limit: 100, ...filter });
      return events.map(({ pos }) => pos);
    });

  test("begins empty, with the hash that stands before the first event", async () => {
    const head = await store().read(ws(), (reader) => reader.head());
    expect(head).toEqual({ ...GENESIS, fold_version: 0, damage: null });
    expect(await positions({})).toEqual([]);
  });

  test("gives back an event as it was appended", async () => {
    const [event] = eventsAfter(GENESIS, 1, {
      data: '{"b":1,"a":"\\"quoted\\" \\\\ 🙂 \\n"}',
      correlation_id: "request-7",
      subject_pos: 9_007_199_254_740_991,
    });
    await commit(store(), ws(), { events: event === undefined ? [] : [event] });
    const read = await store().read(ws(), (reader) => reader.events({ after: 0, limit: 10 }));
    expect(read).toEqual([event]);
  });

  test.each([
    ["alike", '"customer=c1,hour=2025-01-01T00:00Z",'.repeat(5_000)],
    ["unlike", randomBytes(100_000).toString("base64")],
    ["that are not ASCII", "\u{1F600}é\uFFFD".repeat(3_000)],
    ["that are just long enough", "a".repeat(1_992)],
    ["that are nearly long enough", "a".repeat(1_991)],
  ])("gives back long bodies of characters %s", async (_name, text) => {
    const data = JSON.stringify({ a: text });
    const events = eventsAfter(GENESIS, 2, { data });
    await commit(store(), ws(), { events });
    const read = await store().read(ws(), (reader) => reader.events({ after: 0, limit: 10 }));
    expect(read.map((event) => event.data === data)).toEqual([true, true]);
  });

  test("I2: numbers events from 1 without a hole, in the order of commits", async () => {
    await append(store(), ws(), 3);
    await append(store(), ws(), 2);
    expect(await positions({})).toEqual([1, 2, 3, 4, 5]);
    const head = await store().read(ws(), (reader) => reader.head());
    expect(head).toEqual({ pos: 5, hash: hashAt(5), fold_version: 0, damage: null });
  });

  test("tells the types of the events after a position", async () => {
    await append(store(), ws(), 3);
    const typesAfter = (after: number) => store().read(ws(), (reader) => reader.eventTypes(after));
    expect(await typesAfter(3)).toEqual([]);
    const [type] = await store().read(ws(), (reader) => reader.events({ after: 2, limit: 1 }));
    expect(await typesAfter(0)).toEqual([type?.type]);
  });

  test("I2: refuses events that do not continue the head", async () => {
    await append(store(), ws(), 2);
    const head = { pos: 2, hash: hashAt(2) };
    const refused = [
      eventsAfter({ ...head, pos: 1 }, 1),
      eventsAfter({ ...head, pos: 3 }, 1),
      eventsAfter({ ...head, hash: hashAt(7) }, 1),
      [...eventsAfter(head, 1), ...eventsAfter({ pos: 4, hash: hashAt(3) }, 1)],
    ];
    for (const events of refused) {
      await expect(commit(store(), ws(), { events })).rejects.toBeInstanceOf(AssertionFailure);
    }
    expect(await positions({})).toEqual([1, 2]);
  });

  test("I5: takes an idempotency key once per subject", async () => {
    await append(store(), ws(), 1, { subject_pos: 7, idempotency_key: "once" });
    await append(store(), ws(), 1, { subject_pos: 8, idempotency_key: "once" });
    const again = append(store(), ws(), 1, { subject_pos: 7, idempotency_key: "once" });
    await expect(again).rejects.toBeInstanceOf(AssertionFailure);
    expect(await positions({})).toEqual([1, 2]);
  });

  test("I6: a refused append takes neither a position nor a key", async () => {
    await append(store(), ws(), 1, { idempotency_key: "taken" });
    const [fresh] = eventsAfter({ pos: 1, hash: hashAt(1) }, 1, { idempotency_key: "fresh" });
    const [taken] = eventsAfter({ pos: 2, hash: hashAt(2) }, 1, { idempotency_key: "taken" });
    const events = [fresh, taken].filter((event) => event !== undefined);
    await expect(commit(store(), ws(), { events })).rejects.toBeInstanceOf(AssertionFailure);

    expect(await append(store(), ws(), 1, { idempotency_key: "fresh" })).toBe(2);
  });

  test.runIf(durable)("I1: refuses to update or delete an event", async () => {
    await append(store(), ws(), 2);
    await expect(place().sql("update pawl.events set data = '{}'")).rejects.toThrow("append-only");
    await expect(place().sql("delete from pawl.events")).rejects.toThrow("append-only");
    expect(await positions({})).toEqual([1, 2]);
  });

  test("keeps the ledgers of workspaces apart", async () => {
    const other = await store().workspace("acme", "other");
    expect(other.ws).not.toBe(ws());
    await append(store(), ws(), 3);
    await append(store(), other.ws, 1);
    expect(await positions({})).toEqual([1, 2, 3]);
    expect(await store().read(other.ws, (reader) => reader.head())).toMatchObject({ pos: 1 });
  });

  test("reads events by position, type, subject and key, either way round", async () => {
    await append(store(), ws(), 3, { type: "RunStarted", subject_pos: 1 });
    await append(store(), ws(), 3, { type: "RunFinished", subject_pos: 2 });
    expect(await positions({ after: 2 })).toEqual([3, 4, 5, 6]);
    expect(await positions({ after: 1, through: 4 })).toEqual([2, 3, 4]);
    expect(await positions({ limit: 2 })).toEqual([1, 2]);
    expect(await positions({ descending: true, limit: 2 })).toEqual([6, 5]);
    expect(await positions({ types: ["RunFinished"] })).toEqual([4, 5, 6]);
    expect(await positions({ types: ["RunFinished", "RunStarted"], after: 4 })).toEqual([5, 6]);
    expect(await positions({ types: [] })).toEqual([]);
    expect(await positions({ subjects: [1], types: ["RunStarted"] })).toEqual([1, 2, 3]);
    expect(await positions({ subjects: [1, 2], descending: true, limit: 1 })).toEqual([6]);
    expect(await positions({ subjects: [3] })).toEqual([]);
    expect(await positions({ subjects: [2], keys: ["key-4", "key-6", "key-1"] })).toEqual([4, 6]);
    expect(await positions({ keys: [] })).toEqual([]);
  });

  test("keeps the version of the fold, and what checks of the ledger found", async () => {
    await store().transact(ws(), (transaction) => transaction.setFoldVersion(3));
    expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ fold_version: 3 });
    expect(await store().ledgerNotes(ws())).toEqual({ verified: null, damage: null, accepted: [] });

    const verified = { pos: 5, hash: hashAt(5), types: "t", informational: 2 };
    const accepted_at = "2026-01-01T00:00:00.000Z";
    const accepted = [{ pos: 2, reason: "it is changed", fingerprint: "f", accepted_at }];
    await store().saveVerified(ws(), verified);
    await store().markDamage(ws(), DAMAGE);
    await store().saveAccepted(ws(), accepted);
    expect(await store().ledgerNotes(ws())).toEqual({ verified, damage: DAMAGE, accepted });
  });

  test("I85: takes no event while the ledger is marked as damaged, and goes on when it is not", async () => {
    await append(store(), ws(), 2);
    const other = await store().workspace("acme", "other");
    await store().markDamage(ws(), DAMAGE);
    expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ damage: DAMAGE });
    await expect(append(store(), ws(), 1)).rejects.toMatchObject({
      code: "LEDGER_CORRUPT",
      message: expect.stringContaining(DAMAGE.reason) as unknown,
    });
    expect(await positions({})).toEqual([1, 2]);
    expect(await append(store(), other.ws, 1)).toBe(1);

    await store().markDamage(ws(), null);
    expect(await append(store(), ws(), 1)).toBe(3);
  });

  test("tells of each append, once and soon", async () => {
    const heard: [number, number][] = [];
    const end = store().onAppend((workspace, pos) => heard.push([workspace, pos]));
    await append(store(), ws(), 3);
    await commit(store(), ws(), flushOf({}));
    await append(store(), ws(), 1);
    await expect
      .poll(() => heard)
      .toEqual([
        [ws(), 3],
        [ws(), 4],
      ]);
    end();
    await append(store(), ws(), 1);
    expect(heard).toHaveLength(2);
  });
}
