import { describe, expect, test } from "vitest";
import { runAll, wish } from "../../../test/properties/backfill-world.ts";
import { LedgerWorld, refsOf, refusalOf } from "../../../test/properties/ledger-world.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import { addPartitionKeys } from "../definition/partition-keys.ts";
import { cancelBackfill } from "./commands.ts";
import {
  createBackfill,
  type CreateBackfillInput,
  previewBackfill,
  retryBackfill,
} from "./create.ts";
import type { Decide } from "../decision.ts";
import { requestRun } from "../run/request.ts";

const KEYS = { type: "static", keys: ["1", "2", "3", "4"] };

describe("what every chunk is given", () => {
  test("I76: is refused where it is too long to be in each of them, when created or previewed", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const long = [
      wish({ config: { text: "x".repeat(16_000) } }),
      wish({ labels: Object.fromEntries(KEYS.keys.map((key) => [key, "x".repeat(4_000)])) }),
    ];
    for (const decide of long.flatMap((each) => [createBackfill(each), previewBackfill(each)])) {
      const refusal = refusalOf(() => world.submit<unknown>(decide));
      expect(refusal.code).toBe("INPUT_INVALID");
      expect(refusal.message).toMatch(/(?:configuration|labels) of 160\d\d .* at most 16000/);
    }
    world.submit(createBackfill(wish({ config: { text: "x".repeat(15_900) } })));
    const run = (length: number) =>
      requestRun({
        request_id: `r${length}`,
        assets: ["a"],
        partition_keys: ["1"],
        config: "x".repeat(length),
      });
    expect(refusalOf(() => world.submit(run(300_000))).message).toContain("at most 300000");
    world.submit(run(256_000));
  });
});

describe("chunks that nothing could record", () => {
  const keys = Array.from({ length: 8_000 }, (_, index) => String(index).padStart(480, "x"));

  test("I76: are refused with the limit when they are created or previewed, and as one run", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", batch: true, partitions: { type: "static", keys } });
    const large = wish({ chunk_size: 8_000 });
    for (const decide of [createBackfill(large), previewBackfill(large)]) {
      const refusal = refusalOf(() => world.submit<unknown>(decide));
      expect(refusal.code).toBe("SELECTION_TOO_LARGE");
      expect(refusal.message).toMatch(
        /8000 partitions .* the most is 3000000.* smaller chunk size/,
      );
    }
    const run = requestRun({ request_id: "r", assets: ["a"], partition_keys: keys });
    expect(refusalOf(() => world.submit(run)).code).toBe("SELECTION_TOO_LARGE");

    world.submit(createBackfill(wish({ chunk_size: 4_000 })));
    runAll(world);
    expect(world.backfills()[0]?.state).toBe("SUCCEEDED");
  });
});

/** The same decision, asked for by somebody else. */
function askedBy<Result>(principal: string, decide: Decide<Result>): Decide<Result> {
  return (rows, context) => decide(rows, { ...context, principal });
}

describe("createBackfill", () => {
  test("makes nothing more when the same request comes again, and answers as at first", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const first = world.submit(createBackfill(wish()));
    runAll(world);
    const before = world.pos;

    expect(world.submit(createBackfill(wish()))).toEqual(first);
    expect(world.pos).toBe(before);
  });

  test("refuses a request id that stands for another request", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    world.submit(createBackfill(wish()));

    const other = createBackfill(wish({ chunk_size: 2 }));
    expect(refusalOf(() => world.submit(other)).code).toBe("IDEMPOTENCY_KEY_REUSED");
    world.submit(askedBy("bob", other));
    expect(world.backfills()).toHaveLength(2);
  });

  test("gives followers keys that no request id can form", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS }, { asset_key: "b" });
    const both = wish({ client_request_id: "abc", assets: ["a", "b"] });
    const made = world.submit(createBackfill(both));
    expect(made.backfills).toHaveLength(2);
    for (const client_request_id of ["abc:1", "abc:0", "abc"]) {
      const decide = createBackfill({ ...both, client_request_id });
      if (client_request_id === "abc") expect(world.submit(decide)).toEqual(made);
      else expect(world.submit(decide)).not.toEqual(made);
    }
    world.submit(askedBy('ann:abc","', createBackfill(both)));
    const keys = world.events
      .filter(({ type }) => type === "BackfillCreated")
      .map(({ idempotency_key }) => idempotency_key);
    expect(new Set(keys).size).toBe(8);
  });

  test("refuses to pick partitions of an asset that has none, unless it follows another", () => {
    const world = new LedgerWorld();
    const upstream = [{ asset_key: "a", mapping: { type: "all" } }];
    world.publish({ asset_key: "a", partitions: KEYS }, { asset_key: "b", upstream });
    const selector = { type: "range", start: "1", end: "2" } as const;
    const alone = refusalOf(() => world.submit(createBackfill(wish({ assets: ["b"], selector }))));
    expect(alone.code).toBe("INPUT_INVALID");
    world.submit(createBackfill(wish({ assets: ["a", "b"], selector })));
    expect(world.backfills().map((each) => each.total_partitions)).toEqual([2, 1]);
  });
});

