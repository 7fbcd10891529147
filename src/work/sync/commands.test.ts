import { describe, expect, test } from "vitest";
import {
  claimSegments,
  endAttempt,
  fetchAll,
  onlySync,
  segmentsOf,
  strip,
  syncWorld,
  syncSpec,
} from "../../../test/properties/sync-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import {
  addSync,
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
  type AddSyncInput,
} from "./commands.ts";
import { advanceSync } from "./advance.ts";
import { excludeSyncSegment, repairSync, retrySegment, verifySync } from "./repair.ts";
import { DECISION_EVENTS_MAX } from "../decision.ts";
import { knownSync } from "./look-up.ts";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { Spec } from "../definition/published-spec.ts";
import { publishDefinitions } from "../definition/publish.ts";

const FIXED = { to: 99, has: { head: false, hash: false, verify: true } };
const BY_NAME = "logs@wallet=a";

function codeOf(body: () => unknown): string | null {
  try {
    body();
    return null;
  } catch (error) {
    return error instanceof PawlError ? error.code : "another error";
  }
}

describe("pauseSync and resumeSync", () => {
  test("stop what runs, keep how far it got, and go on from there", () => {
    const world = syncWorld(FIXED);
    const [first] = claimSegments(world, 1);
    const paused = world.submit(pauseSync({ sync: BY_NAME, reason: "at night" }));
    world.settle();
    expect(paused).toMatchObject({ state: "PAUSED", name: "logs", target_key: "wallet=a" });
    expect(onlySync(world)).toMatchObject({ reason: "at night", segments_queued: 0 });
    const ended = { outcome: "CANCELLED", segment: { last_processed_block: 4 } } as const;
    if (first !== undefined) endAttempt(world, first, ended);
    expect(claimSegments(world)).toEqual([]);

    world.submit(resumeSync({ sync: BY_NAME, expected_state_version: paused.state_version }));
    world.settle();
    expect(claimSegments(world)[0]?.segment).toMatchObject({
      from_block: 0,
      last_processed_block: 4,
      generation: 1,
    });
  });

  test("I7: refuse a version that is not the current one, and a state that makes no sense", () => {
    const world = syncWorld(FIXED);
    const stale = { sync: BY_NAME, expected_state_version: 1 };
    expect(codeOf(() => world.submit(pauseSync(stale)))).toBe("STATE_VERSION_MISMATCH");
    expect(codeOf(() => world.submit(resumeSync({ sync: BY_NAME })))).toBe("STATE_ILLEGAL");
    expect(codeOf(() => world.submit(pauseSync({ sync: "logs@wallet=z" })))).toBe("SYNC_NOT_FOUND");
  });

  test("wait for the head again when nothing was planned before the pause", () => {
    const world = syncWorld();
    world.submit(pauseSync({ sync: BY_NAME }));
    expect(world.submit(resumeSync({ sync: BY_NAME })).state).toBe("PENDING");
  });

  test("stop more runs than one decision can hold with the next ones", () => {
    const world = syncWorld({
      ...FIXED,
      to: 999,
      max_parallel: 700,
      segments: { max: 700, min_size: 1 },
    });
    expect(onlySync(world).segments_queued).toBe(700);
    const { events } = world.evaluate(pauseSync({ sync: BY_NAME }));
    expect(events.length).toBeLessThanOrEqual(DECISION_EVENTS_MAX);

    world.submit(pauseSync({ sync: BY_NAME }));
    world.settle();

    expect(onlySync(world)).toMatchObject({ segments_queued: 0, segments_pending: 700 });
    const sync = onlySync(world);
    expect(world.read((rows) => advanceSync(rows, sync, world.context()))).toEqual([]);
  });
});

describe("removeSync", () => {
  test("ends a sync that the API added, whose target may be added anew", () => {
    const world = syncWorld({ ...FIXED, targets: [] });
    const { sync_id } = world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    world.settle();
    const held = claimSegments(world);
    world.submit(removeSync({ sync: sync_id }));
    for (const one of held) endAttempt(world, one, { outcome: "CANCELLED" });

    expect(onlySync(world)).toMatchObject({ state: "REMOVED", segments_running: 0 });
    expect(claimSegments(world)).toEqual([]);
    expect(codeOf(() => world.submit(removeSync({ sync: sync_id })))).toBe("STATE_ILLEGAL");
    const again = world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    expect(again.sync_id).not.toBe(sync_id);
  });

  test("refuses one that code names", () => {
    const world = syncWorld(FIXED);
    expect(codeOf(() => world.submit(removeSync({ sync: BY_NAME })))).toBe("DEFINITION_INVALID");
  });
});

