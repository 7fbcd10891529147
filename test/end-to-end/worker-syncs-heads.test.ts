import { afterEach, describe, expect, test } from "vitest";
import type { ClaimedHead } from "../../src/work/probe-protocol.ts";
import { sourceLagging, throttled } from "../../src/define/errors.ts";
import type { SyncOptions } from "../../src/define/sync.ts";
import { stopWorkers, workOnSync } from "./started-worker.ts";
import { WorkServer } from "./work-server.ts";

afterEach(stopWorkers);

/** What came of one look at a head. */
async function lookWith(
  functions: Partial<SyncOptions>,
  more: Partial<ClaimedHead> = {},
  server = new WorkServer(),
) {
  server.addHeads({
    probe_id: "head:blocks:main",
    attempt: 7,
    sync: "blocks",
    source: "main",
    target: { chain: "main" },
    finality: 10,
    timeout_ms: 60_000,
    anchors: [],
    ...more,
  });
  workOnSync(server, functions, { abandonMs: 50 });
  await server.until(() => server.looks.length === 1);
  const [look] = server.looks;
  expect(look).toMatchObject({ probe_id: "head:blocks:main", attempt: 7, source: "main" });
  return look?.outcome;
}

const head = async (): Promise<bigint> => 100n;
const anchors = [
  { block: 90, hash: "h90" },
  { block: 80, hash: "h80" },
  { block: 70, hash: "h70" },
];

describe("a look at a head", () => {
  test("reports it as a number, and the hash of the newest block that may be synced", async () => {
    const hash = async (block: number): Promise<string> => `h${block}`;

    expect(await lookWith({ head, hash }, { anchors })).toEqual({
      type: "seen",
      head: 100,
      safe: { block: 90, hash: "h90" },
      fork: null,
    });
  });

  test("I37: has its lease renewed for as long as it goes on", async () => {
    const server = new WorkServer({ ttlMs: 6_000 });
    const beats = () => server.heartbeats.filter(({ looks = [] }) => looks.length > 0);
    const slow = async (): Promise<bigint> => {
      await server.until(() => beats().length > 0);
      return 100n;
    };
    expect(await lookWith({ head: slow }, {}, server)).toMatchObject({ type: "seen", head: 100 });
    expect(beats()[0]?.looks).toEqual([{ probe_id: "head:blocks:main", attempt: 7 }]);
  });

  test("has no hashes where the source has none, and none below the first block", async () => {
    expect(await lookWith({ head }, { anchors })).toMatchObject({ safe: null, fork: null });
    const hash = async (): Promise<string> => "h";
    expect(await lookWith({ head: async () => 5, hash })).toMatchObject({ head: 5, safe: null });
  });

  test("finds the newest block that still holds when blocks were rewritten", async () => {
    const asked: number[] = [];
    const hash = async (block: number): Promise<string> => {
      asked.push(block);
      return block > 75 ? `x${block}` : `h${block}`;
    };

    expect(await lookWith({ head, hash }, { anchors })).toMatchObject({ fork: { block: 70 } });
    // The newest that may be synced before and after, and each that is known until one holds.
    expect(asked).toEqual([90, 90, 90, 80, 80, 70, 90]);
    const all = async (): Promise<string> => "x";
    expect(await lookWith({ head, hash: all }, { anchors })).toMatchObject({
      fork: { block: null },
    });
  });

  test("believes in no rewrite that the source tells of only once", async () => {
    let calls = 0;
    const hash = async (block: number): Promise<string> => (calls++ === 0 ? "x" : `h${block}`);

    expect(await lookWith({ head, hash }, { anchors })).toMatchObject({ fork: null });
  });

  test("does not ask a node that is behind for what it cannot know", async () => {
    const hash = async (block: number): Promise<string> => {
      if (block > 85) throw new Error(`unknown block ${block}`);
      return `h${block}`;
    };

    expect(await lookWith({ head: async () => 85, hash }, { anchors })).toMatchObject({
      type: "seen",
      head: 85,
      fork: null,
    });
  });

  test.each<[string, Partial<SyncOptions>, string, string]>([
    [
      "a block that is not known",
      { head, hash: () => Promise.reject(sourceLagging("No block 90.")) },
      "lagging",
      "No block 90.",
    ],
    ["a throttled source", { head: () => Promise.reject(throttled("No.")) }, "throttled", "No."],
    ["no number", { head: async () => "0x64" as never }, "user", "head answered 0x64"],
    ["an empty hash", { head, hash: async () => "" }, "user", 'hash answered "" for block 90'],
  ])("fails with %s, which is no rewrite", async (_what, functions, kind, sentence) => {
    expect(await lookWith(functions, { anchors })).toMatchObject({
      type: "failed",
      error: { class: kind, message: expect.stringContaining(sentence) },
    });
  });

  test("fails when it takes too long, also when its function does not listen", async () => {
    const deaf = (): Promise<number> => new Promise(() => undefined);

    expect(await lookWith({ head: deaf }, { timeout_ms: 20 })).toMatchObject({
      type: "failed",
      error: { class: "timeout" },
    });
  });

  test("is not made by a worker whose syncs have no head", async () => {
    const server = new WorkServer();
    workOnSync(server, {});
    await server.until(() => server.claims.length > 0);

    expect(server.headClaims).toEqual([]);
  });
});
