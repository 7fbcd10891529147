import { expect, test } from "vitest";
import type { Sample, SamplePoint } from "../../src/store/store.ts";
import type { Suite } from "./store-conformance.ts";

/** What was done and what waits, by time, beside the ledger. */
export function sampleCases({ durable, place, store, ws }: Suite): void {
  const sample = (at: number, value: number, series = "done"): Sample => ({ series, at, value });
  const read = (series = "done", from = 0, until = 1_000): Promise<SamplePoint[]> =>
    store().samples(ws(), series, from, until);

  test("adds to a bucket what is counted, also twice at once, without an event", async () => {
    await store().addSamples(ws(), [sample(10, 2), sample(20, 5), sample(10, 1)]);
    await store().addSamples(ws(), [sample(10, 4)]);
    await store().addSamples(ws(), []);
    expect(await read()).toEqual([
      [10, 7],
      [20, 5],
    ]);
    expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ pos: 0 });
  });

  test("keeps of a bucket that is set the last word", async () => {
    await store().setSamples(ws(), [sample(10, 2), sample(10, 9)]);
    expect(await read()).toEqual([[10, 9]]);
    await store().setSamples(ws(), [sample(10, 0), sample(20, 3)]);
    await store().setSamples(ws(), []);
    expect(await read()).toEqual([
      [10, 0],
      [20, 3],
    ]);
  });

  test("reads a series from a time on and before another, in order", async () => {
    await store().setSamples(ws(), [sample(30, 3), sample(10, 1), sample(20, 2)]);
    await store().setSamples(ws(), [sample(20, 7, "other")]);
    expect(await read("done", 10, 30)).toEqual([
      [10, 1],
      [20, 2],
    ]);
    expect(await read("done", 11, 31)).toEqual([
      [20, 2],
      [30, 3],
    ]);
    expect(await read("other")).toEqual([[20, 7]]);
    expect(await read("unheard of")).toEqual([]);
  });

  test("takes numbers beyond 32 bits", async () => {
    const at = 4_000_000_000;
    await store().setSamples(ws(), [sample(at, 9_000_000_000_000)]);
    expect(await read("done", at, at + 1)).toEqual([[at, 9_000_000_000_000]]);
  });

  test("drops the oldest of what is older than a time, so many at most", async () => {
    const many = [10, 20, 30, 40].flatMap((at) => [sample(at, 1), sample(at, 1, "other")]);
    await store().setSamples(ws(), many);
    expect(await store().pruneSamples(ws(), 40, 4)).toBe(4);
    expect(await read()).toEqual([
      [30, 1],
      [40, 1],
    ]);
    expect(await store().pruneSamples(ws(), 40, 100)).toBe(2);
    expect(await store().pruneSamples(ws(), 40, 100)).toBe(0);
    expect(await read("other")).toEqual([[40, 1]]);
  });

  test("keeps the samples of workspaces apart", async () => {
    const other = await store().workspace("acme", "other");
    await store().addSamples(ws(), [sample(10, 1)]);
    await store().addSamples(other.ws, [sample(10, 2)]);
    expect(await store().pruneSamples(other.ws, 1_000, 100)).toBe(1);
    expect(await read()).toEqual([[10, 1]]);
  });

  test.runIf(durable)(
    "counts what two servers add at once, none waiting for the other",
    async () => {
      const other = await place().open();
      try {
        const series = Array.from({ length: 20 }, (_, index) => `series ${index}`);
        const added = Array.from({ length: 40 }, (_, index) => {
          const server = index % 2 === 0 ? store() : other;
          const names = index % 4 < 2 ? series : series.toReversed();
          return server.addSamples(
            ws(),
            names.map((name) => sample(10, 1, name)),
          );
        });
        await Promise.all(added);
        for (const name of series) expect(await read(name)).toEqual([[10, 40]]);
      } finally {
        await other.close();
      }
    },
  );
}
