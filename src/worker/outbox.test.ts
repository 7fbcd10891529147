import { describe, expect, test } from "vitest";
import { ManualClock } from "../../test/manual-clock.ts";
import { PawlError } from "../kernel/errors.ts";
import { Outbox, type OutboxOptions } from "./outbox.ts";

function outboxWith(options: Partial<OutboxOptions<number>>) {
  const clock = new ManualClock();
  const sent: number[][] = [];
  const givenUp: number[] = [];
  const outbox = new Outbox<number>({
    isWanted: () => true,
    giveUp: (item) => void givenUp.push(item),
    itemsMax: 100,
    gatherMs: 0,
    triesMax: Number.POSITIVE_INFINITY,
    clock,
    random: () => 1,
    ...options,
    async send(items) {
      sent.push([...items]);
      await options.send?.(items);
    },
  });
  return { clock, sent, givenUp, outbox };
}

describe("Outbox", () => {
  test("gathers what comes while a message is on its way", async () => {
    let arrive: () => void = () => undefined;
    const { sent, outbox, clock } = outboxWith({
      send: () => new Promise<void>((resolve) => (arrive = resolve)),
    });
    outbox.add(1);
    outbox.add(2);
    await clock.advance(0);
    for (const item of [3, 4, 5]) outbox.add(item);
    arrive();
    await clock.advance(0);
    arrive();
    await outbox.flush();

    expect(sent).toEqual([
      [1, 2],
      [3, 4, 5],
    ]);
  });

  /** An outbox whose messages arrive when a test says so, each by its number. */
  function outboxOnTheWay(options: Partial<OutboxOptions<number>>) {
    const arrivals: (() => void)[] = [];
    const more = outboxWith({
      ...options,
      send: () => new Promise<void>((resolve) => void arrivals.push(resolve)),
    });
    const arrive = async (at: number): Promise<void> => {
      arrivals[at]?.();
      await more.clock.advance(0);
    };
    return { ...more, arrive };
  }

  test("I97: sends many beside a message that is on its way, and no third beside two", async () => {
    const { sent, outbox, clock, arrive } = outboxOnTheWay({ besideMin: 3 });
    const add = async (...items: number[]): Promise<void> => {
      for (const item of items) outbox.add(item);
      await clock.advance(0);
    };
    await add(1);
    await add(2, 3);
    expect(sent).toEqual([[1]]);
    await add(4);
    expect(sent).toEqual([[1], [2, 3, 4]]);
    await add(5, 6, 7, 8);
    expect(sent).toHaveLength(2);
    await arrive(1);
    expect(sent.slice(2)).toEqual([[5, 6, 7, 8]]);
    await add(9);
    // The first is still on its way: few wait for it, and for whatever is left beside it.
    await arrive(2);
    expect(sent).toHaveLength(3);
    await arrive(0);
    expect(sent.slice(3)).toEqual([[9]]);
  });

  test("I97: is empty when both messages are there, whichever comes first", async () => {
    const { outbox, clock, arrive } = outboxOnTheWay({ besideMin: 2 });
    let isEmpty = false;
    let isGone = false;
    outbox.add(1);
    await clock.advance(0);
    void outbox.flushPresent().then(() => (isGone = true));
    for (const item of [2, 3]) outbox.add(item);
    void outbox.flush().then(() => (isEmpty = true));
    await clock.advance(0);
    await arrive(1);
    expect({ isGone, isEmpty, is: outbox.isEmpty }).toEqual({
      isGone: false,
      isEmpty: false,
      is: false,
    });
    await arrive(0);
    expect({ isGone, isEmpty, is: outbox.isEmpty }).toEqual({
      isGone: true,
      isEmpty: true,
      is: true,
    });
  });

  test("sends no more in one message than may be", async () => {
    const { sent, outbox } = outboxWith({ itemsMax: 2 });
    for (const item of [1, 2, 3, 4, 5]) outbox.add(item);
    await outbox.flush();

    expect(sent).toEqual([[1, 2], [3, 4], [5]]);
  });

  test("can be waited for until what is there is gone, though more comes with every message", async () => {
    const { sent, outbox } = outboxWith({
      itemsMax: 2,
      send: async () => {
        if (sent.length < 100) outbox.add(0);
      },
    });
    for (const item of [1, 2, 3]) outbox.add(item);
    await outbox.flushPresent();

    expect(sent.flat().slice(0, 3)).toEqual([1, 2, 3]);
    expect(sent.length).toBeLessThan(100);
    await outbox.flush();
    expect(sent).toHaveLength(100);
  });

  test("tries again for as long as somebody waits for the item", async () => {
    const wanted = new Set([1, 2]);
    const { clock, sent, givenUp, outbox } = outboxWith({
      isWanted: (item) => wanted.has(item),
      send: () => Promise.reject(new PawlError("SERVER_UNREACHABLE", "Nobody is there.")),
    });
    outbox.add(1);
    outbox.add(2);
    await clock.advance(10_000);
    wanted.delete(1);
    await clock.advance(10_000);
    expect(sent.at(-1)).toEqual([2]);
    expect(givenUp).toEqual([1]);

    wanted.delete(2);
    await clock.advance(10_000);
    expect(givenUp).toEqual([1, 2]);
    expect(outbox.isEmpty).toBe(true);
  });

  test("finds the one item that the server refuses and delivers all others", async () => {
    const delivered: number[] = [];
    const { givenUp, outbox } = outboxWith({
      async send(items) {
        if (items.includes(3)) throw new PawlError("INPUT_INVALID", "Three is refused.");
        delivered.push(...items);
      },
    });
    for (const item of [1, 2, 3, 4, 5]) outbox.add(item);
    await outbox.flush();

    expect(new Set(delivered)).toEqual(new Set([1, 2, 4, 5]));
    expect(givenUp).toEqual([3]);
  });

  test("halves a message that is too large until it is taken", async () => {
    const delivered: number[][] = [];
    const { givenUp, outbox } = outboxWith({
      async send(items) {
        if (items.length > 2) throw new PawlError("SELECTION_TOO_LARGE", "Too much at once.");
        delivered.push([...items]);
      },
    });
    for (const item of [1, 2, 3, 4]) outbox.add(item);
    await outbox.flush();

    expect(delivered).toEqual([
      [1, 2],
      [3, 4],
    ]);
    expect(givenUp).toEqual([]);
  });

  test("gives up after the number of tries that is allowed", async () => {
    const { clock, sent, givenUp, outbox } = outboxWith({
      triesMax: 3,
      send: () => Promise.reject(new PawlError("INTERNAL", "A mistake.")),
    });
    outbox.add(1);
    await clock.advance(60_000);

    expect(sent.length).toBe(3);
    expect(givenUp).toEqual([1]);
  });

  test("I79: gives up one item and goes on, whatever is thrown while it is sent", async () => {
    const refusal = new Proxy({}, { getPrototypeOf: () => expect.fail("looked at") });
    for (const thrown of [Object.create(null), refusal, "text", undefined] as unknown[]) {
      const { clock, givenUp, outbox } = outboxWith({
        // oxlint-disable-next-line prefer-promise-reject-errors -- that it is none is the point.
        send: ([item]) => (item === 1 ? Promise.reject(thrown) : Promise.resolve()),
      });
      outbox.add(1);
      await clock.advance(60_000);
      outbox.add(2);
      await outbox.flush();
      expect(givenUp).toEqual([1]);
    }
  });

  test("waits for more items when it may, unless it is flushed", async () => {
    const { clock, sent, outbox } = outboxWith({ gatherMs: 200 });
    outbox.add(1);
    await clock.advance(199);
    expect(sent).toEqual([]);
    await clock.advance(1);
    expect(sent).toEqual([[1]]);

    outbox.add(2);
    await outbox.flush();
    expect(sent).toEqual([[1], [2]]);
  });
});