describe("retuneSync", () => {
  test("changes how many segments run at once, and back to what the definition says", () => {
    const world = syncWorld(FIXED);
    world.submit(retuneSync({ sync: BY_NAME, max_parallel: 5 }));
    world.settle();
    expect(claimSegments(world)).toHaveLength(5);

    world.submit(retuneSync({ sync: BY_NAME, max_parallel: null, priority: 3 }));
    world.settle();
    expect(onlySync(world)).toMatchObject({ max_parallel: null, priority: 3, state_version: 4 });
    expect(codeOf(() => world.submit(retuneSync({ sync: BY_NAME })))).toBe("INPUT_INVALID");
  });

  test("does not touch what is complete", () => {
    const world = syncWorld(FIXED);
    fetchAll(world);
    world.submit(retuneSync({ sync: BY_NAME, priority: 1 }));
    world.settle();
    expect(onlySync(world).state).toBe("COMPLETE");
    expect(strip(world).every((cell) => cell.endsWith("COMPLETE"))).toBe(true);
    expect(segmentsOf(world)).toHaveLength(10);
  });
});

const target = { wallet: "b", network: "main" };

describe("addSync", () => {
  test("adds a target with bounds of its own", () => {
    const world = syncWorld({ targets: [], source: "{network}" }, 99);
    const added = world.submit(
      addSync({ name: "logs", target, from_block: 10, to_block: 20, max_parallel: 1 }),
    );

    expect(added).toMatchObject({ state: "PENDING", target_key: "network=main,wallet=b" });
    expect(onlySync(world)).toMatchObject({
      origin: "api",
      source: "main",
      from_block: 10,
      to_limit: 20,
      synced_to: 9,
      max_parallel: 1,
      priority: null,
    });
  });

  test("refuses a target that is there, and what cannot be synced", () => {
    const world = syncWorld({ targets: [], source: "{network}" });
    const add = (input: Partial<AddSyncInput>) => () =>
      world.submit(addSync({ name: "logs", target, ...input }));
    add({})();
    expect(codeOf(add({}))).toBe("NAME_TAKEN");
    expect(codeOf(add({ name: "unknown" }))).toBe("SYNC_NOT_FOUND");
    expect(codeOf(add({ target: {} }))).toBe("INPUT_INVALID");
    expect(codeOf(add({ target: { wallet: "c" } }))).toBe("INPUT_INVALID");
    const other = { ...target, wallet: "c" };
    expect(codeOf(add({ target: other, from_block: 5, to_block: 4 }))).toBe("INPUT_INVALID");
  });
});

describe("knownSync", () => {
  test("finds a sync by its id and by its name and target", () => {
    const world = syncWorld();
    const { sync_id } = onlySync(world);
    for (const reference of [sync_id, "logs@wallet=a"]) {
      expect(world.read((rows) => knownSync(rows, reference)).sync_id).toBe(sync_id);
    }
    for (const reference of ["logs", "logs@wallet=b", "@", ""]) {
      expect(codeOf(() => world.read((rows) => knownSync(rows, reference)))).toBe("SYNC_NOT_FOUND");
    }
  });
});

