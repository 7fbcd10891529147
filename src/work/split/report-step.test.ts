import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  arm,
  beginCutover,
  bringOver,
  claimStep,
  endStep,
  type HeldStep,
  loseWorker,
  plan,
  say,
  splitAt,
  splitWorld,
  VERIFIED,
} from "../../../test/properties/split-world.ts";
import { rollbackSplit, runBackfill } from "./commands.ts";

const CURRENT = { status: "current", stop: false, routing_version: null };

/** A world with a split whose tail runs and has said nothing yet. */
function tailing(): { world: LedgerWorld; split: string; tail: HeldStep } {
  const world = splitWorld();
  const { split_id: split } = plan(world);
  arm(world, split);
  world.submit(runBackfill({ split }));
  world.settle();
  endStep(world, claimStep(world));
  return { world, split, tail: claimStep(world) };
}

/** A world with a split whose cutover runs. */
function cuttingOver(): { world: LedgerWorld; split: string; held: HeldStep } {
  const world = splitWorld();
  const { split_id: split } = plan(world, { tenants: ["t1", "t2"] });
  return { world, split, held: beginCutover(world, split) };
}

describe("sayStep", () => {
  test("records nothing of a plain word", () => {
    const { world, tail } = tailing();
    const before = world.pos;
    expect(say(world, tail)).toEqual(CURRENT);
    expect(world.pos).toBe(before);
  });

  test("tells an attempt that is not the current one that it is lost", () => {
    const { world, tail } = tailing();
    loseWorker(world, tail);
    const lost = { status: "lost", stop: true, routing_version: null };
    expect(say(world, tail, "caught_up")).toEqual(lost);
    const again = claimStep(world);
    expect(say(world, tail)).toEqual(lost);
    expect(say(world, again)).toEqual(CURRENT);
    endStep(world, again);
    expect(say(world, again)).toEqual(lost);
    expect(splitAt(world).phase).toBe("tailing");
  });

  test("I77: tells whoever has another token than the one that claimed that it is lost", () => {
    const { world, held } = cuttingOver();
    const before = world.pos;
    world.holder = "token-2";
    const lost = { status: "lost", stop: true, routing_version: null };
    expect(say(world, held, "commit")).toEqual(lost);
    expect(world.pos).toBe(before);
    world.holder = "token-1";
    expect(say(world, held, "commit")).toMatchObject({ status: "current" });
    expect(world.pos).toBeGreaterThan(before);
  });

  test("records once that a tail is caught up, and only when all of it is verified", () => {
    const { world, tail } = tailing();
    say(world, tail, "caught_up", { lag_ms: 1 });
    say(world, tail, "caught_up", { verification: { ...VERIFIED, finished: false } });
    expect(splitAt(world).phase).toBe("tailing");
    say(world, tail, "caught_up");
    const before = world.pos;
    say(world, tail, "caught_up");
    expect(world.pos).toBe(before);
    expect(splitAt(world)).toMatchObject({ phase: "cutover_pending", verification: VERIFIED });
  });

  test("does not take the word of another step for that of a tail", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    world.submit(runBackfill({ split }));
    world.settle();
    say(world, claimStep(world), "caught_up", { verification: VERIFIED });
    expect(splitAt(world).phase).toBe("backfill");
  });

  test("I53: moves all tenants by one version, whose record stands beside it", () => {
    const { world, held } = cuttingOver();
    expect(say(world, held, "commit")).toEqual({ ...CURRENT, routing_version: 2 });
    const [routing, cutover] = world.events.slice(-2);
    expect(routing).toMatchObject({
      type: "RoutingChanged",
      data: {
        version: 2,
        routes: [
          { tenant: "t1", shard: "b" },
          { tenant: "t2", shard: "b" },
        ],
        cause: { type: "split", direction: "forward" },
      },
    });
    expect(cutover).toMatchObject({ type: "SplitCutOver", data: { routing_version: 2 } });
    const before = world.pos;
    expect(say(world, held, "commit").routing_version).toBe(2);
    expect(say(world, held).routing_version).toBe(2);
    expect(world.pos).toBe(before);
  });

  test("I55: records no commit that nobody asked for, of no cutover, or of what is not verified", () => {
    const { world, tail } = tailing();
    expect(say(world, tail, "commit")).toMatchObject({ stop: true, routing_version: null });

    const wrong = cuttingOver();
    const report = { verification: { ...VERIFIED, ok: false } };
    expect(say(wrong.world, wrong.held, "commit", report).routing_version).toBeNull();

    const unwanted = cuttingOver();
    unwanted.world.submit(rollbackSplit({ split: unwanted.split }));
    expect(say(unwanted.world, unwanted.held, "commit")).toMatchObject({
      stop: true,
      routing_version: null,
    });
  });

  test("lets the way back commit once more, by the next version", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    bringOver(world, split);
    const reverse = claimStep(world);
    expect(say(world, reverse, "commit").routing_version).toBeNull();
    world.submit(rollbackSplit({ split }));
    expect(say(world, reverse).stop).toBe(true);
    endStep(world, reverse);
    expect(say(world, claimStep(world), "commit").routing_version).toBe(3);
  });
});
