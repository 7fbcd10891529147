import { expect, test } from "vitest";
import { AssertionFailure } from "../../src/kernel/errors.ts";
import { SENSOR_MESSAGES } from "../../src/work/sensor/rows.ts";
import type { AnyRow } from "../../src/kernel/table.ts";
import type { Transaction } from "../../src/store/store.ts";
import { append, changesOf, commit, eventsAfter, flushOf, message } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const KEY = ["sales", "2026-01-01"];

/** What is long enough where the store sets no limit. */
const STILL_MS = 50;

/** Keeps this thread from anything else for so many milliseconds, as a long computation does. */
function reckon(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** What a transaction does: all or nothing, one at a time, on current rows. */
export function transactionCases({ durable, place, store, ws }: Suite): void {
  const head = (): Promise<number> =>
    store().read(ws(), async (reader) => (await reader.head()).pos);
  const load = (): Promise<AnyRow[]> =>
    store().read(ws(), (reader) => reader.load(SENSOR_MESSAGES, [KEY]));

  test("I4: writes nothing when its body throws after the flush", async () => {
    const crash = store().transact(ws(), async (transaction) => {
      const events = eventsAfter(transaction.start, 2);
      const changes = [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })];
      await transaction.flush(flushOf({ events, changes }));
      expect(await transaction.head()).toMatchObject({ pos: 2 });
      throw new Error("out of the blue");
    });
    await expect(crash).rejects.toThrow("out of the blue");
    expect(await head()).toBe(0);
    expect(await load()).toEqual([]);
  });

  test("I4: writes nothing when one of its rows is refused", async () => {
    await commit(store(), ws(), {
      changes: [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })],
    });
    const twice = store().transact(ws(), (transaction) =>
      transaction.flush(
        flushOf({
          events: eventsAfter(transaction.start, 1),
          changes: [changesOf(SENSOR_MESSAGES, { inserted: [message({ eval_id: "2" })] })],
        }),
      ),
    );
    await expect(twice).rejects.toBeInstanceOf(AssertionFailure);
    expect(await head()).toBe(0);
    expect(await load()).toEqual([message({})]);
  });

  test("I76: goes on for as long as it says so, and without a word when it is to be patient", async () => {
    const { stillMsMax } = place();
    const stillMs = stillMsMax ?? STILL_MS;
    await store().transact(ws(), async (transaction) => {
      for (let step = 0; step < 3; step++) {
        reckon(stillMs / 2);
        await transaction.touch();
      }
      await transaction.flush(flushOf({ events: eventsAfter(transaction.start, 1) }));
    });
    const body = async (transaction: Transaction): Promise<void> => {
      reckon(1.25 * stillMs);
      await transaction.flush(flushOf({ events: eventsAfter(transaction.start, 1) }));
    };
    await store().transact(ws(), body, { isPatient: true });
    expect(await head()).toBe(2);
  });

  test("sees what it flushed itself", async () => {
    await store().transact(ws(), async (transaction) => {
      const events = eventsAfter(transaction.start, 1);
      const changes = [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })];
      await transaction.flush(flushOf({ events, changes }));
      expect(await transaction.load(SENSOR_MESSAGES, [KEY])).toEqual([message({})]);
      expect(await transaction.events({ after: 0, limit: 10 })).toEqual(events);
      expect(transaction.start.pos).toBe(0);
    });
  });

  test("flushes at most once", async () => {
    const twice = store().transact(ws(), async (transaction) => {
      await transaction.flush(flushOf({}));
      await transaction.flush(flushOf({}));
    });
    await expect(twice).rejects.toBeInstanceOf(AssertionFailure);
  });

  test("is not to be used after its end", async () => {
    let kept: Transaction | null = null;
    await store().transact(ws(), async (transaction) => {
      kept = transaction;
    });
    await expect((kept as unknown as Transaction).head()).rejects.toBeInstanceOf(AssertionFailure);
  });

  test("I7: decisions of a workspace follow one another, each on the rows of the last", async () => {
    let inside = 0;
    const decide = (): Promise<void> =>
      store().transact(ws(), async (transaction) => {
        inside += 1;
        expect(inside).toBe(1);
        const [row] = await transaction.load(SENSOR_MESSAGES, [KEY]);
        const version = Number(row?.eval_id ?? 0) + 1;
        const next = message({ eval_id: `${version}` });
        const events = eventsAfter(transaction.start, 1);
        const change = row === undefined ? { inserted: [next] } : { updated: [next] };
        await transaction.flush(flushOf({ events, changes: [changesOf(SENSOR_MESSAGES, change)] }));
        inside -= 1;
      });
    await Promise.all(Array.from({ length: 25 }, decide));
    expect(await head()).toBe(25);
    expect(await load()).toEqual([message({ eval_id: "25" })]);
  });

  test("lets the next one go on when one has failed", async () => {
    const failing = store().transact(ws(), async () => {
      throw new Error("out of the blue");
    });
    const next = append(store(), ws(), 1);
    await expect(failing).rejects.toThrow("out of the blue");
    expect(await next).toBe(1);
  });

  test("has one time, not before the store's clock at its call", async () => {
    const before = await store().now();
    const now = await store().transact(ws(), async (transaction) => transaction.now);
    const after = await store().now();
    expect(now).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect([before, now, after]).toEqual([before, now, after].toSorted());
  });

  test.runIf(durable)("I16: a read sees one snapshot while a transaction commits", async () => {
    await append(store(), ws(), 1);
    await store().read(ws(), async (reader) => {
      await commit(store(), ws(), {
        changes: [changesOf(SENSOR_MESSAGES, { inserted: [message({})] })],
      });
      await append(store(), ws(), 1);
      expect(await reader.head()).toMatchObject({ pos: 1 });
      expect(await reader.load(SENSOR_MESSAGES, [KEY])).toEqual([]);
      expect(await reader.events({ after: 0, limit: 10 })).toHaveLength(1);
    });
    expect(await head()).toBe(2);
  });

  test.runIf(durable)("a read does not wait for a transaction", async () => {
    await store().transact(ws(), async (transaction) => {
      await transaction.flush(flushOf({ events: eventsAfter(transaction.start, 1) }));
      expect(await transaction.head()).toMatchObject({ pos: 1 });
      expect(await head()).toBe(0);
    });
    expect(await head()).toBe(1);
  });

  test("closing waits for what is under way, and may be repeated", async () => {
    const under = append(store(), ws(), 1);
    await Promise.all([store().close(), store().close()]);
    expect(await under).toBe(1);
  });

  test("many reads at once all get their turn", async () => {
    await append(store(), ws(), 1);
    const heads = await Promise.all(Array.from({ length: 40 }, head));
    expect(new Set(heads)).toEqual(new Set([1]));
  });
}