const FIXED_SYNC = { to: 9, has: { head: false, hash: false, verify: false } };
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
    const world = syncWorld({ ...FIXED_SYNC, targets: wallets("a", "b") });
    world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    expect(world.runs().filter(({ finished_at }) => finished_at === null)).toHaveLength(2);

    world.publish(syncSpec({ ...FIXED_SYNC, targets: wallets("b", "c") }));

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
    const world = syncWorld(FIXED_SYNC);
    const before = world.pos;
    world.publish(syncSpec(FIXED_SYNC));
    expect(world.pos).toBe(before);
  });

  test("keeps what the API added beside code that names it too", () => {
    const world = syncWorld({ ...FIXED_SYNC, targets: [] });
    world.submit(addSync({ name: "logs", target: { wallet: "a" } }));
    world.publish(syncSpec(FIXED_SYNC));
    world.publish(syncSpec({ ...FIXED_SYNC, targets: [] }));
    expect(states(world)).toEqual(["wallet=a PENDING"]);
  });

  test("lets what the API added stand still while its definition is gone", () => {
    const world = syncWorld(FIXED_SYNC);
    world.submit(addSync({ name: "logs", target: { wallet: "z" } }));
    world.submit(publishOnly(world));
    world.settle();
    expect(states(world)).toEqual(["wallet=a REMOVED", "wallet=z PENDING"]);
    expect(claimSegments(world)).toEqual([]);

    world.publish(syncSpec({ ...FIXED_SYNC, targets: [] }));
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

const THREE_SEGMENTS = { ...FIXED, to: 29 };
const error = { class: "user", message: "poison" };

/** Three segments, of which the first has a block, 4, that could not be fetched. */
function poisoned(): LedgerWorld {
  const world = syncWorld({ ...THREE_SEGMENTS, max_parallel: 1 });
  const [first] = claimSegments(world);
  if (first !== undefined) {
    endAttempt(world, first, { segment: { quarantined: [{ block: 4, error }] } });
  }
  fetchAll(world);
  return world;
}

function poison(world: LedgerWorld): number {
  return segmentsOf(world).find(({ from_block }) => from_block === 4)?.segment_index ?? -1;
}

describe("repairSync", () => {
  test("I47: opens exactly the range again, whatever it cuts through", () => {
    const world = syncWorld(THREE_SEGMENTS);
    fetchAll(world);
    const repaired = world.submit(repairSync({ sync: BY_NAME, from_block: 3, to_block: 12 }));
    world.settle();

    expect(repaired).toMatchObject({ state: "RUNNING", segments: 2 });
    expect(onlySync(world)).toMatchObject({ synced_to: 2, state_version: repaired.state_version });
    expect(strip(world)).toEqual([
      "0-2 COMPLETE",
      "3-9 PENDING",
      "10-12 PENDING",
      "13-19 COMPLETE",
      "20-29 COMPLETE",
    ]);
    expect(claimSegments(world).every(({ segment }) => segment.undo)).toBe(true);
  });

  test("cuts one segment into three", () => {
    const world = syncWorld(THREE_SEGMENTS);
    fetchAll(world);
    world.submit(repairSync({ sync: BY_NAME, from_block: 14, to_block: 15 }));
    expect(strip(world).slice(1, 4)).toEqual(["10-13 COMPLETE", "14-15 PENDING", "16-19 COMPLETE"]);
    fetchAll(world);
    world.settle();
    fetchAll(world);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 29 });
  });

  test("I51: opens what is being fetched as a whole, once its run has ended", () => {
    const world = syncWorld(THREE_SEGMENTS);
    const held = claimSegments(world);
    world.submit(repairSync({ sync: BY_NAME, from_block: 5, to_block: 5 }));
    world.settle();
    expect(segmentsOf(world)[0]).toMatchObject({ status: "PENDING", generation: 1, undo: 1 });
    for (const one of held) endAttempt(world, one);

    expect(strip(world)).toEqual(["0-9 PENDING", "10-19 COMPLETE", "20-29 PENDING"]);
    expect(claimSegments(world)[0]?.segment).toMatchObject({ from_block: 0, generation: 1 });
  });

  test("leaves what nobody has begun with as it is", () => {
    const world = syncWorld(THREE_SEGMENTS);
    const before = world.pos;
    expect(world.submit(repairSync({ sync: BY_NAME, from_block: 20, to_block: 25 })).segments).toBe(
      0,
    );
    expect(world.pos).toBe(before);
  });

  test("refuses a range that is not planned, or is none", () => {
    const world = syncWorld(THREE_SEGMENTS);
    const repair = (from_block: number, to_block: number) => () =>
      world.submit(repairSync({ sync: BY_NAME, from_block, to_block }));
    expect(codeOf(repair(30, 40))).toBe("SELECTION_EMPTY");
    expect(codeOf(repair(9, 8))).toBe("INPUT_INVALID");
    expect(
      codeOf(() => syncWorld().submit(repairSync({ sync: BY_NAME, from_block: 0, to_block: 1 }))),
    ).toBe("SELECTION_EMPTY");
  });

  test("opens many segments with several events, and refuses to stop too many runs", () => {
    const segments = { max: 1_000, min_size: 1 };
    const world = syncWorld({ ...THREE_SEGMENTS, to: 999, segments, max_parallel: 1_000 });
    const all = { sync: BY_NAME, from_block: 0, to_block: 999 };
    const held = claimSegments(world, 500);
    expect(codeOf(() => world.submit(repairSync(all)))).toBe("SELECTION_TOO_LARGE");
    for (const one of held) endAttempt(world, one);

    const { events } = world.evaluate(repairSync(all));
    expect(events.length).toBeLessThanOrEqual(DECISION_EVENTS_MAX);
    expect(world.submit(repairSync(all)).segments).toBe(500);
    expect(onlySync(world)).toMatchObject({ synced_to: -1, reopenings: 3, segments_complete: 0 });
  });
});

