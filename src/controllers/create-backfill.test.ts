import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import { PawlError } from "../core/errors.ts";
import type { Selector } from "../core/partitions/selector.ts";
import { DEFAULT_RETRY } from "../core/spec.ts";
import { addPartitionKeys } from "./add-partition-keys.ts";
import { cancelBackfill } from "./change-backfill.ts";
import { createBackfill, type CreateBackfillInput, retryBackfill } from "./create-backfill.ts";
import type { Decide } from "./decision.ts";
import { previewBackfill } from "./preview-backfill.ts";
import { requestRun } from "./request-run.ts";

const KEYS = { type: "static", keys: ["1", "2", "3", "4"] };

function wish(changes: Partial<CreateBackfillInput> = {}): CreateBackfillInput {
  return {
    client_request_id: "r",
    assets: ["a"],
    selector: { type: "all" },
    chunk_size: 1,
    max_concurrent_runs: 2,
    order: "ascending",
    priority: 0,
    allow_overlap: true,
    continue_on_failure: false,
    retry: { ...DEFAULT_RETRY, max_attempts: 1 },
    ...changes,
  };
}

function refusalOf(body: () => unknown): PawlError {
  try {
    body();
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("It was not refused.");
}

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

describe("many active backfills of one asset", () => {
  const keys = Array.from({ length: 300 }, (_, index) => `k${index}`);
  const oneKey = (key: string) => {
    const selector: Selector = { type: "explicit", partition_keys: [key] };
    return createBackfill(wish({ client_request_id: key, selector, allow_overlap: false }));
  };

  test("cost a new one as few look-ups as a few do", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "static", keys } });
    const { backfill_id } = world.submit(createBackfill(wish({ chunk_size: 1 })));
    runAll(world, ...keys);
    const selector: Selector = { type: "outcome", backfill_id, outcomes: ["FAILED"] };
    for (let index = 0; index < 40; index++) {
      const again = wish({ client_request_id: `${index}`, selector });
      world.submit(createBackfill(again));
    }
    const refused = () => refusalOf(() => world.submit(oneKey("k1")));
    expect(world.lookUpsOf(refused)).toBeLessThan(10);
    expect(refused().code).toBe("BACKFILL_OVERLAPS");
  });

  test("are compared by their keys, with few look-ups, however many they are", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "dynamic", name: "d" } });
    for (const key of keys) {
      world.submit(addPartitionKeys({ asset_key: "a", request_id: key, keys: [key] }));
      if (key !== "k299") world.submit(oneKey(key));
    }
    expect(world.lookUpsOf(() => world.submit(oneKey("k299")))).toBeLessThan(10);
    const again = wish({ client_request_id: "again", allow_overlap: false });
    const { details } = refusalOf(() => world.submit(createBackfill(again)));
    expect(details["overlaps"]).toHaveLength(300);
  });

  test("are taken to overlap where each had to be looked up by itself and they are many", () => {
    const world = new LedgerWorld();
    const dimensions = {
      where: { type: "static", keys: ["eu", "us"] },
      who: { type: "dynamic", name: "d" },
    };
    world.publish({ asset_key: "a", partitions: { type: "multi", dimensions } });
    world.submit(addPartitionKeys({ asset_key: "a", dimension: "who", request_id: "keys", keys }));
    for (const key of keys.slice(0, 201)) world.submit(oneKey(`where=eu,who=${key}`));
    const { code, message } = refusalOf(() => world.submit(oneKey("where=eu,who=k201")));
    expect(code).toBe("BACKFILL_OVERLAPS");
    expect(message).toContain("allow the overlap");
  });

  const SIDES = {
    day: { type: "daily", start: "2025-01-01" },
    who: { type: "dynamic", name: "d" },
  };

  test("are compared where they name none of the keys that were added", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "multi", dimensions: SIDES } });
    world.submit(addPartitionKeys({ asset_key: "a", dimension: "who", request_id: "k", keys }));
    const days = Array.from({ length: 202 }, (_, index) =>
      new Date(Date.UTC(2025, 0, 1 + index)).toISOString().slice(0, 10),
    );
    const oneDay = (day: string) => {
      const selector: Selector = { type: "filter", dimensions: { day } };
      return createBackfill(wish({ client_request_id: day, selector, allow_overlap: false }));
    };
    for (const day of days.slice(0, 201)) world.submit(oneDay(day));
    expect(world.lookUpsOf(() => world.submit(oneDay(days[201] ?? "")))).toBeLessThan(10);
  });

  test("are compared with few look-ups also when keys came to one of several dimensions", () => {
    const world = new LedgerWorld();
    const dimensions = { where: { type: "static", keys: ["eu", "us"] }, who: SIDES.who };
    world.publish({ asset_key: "a", partitions: { type: "multi", dimensions } });
    const add = (key: string) =>
      addPartitionKeys({ asset_key: "a", dimension: "who", request_id: key, keys: [key] });
    const many = keys.slice(0, 40);
    for (const key of many) world.submit(add(key));
    const failed = many.map((key) => `where=eu,who=${key}`);
    const parents = failed.map((key) => world.submit(oneKey(key)).backfill_id);
    runAll(world, ...failed);
    for (const backfill_id of parents) {
      const selector: Selector = { type: "outcome", backfill_id, outcomes: ["FAILED"] };
      world.submit(createBackfill(wish({ client_request_id: backfill_id, selector })));
    }
    world.submit(add("k40"));
    const some = (where: string) => {
      const partition_keys = keys.slice(0, 41).map((key) => `where=${where},who=${key}`);
      const selector: Selector = { type: "explicit", partition_keys };
      return createBackfill(wish({ client_request_id: where, selector, allow_overlap: false }));
    };
    const refused = () => refusalOf(() => world.submit(some("eu")));
    expect(world.lookUpsOf(refused)).toBeLessThan(10);
    expect(refused().details["overlaps"]).toHaveLength(40);
    expect(world.lookUpsOf(() => world.submit(some("us")))).toBeLessThan(10);
  });

  test("are taken to overlap where they are many and the keys were others before", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "static", keys } });
    for (const key of keys) world.submit(oneKey(key));
    world.publish({ asset_key: "a", partitions: { type: "dynamic", name: "d" } });
    const others = keys.map((key) => `other-${key}`);
    world.submit(addPartitionKeys({ asset_key: "a", request_id: "others", keys: others }));
    const all = wish({ client_request_id: "all", allow_overlap: false });
    const refused = () => refusalOf(() => world.submit(createBackfill(all)));
    expect(world.lookUpsOf(refused)).toBeLessThan(220);
    expect(refused().details["overlaps"]).toHaveLength(100);
  });
});

/** The same decision, asked for by somebody else. */
function askedBy<Result>(principal: string, decide: Decide<Result>): Decide<Result> {
  return (rows, context) => decide(rows, { ...context, principal });
}

/** Runs everything; the partitions named here fail. */
function runAll(world: LedgerWorld, ...failing: readonly string[]): void {
  for (;;) {
    world.settle();
    const groups = world.claim(["a", "b"]);
    if (groups.length === 0) return;
    for (const { run_pos, tasks } of groups) {
      for (const { task_key, attempt, partition_keys } of tasks) {
        const fails = partition_keys.some((key) => failing.includes(key));
        const error = { class: "error", message: "broken" };
        const ref = { run_pos, task_key, attempt };
        world.report(
          fails ? { ...ref, outcome: "FAILED", error } : { ...ref, outcome: "SUCCEEDED" },
        );
      }
    }
  }
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
