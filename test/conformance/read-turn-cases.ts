import { expect, test } from "vitest";
import { append } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const READS = 50;

/** What a few who ask for many reads leave to others. */
export function readTurnCases({ durable, store, ws }: Suite): void {
  /** Begins reads that end when they are let go, each telling of its beginning. */
  function ask(asker: string, began: string[], letGo: Promise<void>, reads = READS) {
    return Array.from({ length: reads }, () =>
      store().read(
        ws(),
        async (reader) => {
          began.push(asker);
          await letGo;
          return (await reader.head()).pos;
        },
        asker,
      ),
    );
  }

  test.runIf(durable)(
    "I109: many reads of one asker leave room for another, for the engine and for writes",
    async () => {
      const { promise: letGo, resolve } = Promise.withResolvers<void>();
      const began: string[] = [];
      const reads = ask("a", began, letGo);
      reads.push(...ask("b", began, letGo));
      await expect.poll(() => began.includes("b")).toBe(true);
      // None of them ends before all of this has been answered.
      expect((await store().read(ws(), (reader) => reader.head())).pos).toBe(0);
      expect(await append(store(), ws(), 1)).toBe(1);
      expect(await store().renewLeases(ws(), ["none"], 1_000)).toEqual([]);
      expect(await store().tokenByHash("none")).toBeNull();
      expect(began.length).toBeLessThan(10);
      resolve();
      expect(await Promise.all(reads)).toHaveLength(2 * READS);
      expect(began).toHaveLength(2 * READS);
    },
  );

  test("I109: a read that fails gives its turn to the next", async () => {
    const failing = Array.from({ length: READS }, () =>
      store().read(ws(), () => Promise.reject(new Error("out of the blue")), "a"),
    );
    const ends = await Promise.allSettled(failing);
    expect(ends.every(({ status }) => status === "rejected")).toBe(true);
    expect((await store().read(ws(), (reader) => reader.head(), "a")).pos).toBe(0);
  });
}
