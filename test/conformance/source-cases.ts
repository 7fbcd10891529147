import { beforeEach, expect, test } from "vitest";
import { epochMsOf } from "../../src/kernel/instant.ts";
import type { Learnt } from "../../src/work/probe-protocol.ts";
import type { SharedSource, SourceUse } from "../../src/store/store.ts";
import { SYNCS } from "../../src/work/sync/rows.ts";
import { NOON, changesOf, commit, filledRow } from "./builders.ts";
import type { Suite } from "./store-conformance.ts";

const HOUR_MS = 3_600_000;
/** Nobody has used a source after this very moment. */
const NEVER_MS = -HOUR_MS;

const NOTHING: Learnt = { request_size: null, interval_ms: 0, throttled_until: null };
const LEARNT: Learnt = { request_size: 2_000, interval_ms: 12.5, throttled_until: NOON };

/** What workers learn about sources, shared beside the ledger. */
export function sourceCases({ durable, place, store, ws }: Suite): void {
  const exchange = (
    worker: string,
    sources: readonly SourceUse[],
    usedWithinMs = HOUR_MS,
  ): Promise<SharedSource[]> => store().exchangeSources(ws(), worker, sources, usedWithinMs);
  /** Has syncs of these sources in a workspace. */
  const addSyncs = (sources: readonly string[], of = ws()): Promise<void> => {
    const inserted = sources.map((source, number) => ({ ...filledRow(SYNCS, number), source }));
    return commit(store(), of, { changes: [changesOf(SYNCS, { inserted })] });
  };
  beforeEach(() => addSyncs(["a", "b", "unlearnt"]));
  const use = (source: string, learnt: Learnt | null = null): SourceUse => ({ source, learnt });

  test("answers what is known of each source, in the order asked, without an event", async () => {
    expect(await exchange("w1", [use("b"), use("a")])).toEqual([
      { source: "b", learnt: NOTHING, workers: 1 },
      { source: "a", learnt: NOTHING, workers: 1 },
    ]);
    expect(await exchange("w1", [use("a", LEARNT), use("b")])).toEqual([
      { source: "a", learnt: LEARNT, workers: 1 },
      { source: "b", learnt: NOTHING, workers: 1 },
    ]);
    expect(await store().read(ws(), (reader) => reader.head())).toMatchObject({ pos: 0 });
    expect(await exchange("w1", [])).toEqual([]);
  });

  test("keeps what was learnt last, and leaves it where a worker has nothing to add", async () => {
    await exchange("w1", [use("a", LEARNT)]);
    expect(await exchange("w2", [use("a")])).toEqual([{ source: "a", learnt: LEARNT, workers: 2 }]);
    const slower = { ...LEARNT, interval_ms: 500, throttled_until: null };
    expect(await exchange("w2", [use("a", slower)])).toMatchObject([{ learnt: slower }]);
    expect(await exchange("w1", [use("a")])).toEqual([{ source: "a", learnt: slower, workers: 2 }]);
  });

  test("takes several words about one source as one", async () => {
    const twice = [use("a", NOTHING), use("a", LEARNT), use("a")];
    const answer = { source: "a", learnt: LEARNT, workers: 1 };
    expect(await exchange("w1", twice)).toEqual([answer, answer, answer]);
  });

  test("counts the workers that use a source, and forgets those that have not for long", async () => {
    for (const worker of ["w1", "w2", "w3"]) await exchange(worker, [use("a"), use("b")]);
    expect(await exchange("w1", [use("a")])).toMatchObject([{ workers: 3 }]);
    expect(await exchange("w1", [use("a")], NEVER_MS)).toMatchObject([{ workers: 1 }]);
    expect(await exchange("w1", [use("a"), use("b")])).toMatchObject([
      { workers: 1 },
      { workers: 3 },
    ]);
    expect(await exchange("w2", [use("a")])).toMatchObject([{ workers: 2 }]);
  });

  test("lists what was learnt, when, and how many use it", async () => {
    expect(await store().learntSources(ws(), HOUR_MS)).toEqual([]);
    const before = epochMsOf(await store().now());
    await exchange("w1", [use("b", LEARNT), use("a", NOTHING), use("unlearnt")]);
    await exchange("w2", [use("b")]);
    const after = epochMsOf(await store().now());
    const listed = await store().learntSources(ws(), HOUR_MS);
    expect(listed).toMatchObject([
      { source: "a", learnt: NOTHING, workers: 1 },
      { source: "b", learnt: LEARNT, workers: 2 },
    ]);
    for (const { learnt_at } of listed) {
      expect(epochMsOf(learnt_at)).toBeGreaterThanOrEqual(before);
      expect(epochMsOf(learnt_at)).toBeLessThanOrEqual(after);
    }
    expect(await store().learntSources(ws(), NEVER_MS)).toMatchObject([
      { source: "a", workers: 0 },
      { source: "b", workers: 0 },
    ]);
  });

  test("I64: keeps nothing of a source that no sync has, however many are made up", async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `made up ${index}`);
    const answers = await exchange(
      "w1",
      [...names, "a"].map((name) => use(name, LEARNT)),
    );
    expect(answers.slice(0, 2)).toEqual([
      { source: "made up 0", learnt: NOTHING, workers: 1 },
      { source: "made up 1", learnt: NOTHING, workers: 1 },
    ]);
    expect(answers.at(-1)).toEqual({ source: "a", learnt: LEARNT, workers: 1 });
    const listed = await store().learntSources(ws(), HOUR_MS);
    expect(listed.map(({ source }) => source)).toEqual(["a"]);
    if (!durable) return;
    expect(await place().sql("select source from pawl.source_users")).toEqual([["a"]]);
  });

  test.runIf(durable)("I64: remembers the last thousand workers of a source, no more", async () => {
    const users = Array.from(
      { length: 1_500 },
      (_, at) => `(${ws()}, 'a', 'old ${at}', '${NOON}')`,
    );
    await place().sql(
      `insert into pawl.source_users (ws, source, worker_id, seen_at) values ${users.join(", ")}`,
    );
    const longAgo = 100 * 365 * 24 * HOUR_MS;
    await exchange("w1", [use("a"), use("b")], longAgo);
    await exchange("w2", [use("a")], longAgo);
    const [[count] = []] = await place().sql(
      "select count(*) from pawl.source_users where source = 'a'",
    );
    expect(Number(count)).toBe(1_000);
    expect(await exchange("w1", [use("a")], longAgo)).toMatchObject([{ workers: 1_000 }]);
    expect(
      await place().sql("select 1 from pawl.source_users where worker_id = 'w2'"),
    ).toHaveLength(1);
  });

  test("keeps the sources of workspaces apart", async () => {
    const other = await store().workspace("acme", "other");
    await exchange("w1", [use("a", LEARNT)]);
    await addSyncs(["a"], other.ws);
    const answer = await store().exchangeSources(other.ws, "w2", [use("a")], HOUR_MS);
    expect(answer).toEqual([{ source: "a", learnt: NOTHING, workers: 1 }]);
    expect(await store().learntSources(other.ws, HOUR_MS)).toEqual([]);
  });

  test.runIf(durable)("many workers at two servers never wait for each other", async () => {
    const other = await place().open();
    try {
      const names = Array.from({ length: 20 }, (_, index) => `source ${index}`);
      await commit(store(), ws(), {
        changes: [
          changesOf(SYNCS, {
            inserted: names.map((source, number) => {
              return { ...filledRow(SYNCS, number + 10), source };
            }),
          }),
        ],
      });
      const exchanged = Array.from({ length: 40 }, (_, index) => {
        const server = index % 2 === 0 ? store() : other;
        const sources = (index % 4 < 2 ? names : names.toReversed()).map((name) =>
          use(name, { ...NOTHING, interval_ms: index }),
        );
        const usedWithinMs = index % 3 === 0 ? NEVER_MS : HOUR_MS;
        return server.exchangeSources(ws(), `w${index % 8}`, sources, usedWithinMs);
      });
      expect(await Promise.all(exchanged)).toHaveLength(40);
      const [first] = await exchange("w1", [use("source 0")]);
      expect(first?.workers).toBeGreaterThanOrEqual(1);
      expect(await other.learntSources(ws(), HOUR_MS)).toHaveLength(20);
    } finally {
      await other.close();
    }
  });
}
