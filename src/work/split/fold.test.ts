import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  beginCutover,
  bringOver,
  claimStep,
  endStep,
  plan,
  say,
  splitAt,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import type { EventData, EventType, NewEvent } from "../events.ts";

/** The last recorded event of a type, with other data, as something new. */
function altered<Type extends EventType>(
  world: LedgerWorld,
  type: Type,
  own: Partial<EventData<Type>> = {},
): NewEvent {
  const event = world.events.findLast((each) => each.type === type);
  if (event === undefined) throw new Error(`There is no ${type}.`);
  return { ...event, idempotency_key: "again", data: { ...event.data, ...own } } as NewEvent;
}

/** A world with a split whose cutover is at work and has not committed. */
function cuttingOver() {
  const world = splitWorld();
  const { split_id: split } = plan(world);
  return { world, held: beginCutover(world, split) };
}

describe("the fold of splits", () => {
  test("takes no commit record without its change of the routing, nor the other way round", () => {
    const sound = cuttingOver();
    say(sound.world, sound.held, "commit");
    const [routing, cutover] = sound.world.events.slice(-2);
    if (routing === undefined || cutover === undefined) throw new Error("It did not commit.");

    const { world } = cuttingOver();
    expect(() => world.record([cutover])).toThrow("the routing has that version");
    world.record([routing, cutover]);
    expect(splitAt(world)).toMatchObject({ phase: "reversible", committing: 1 });
    const manual = { version: 3, cause: { type: "manual" } as const };
    expect(() => world.record([altered(world, "RoutingChanged", manual)])).toThrow(
      "only its own split moves t1",
    );
  });

  test("takes one commit record for each direction", () => {
    const { world, held } = cuttingOver();
    say(world, held, "commit");
    const routing = altered(world, "RoutingChanged", { version: 3 });
    const { state_version } = splitAt(world);
    const again = { routing_version: 3, state_version: state_version + 1 };
    expect(() => world.record([routing, altered(world, "SplitCutOver", again)])).toThrow(
      "only what is caught up is cut over",
    );
    expect(splitAt(world).routing_version_cutover).toBe(2);
  });

  test("takes no tenant into two splits, and no version twice", () => {
    const world = splitWorld();
    plan(world);
    const other = { split_id: "0".repeat(26), target: "c" };
    expect(() => world.record([altered(world, "SplitPlanned", other)])).toThrow("one split");
    expect(() => world.record([altered(world, "RoutingChanged")])).toThrow("grow by one");
  });

  test("takes no phase out of order", () => {
    const world = splitWorld();
    const { split_id } = plan(world);
    const change = (to_phase: "backfill" | "completed"): NewEvent => ({
      type: "SplitPhaseChanged",
      idempotency_key: "x",
      data: {
        split_id,
        from_phase: "planning",
        to_phase,
        state_version: 2,
        changed_by: null,
        reason: null,
      },
    });
    expect(() => world.record([change("backfill")])).toThrow("planning may lead to backfill");
    expect(() => world.record([change("completed")])).toThrow("planning may lead to completed");
  });

  test("keeps what was copied when the way back says how far it is", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    bringOver(world, split);
    const before = splitAt(world);
    const tables = [{ table: "users", rows: 0, cursor: null, done: true }];
    const report = { rows_copied: 0, tables, lag_events: 2, lag_ms: 5 };
    endStep(world, claimStep(world), { report });
    expect(splitAt(world)).toMatchObject({
      total_rows_copied: before.total_rows_copied,
      table_progress: before.table_progress,
      verification: before.verification,
      tail_lag_events: 2,
    });
  });
});