describe("planHashOf", () => {
  test("stays when a key or an hour comes that the selection does not take in", () => {
    const world = new LedgerWorld();
    const dynamic = { type: "dynamic", name: "shops" };
    const hours = { type: "hourly", start: "2026-03-09" };
    world.publish({ asset_key: "a", partitions: dynamic }, { asset_key: "b", partitions: hours });
    const add = (request_id: string, ...keys: string[]) =>
      world.submit(addPartitionKeys({ asset_key: "a", request_id, keys }));
    const hashOf = (changes: Partial<CreateBackfillInput>) =>
      world.submit(previewBackfill(wish(changes))).plan_hash;
    add("1", "x", "y");
    const named = { selector: { type: "explicit" as const, partition_keys: ["y"] } };
    const [ofNamed, ofAll] = [hashOf(named), hashOf({})];
    const start = world.submit(previewBackfill(wish({ assets: ["b"] }))).first_chunk_partitions[0];
    const hour = { type: "range", start: start ?? "", end: start ?? "" } as const;
    const ofHour = hashOf({ assets: ["b"], selector: hour });

    add("2", "z");
    world.pass(3_600_000);

    expect(hashOf(named)).toBe(ofNamed);
    expect(hashOf({ assets: ["b"], selector: hour })).toBe(ofHour);
    expect(hashOf({})).not.toBe(ofAll);
  });
});

