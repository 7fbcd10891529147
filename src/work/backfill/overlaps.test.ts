import { describe, expect, test } from "vitest";
import { runAll, wish } from "../../../test/properties/backfill-world.ts";
import { LedgerWorld, refusalOf } from "../../../test/properties/ledger-world.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import { addPartitionKeys } from "../definition/partition-keys.ts";
import { createBackfill } from "./create.ts";

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

  test("I76: are taken to overlap where their patterns have too many keys to be compared with", () => {
    const world = new LedgerWorld();
    const dimensions = {
      day: { type: "daily", start: "1900-01-01" },
      who: { type: "static", keys: ["ann", "bob"] },
    };
    world.publish({ asset_key: "a", partitions: { type: "multi", dimensions } });
    const some = (day: string, who: string, allow_overlap: boolean) => {
      const selector: Selector = { type: "filter", dimensions: { day, who } };
      const client_request_id = `${day} ${who}`;
      return createBackfill(wish({ client_request_id, selector, allow_overlap }));
    };
    for (let index = 0; index < 430; index++) {
      world.submit(
        some(`19${String(index % 100).padStart(2, "0")}-0${1 + (index % 9)}*`, "ann", true),
      );
    }
    world.submit(some("1950-01-01", "bob", false));
    for (let index = 0; index < 20; index++) {
      world.submit(some(`20${10 + (index % 10)}-${10 + (index % 3)}*`, "ann", true));
    }
    const { code, details } = refusalOf(() => world.submit(some("1950-01-02", "bob", false)));
    expect(code).toBe("BACKFILL_OVERLAPS");
    expect((details["overlaps"] as unknown[]).length).toBeLessThan(30);
  });
});