describe("retrySegment and excludeSegment", () => {
  test("keep a sync from being complete until what was quarantined is resolved", () => {
    const world = poisoned();
    expect(onlySync(world)).toMatchObject({ state: "RUNNING", synced_to: 3 });

    world.submit(retrySegment({ sync: BY_NAME, segment_index: poison(world) }));
    world.settle();
    const [again] = claimSegments(world);
    expect(again?.segment).toMatchObject({ from_block: 4, to_block: 4, was_quarantined: true });
    if (again !== undefined) endAttempt(world, again);

    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 29 });
  });

  test("record who let a block be missing, and why", () => {
    const world = poisoned();
    const segment_index = poison(world);
    world.submit(excludeSyncSegment({ sync: BY_NAME, segment_index, reason: "it never existed" }));
    world.settle();

    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", synced_to: 29 });
    expect(segmentsOf(world)[1]?.excluded).toMatchObject({ by: "ann", reason: "it never existed" });
  });

  test("refuse any other segment", () => {
    const world = poisoned();
    expect(codeOf(() => world.submit(retrySegment({ sync: BY_NAME, segment_index: 1 })))).toBe(
      "STATE_ILLEGAL",
    );
    expect(codeOf(() => world.submit(retrySegment({ sync: BY_NAME, segment_index: 99 })))).toBe(
      "SEGMENT_NOT_FOUND",
    );
  });
});

describe("verifySync", () => {
  test("verifies what is complete, as many at once as are fetched at once", () => {
    const world = syncWorld(THREE_SEGMENTS);
    fetchAll(world);
    expect(world.submit(verifySync({ sync: BY_NAME, repair: false })).segments).toBe(3);
    world.settle();
    expect(onlySync(world)).toMatchObject({ verify_waiting: 1, verify_active: 2 });
    for (const one of claimSegments(world)) endAttempt(world, one);
    for (const one of claimSegments(world)) endAttempt(world, one);

    expect(segmentsOf(world).map(({ verification }) => verification?.status)).toEqual([
      "PASSED",
      "PASSED",
      "PASSED",
    ]);
    expect(onlySync(world)).toMatchObject({ state: "COMPLETE", verify_active: 0 });
  });

  test("can be asked for again, but not of what is being verified", () => {
    const world = syncWorld(THREE_SEGMENTS);
    fetchAll(world);
    world.submit(verifySync({ sync: BY_NAME, to_block: 9, repair: false }));
    world.settle();
    expect(
      codeOf(() => world.submit(verifySync({ sync: BY_NAME, to_block: 9, repair: false }))),
    ).toBe("SELECTION_EMPTY");
    for (const one of claimSegments(world)) endAttempt(world, one);
    expect(world.submit(verifySync({ sync: BY_NAME, to_block: 9, repair: true })).segments).toBe(1);
    world.settle();
    expect(claimSegments(world)).toHaveLength(1);
  });

  test("refuses a sync without the function", () => {
    const world = syncWorld({ to: 29, has: { head: false, hash: false, verify: false } });
    expect(codeOf(() => world.submit(verifySync({ sync: BY_NAME, repair: false })))).toBe(
      "STATE_ILLEGAL",
    );
  });
});
