import { describe, expect, test } from "vitest";
import { definePawl } from "./define-pawl.ts";
import { pool } from "./asset.ts";
import { sync } from "./sync.ts";

const fetch = async (): Promise<void> => {};
const head = async (): Promise<number> => 100;
const plain = { from: 0, fetch, head };

describe("sync", () => {
  test("fills in what is not said", () => {
    const { name, spec, code } = sync("eth.transfers", plain);

    expect(name).toBe("eth.transfers");
    expect(code).toEqual({ fetch, head, hash: null, verify: null, verifyEachSegment: true });
    expect(Object.isFrozen(spec)).toBe(true);
    expect(spec).toEqual({
      kind: "sync",
      name: "eth.transfers",
      labels: {},
      targets: [],
      source: "eth.transfers",
      from: 0,
      to: null,
      segments: { max: 365, min_size: 1_000 },
      splittable: true,
      order: "oldest_first",
      max_parallel: 4,
      finality: 0,
      head_every_ms: 5_000,
      has: { head: true, hash: false, verify: false },
      request_size: null,
      requests_per_second: null,
      pool: null,
      priority: 0,
      retry: { max_attempts: null, delay_ms: 1_000, factor: 2, max_delay_ms: 300_000, jitter: 0.2 },
      timeout_ms: 86_400_000,
      stall_after_ms: 180_000,
      quarantine_after: 5,
      code_version: null,
    });
  });

  test("carries every option over to the spec", () => {
    const { spec } = sync("eth.transfers", {
      ...plain,
      hash: async () => "0x1",
      verify: async () => true,
      targets: [{ wallet: "0x1", network: "mainnet" }],
      source: "{network}",
      from: 17n,
      to: 1_000n,
      segments: { max: 10, minSize: 5 },
      splittable: false,
      order: "newest first",
      maxParallel: 2,
      finality: 64,
      headEveryMs: 1_000,
      requestSize: 2_000,
      requestsPerSecond: 2.5,
      pool: pool("rpc", { limit: 3 }),
      priority: 7,
      retry: { delayMs: 5 },
      timeoutMs: 60_000,
      stallAfterMs: null,
      quarantineAfter: 2,
      abandonAfter: 20,
      codeVersion: "v2",
      description: "All of them.",
      labels: { team: "chain" },
    });

    expect(spec).toMatchObject({
      targets: [{ wallet: "0x1", network: "mainnet" }],
      source: "{network}",
      from: 17,
      to: 1_000,
      segments: { max: 10, min_size: 5 },
      splittable: false,
      order: "newest_first",
      max_parallel: 2,
      finality: 64,
      head_every_ms: 1_000,
      has: { head: true, hash: true, verify: true },
      request_size: 2_000,
      requests_per_second: 2.5,
      pool: "rpc",
      priority: 7,
      retry: { max_attempts: null, delay_ms: 5 },
      timeout_ms: 60_000,
      stall_after_ms: null,
      quarantine_after: 2,
      abandon_after: 20,
      code_version: "v2",
      description: "All of them.",
      labels: { team: "chain" },
    });
  });

  test("takes targets from a function, once", () => {
    let calls = 0;
    const targets = () => [{ wallet: `0x${++calls}` }];

    expect(sync("s", { ...plain, targets }).spec.targets).toEqual([{ wallet: "0x1" }]);
  });

  test.each<[string, object, string]>([
    ["an unknown option", { finalty: 1 }, "has no option finalty. Did you mean finality?"],
    ["no fetch", { fetch: undefined }, "needs a function fetch, not nothing."],
    ["a head that is none", { head: 5 }, "needs a function head, not 5."],
    ["neither head nor end", { head: undefined }, "has neither a function head nor an end"],
    ["an end before the start", { from: 5, to: 4 }, "begins at 5 and ends before that, at 4."],
    ["a block beyond numbers", { from: 2n ** 60n }, "has from 1152921504606846976, which is too"],
    ["a block that is none", { from: 1.5 }, "from: "],
    ["an order that is none", { order: "up" }, 'has the order "up"; it must be "oldest first"'],
    ["targets that are none", { targets: "0x1" }, 'has the targets "0x1"; give a list such as'],
    ["targets to come", { targets: async () => [] }, "answers a promise; await the list before"],
    ["a target twice", { targets: [{ a: "1" }, { a: "1" }] }, "names the target a=1 twice."],
    ["a field that is missing", { targets: [{ a: "1" }], source: "{b}" }, 'has no field "b"'],
    ["a wrong part", { segments: { minsize: 5 } }, "in segments, has no option minsize. Did you"],
    ["a wrong retry", { retry: { attempts: 5 } }, "in retry, has no option attempts."],
  ])("is refused with %s", (_what, wrong, sentence) => {
    expect(() => sync("s", { ...plain, ...wrong })).toThrow(sentence);
  });
});

describe("definePawl with syncs", () => {
  test("makes a project of syncs alone", () => {
    const blocks = sync("blocks", plain);
    const project = definePawl({ syncs: [blocks] });

    expect(project.specs).toEqual([blocks.spec]);
    expect(project.syncs.get("blocks")).toBe(blocks.code);
    expect(project.functions.size).toBe(0);
  });

  test("refuses a name twice and a pool that is not there", () => {
    const blocks = sync("blocks", plain);
    expect(() => definePawl({ syncs: [blocks, blocks] })).toThrow("blocks is defined twice");
    const pooled = sync("pooled", { ...plain, pool: "rcp" });
    expect(() => definePawl({ syncs: [pooled], pools: [pool("rpc", { limit: 1 })] })).toThrow(
      'The sync pooled uses the pool "rcp", which is not defined',
    );
  });
});