describe("retryBackfill", () => {
  test("makes one backfill for a retry request id, whoever asks", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const { backfill_id } = world.submit(createBackfill(wish()));
    runAll(world, "2");
    const retry = { backfill_id, retry_request_id: "again", missing: false };
    const first = world.submit(retryBackfill(retry));
    const before = world.pos;

    expect(world.submit(askedBy("bob", retryBackfill(retry)))).toEqual(first);
    expect(world.pos).toBe(before);
    const other = askedBy("bob", retryBackfill({ ...retry, missing: true }));
    expect(refusalOf(() => world.submit(other)).code).toBe("IDEMPOTENCY_KEY_REUSED");
  });

  test("I32: leaves out what another retry made, of this backfill or of one it came from", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const { backfill_id: first } = world.submit(createBackfill(wish()));
    runAll(world, "2");
    const retry = (backfill_id: string, retry_request_id: string) => {
      return world.submit(retryBackfill({ backfill_id, retry_request_id, missing: false }));
    };
    const { backfill_id: second } = retry(first, "1");
    runAll(world, "2");
    const { backfill_id: third } = retry(second, "2");
    expect(refusalOf(() => retry(first, "3")).message).toContain(`${second}, ${third}`);
    runAll(world, "2");
    expect(retry(first, "4").total_partitions).toBe(1);
    for (const left of [second, third]) {
      expect(refusalOf(() => retry(left, "5")).code).toBe("SELECTION_EMPTY");
    }
    runAll(world);
    for (const left of [first, second, third]) {
      expect(refusalOf(() => retry(left, "6")).code).toBe("SELECTION_EMPTY");
    }
  });

  test("I32: takes what was skipped behind a task that its worker gave up, also while the run goes on", () => {
    const world = new LedgerWorld();
    const upstream = [{ asset_key: "a", mapping: { type: "identity" } }];
    world.publish(
      { asset_key: "a", partitions: KEYS },
      { asset_key: "b", partitions: KEYS, upstream },
    );
    const both = wish({ assets: ["a", "b"], chunk_size: 4, max_concurrent_runs: 1 });
    const { backfill_id } = world.submit(createBackfill(both));
    world.settle();
    const [first, second] = refsOf(world.claim(["a"], 2));
    if (first === undefined || second === undefined) throw new Error("Two tasks can be claimed.");
    world.report({ ...first, outcome: "CANCELLED" });
    const retry = (retry_request_id: string) => {
      world.submit(retryBackfill({ backfill_id, retry_request_id, missing: false }));
      return world.backfills().at(-1)?.partitions_total;
    };
    expect(retry("1")).toBe(1);
    world.report({ ...second, outcome: "FAILED", error: { class: "error", message: "broken" } });
    expect(retry("2")).toBe(2);
    runAll(world);
    expect(world.backfills()[0]).toMatchObject({ state: "FAILED", partitions_failed: 3 });
    expect(refusalOf(() => retry("3")).code).toBe("SELECTION_EMPTY");
  });

  test("I32: costs as few look-ups after many retries as after a few", () => {
    const world = new LedgerWorld();
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
    world.publish({ asset_key: "a", partitions: { type: "static", keys } });
    const { backfill_id } = world.submit(createBackfill(wish({ chunk_size: 1 })));
    runAll(world, ...keys);
    const costs: number[] = [];
    for (let index = 0; index < 30; index++) {
      const retry = { backfill_id, retry_request_id: `${index}`, missing: false };
      costs.push(world.lookUpsOf(() => world.submit(retryBackfill(retry))));
      expect(world.backfills().at(-1)?.total_partitions).toBe(keys.length - index);
      runAll(world, ...keys.slice(index + 1));
    }
    expect(Math.max(...costs)).toBeLessThan(20);
  });

  test("finds what is missing of keys that were added with few look-ups, however many were made", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "dynamic", name: "d" } });
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
    world.submit(addPartitionKeys({ asset_key: "a", request_id: "keys", keys }));
    const { backfill_id } = world.submit(createBackfill(wish()));
    runAll(world, "k3", "k30");
    const retry = retryBackfill({ backfill_id, retry_request_id: "again", missing: true });
    expect(world.lookUpsOf(() => world.submit(retry))).toBeLessThan(10);
    expect(world.backfills().at(-1)?.total_partitions).toBe(2);
  });

  test("is refused after too many retries of retries, with what to do instead", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    let { backfill_id } = world.submit(createBackfill(wish()));
    const retry = () => retryBackfill({ backfill_id, retry_request_id: "again", missing: false });
    for (let index = 0; index <= 200; index++) {
      runAll(world, "2");
      ({ backfill_id } = world.submit(retry()));
    }
    runAll(world, "2");
    const { code, message } = refusalOf(() => world.submit(retry()));
    expect(code).toBe("SELECTION_TOO_LARGE");
    expect(message).toContain("200 of them one after another");
  });

  test("is refused beside an active backfill unless the overlap is allowed", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const { backfill_id } = world.submit(createBackfill(wish()));
    runAll(world, "2");
    world.submit(createBackfill(wish({ client_request_id: "other" })));
    const retry = { backfill_id, retry_request_id: "again", missing: false };

    expect(refusalOf(() => world.submit(retryBackfill(retry))).code).toBe("BACKFILL_OVERLAPS");
    world.submit(retryBackfill({ ...retry, allow_overlap: true }));
    expect(world.backfills()).toHaveLength(3);
  });

  test("says how to retry what was cancelled when nothing failed", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const { backfill_id } = world.submit(createBackfill(wish()));
    world.settle();
    world.submit(cancelBackfill({ backfill_id, now: true }));
    world.settle();
    const retry = { backfill_id, retry_request_id: "again", missing: false };

    const { code, message } = refusalOf(() => world.submit(retryBackfill(retry)));
    expect(code).toBe("SELECTION_EMPTY");
    expect(message).toContain("`--missing`");
    expect(world.submit(retryBackfill({ ...retry, missing: true })).total_partitions).toBe(4);
  });

  test("finds what succeeded, although successes are written down nowhere", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    const { backfill_id } = world.submit(createBackfill(wish()));
    world.settle();
    for (const ref of refsOf(world.claim(["a"], 1))) world.report({ ...ref, outcome: "SUCCEEDED" });
    world.submit(cancelBackfill({ backfill_id, now: true }));
    world.settle();
    const selector: Selector = { type: "outcome", backfill_id, outcomes: ["SUCCEEDED"] };
    const again = wish({ client_request_id: "again", selector });
    expect(world.submit(previewBackfill(again)).first_chunk_partitions).toEqual(["1"]);
  });
});
