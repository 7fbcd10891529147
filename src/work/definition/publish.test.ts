import { expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { DECISION_EVENTS_MAX } from "../decision.ts";

const HOUR_MS = 3_600_000;

function schedules(count: number, description: string) {
  return Array.from({ length: count }, (_, index) => ({
    kind: "schedule",
    name: `s${index}`,
    cron: "0 * * * *",
    asset_selection: ["a"],
    description,
  }));
}

test("specs that are too long for one event together are published by several", () => {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a", partitions: { type: "dynamic", name: "keys" } });
  const partition_keys = Array.from({ length: 500 }, (_, index) => `${index}`.padEnd(1_800, "x"));
  const selection = { type: "explicit", partition_keys };
  world.publish(...schedules(5, "long").map((spec) => ({ ...spec, selection })));
  const published = world.events.flatMap(({ type, data }) =>
    type === "DefinitionsPublished" ? [data] : [],
  );
  expect(published.map(({ specs }) => specs.length)).toEqual([1, 2, 2, 1]);
  expect(published.map(({ definition_version }) => definition_version)).toEqual([1, 2, 3, 4]);
  expect(world.schedules()).toHaveLength(5);
});

test("a publish that changes many schedules after a standstill decides each time, by few events", () => {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a" });
  world.publish(...schedules(1_000, "before"));
  world.pass(8 * HOUR_MS);
  const before = world.pos;
  world.publish(...schedules(1_000, "after"));
  expect(world.pos - before).toBeLessThan(2 * DECISION_EVENTS_MAX);
  const counts = new Map<string, number>();
  for (const { schedule_id, count } of world.ticks()) {
    counts.set(schedule_id, (counts.get(schedule_id) ?? 0) + count);
  }
  expect(counts.size).toBe(1_000);
  expect(new Set(counts.values())).toEqual(new Set([8]));
});

test("a name that is given twice is refused, not decided by the order", () => {
  const world = new LedgerWorld();
  const twice = [{ asset_key: "a" }, { asset_key: "a", description: "another" }];
  expect(() => world.publish(...twice)).toThrow("The asset a is defined twice.");
});
