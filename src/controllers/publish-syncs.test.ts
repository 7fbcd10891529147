import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../test/properties/ledger-world.ts";
import { claimSegments, syncSpec, syncWorld } from "../../test/properties/sync-world.ts";
import { Spec } from "../core/published-spec.ts";
import { addSync } from "./add-sync.ts";
import { DECISION_EVENTS_MAX } from "./decision.ts";
import { publishDefinitions } from "./publish-definitions.ts";

const FIXED = { to: 9, has: { head: false, hash: false, verify: false } };
const wallets = (...names: (string | number)[]) => names.map((name) => ({ wallet: `${name}` }));

function states(world: LedgerWorld): string[] {
  return world.syncs().map(({ target_key, state }) => `${target_key} ${state}`);
}

function publishOnly(world: LedgerWorld, ...specs: readonly object[]) {
  const parsed = specs.map((spec) => Spec.parse(spec));
  return publishDefinitions({ origin: "code", specs: parsed, prune: true });
}

describe("publishing syncs", () => {
  test("adds the targets that are new and removes those that code left out, with their runs", () => {
    const world = syncWorld({ ...FIXED, targets: wallets("a", "b") });
    world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    expect(world.runs().filter(({ finished_at }) => finished_at === null)).toHaveLength(2);

    world.publish(syncSpec({ ...FIXED, targets: wallets("b", "c") }));

    expect(states(world)).toEqual([
      "wallet=a REMOVED",
      "wallet=b RUNNING",
      "wallet=z PENDING",
      "wallet=c PENDING",
    ]);
    expect(world.syncs().map(({ origin }) => origin)).toEqual(["code", "code", "api", "code"]);
    world.settle();
    expect(world.runs().map(({ state }) => state)).toEqual([
      "CANCELLED",
      "PENDING",
      "PENDING",
      "PENDING",
    ]);
  });

  test("records nothing when nothing has changed", () => {
    const world = syncWorld(FIXED);
    const before = world.pos;
    world.publish(syncSpec(FIXED));
    expect(world.pos).toBe(before);
  });

  test("keeps what the API added beside code that names it too", () => {
    const world = syncWorld({ ...FIXED, targets: [] });
    world.submit(addSync({ name: "logs", target: { wallet: "a" } }));
    world.publish(syncSpec(FIXED));
    world.publish(syncSpec({ ...FIXED, targets: [] }));
    expect(states(world)).toEqual(["wallet=a PENDING"]);
  });

  test("lets what the API added stand still while its definition is gone", () => {
    const world = syncWorld(FIXED);
    world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    world.submit(publishOnly(world));
    world.settle();
    expect(states(world)).toEqual(["wallet=a REMOVED", "wallet=z PENDING"]);
    expect(claimSegments(world)).toEqual([]);

    world.publish(syncSpec({ ...FIXED, targets: [] }));
    world.settle();
    expect(states(world)).toEqual(["wallet=a REMOVED", "wallet=z RUNNING"]);
  });

  test("adds and removes thousands of targets, each decision within its bound", () => {
    const names = Array.from({ length: 1_200 }, (_, index) => index);
    const world = syncWorld({ targets: wallets(...names) });
    expect(world.events.filter(({ type }) => type === "SyncsAdded")).toHaveLength(3);
    expect(world.syncs()).toHaveLength(1_200);

    const decision = publishOnly(world, syncSpec({ targets: wallets("a") }));
    expect(world.evaluate(decision).events.length).toBeLessThanOrEqual(DECISION_EVENTS_MAX);
    world.submit(decision);
    world.settle();

    const left = world.syncs().filter(({ state }) => state !== "REMOVED");
    expect(left.map(({ target_key }) => target_key)).toEqual(["wallet=a"]);
  });
});
