import { expect, test } from "vitest";
import {
  bringOver,
  claimStep,
  endStep,
  plan,
  say,
  splitWorld,
} from "../../test/properties/split-world.ts";
import type { LedgerWorld } from "../../test/properties/ledger-world.ts";
import { rollbackSplit, startDualWrite } from "../work/split/commands.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import { type SplitPhaseLine, splitPhaseLine } from "./split-checks.ts";

function linesOf(world: LedgerWorld): SplitPhaseLine[] {
  return world.events.flatMap((event) => {
    const recorded = { ...event, data: JSON.stringify(event.data) } as unknown as RecordedEvent;
    return splitPhaseLine(recorded) ?? [];
  });
}

test("a log has a line with fields for every phase that a split comes to", () => {
  const world = splitWorld();
  const { split_id } = plan(world);
  bringOver(world, split_id);
  world.submit(rollbackSplit({ split: split_id, reason: "too slow" }));
  world.settle();
  const cutback = claimStep(world);
  say(world, cutback, "commit");
  endStep(world, cutback);
  endStep(world, claimStep(world));
  const lines = linesOf(world);
  expect(lines.map(({ from_phase, phase }) => [from_phase, phase])).toEqual([
    [null, "planning"],
    ["planning", "dual_write"],
    ["dual_write", "backfill"],
    ["backfill", "tailing"],
    [null, "cutover_pending"],
    ["cutover_pending", "reversible"],
    ["reversible", "rolled_back"],
  ]);
  expect(new Set(lines.map((line) => line.split_id))).toEqual(new Set([split_id]));
  expect(lines.at(5)).toMatchObject({ routing_version: 2, changed_by: null });
  expect(lines[0]).toMatchObject({ state_version: 1, routing_version: 1 });
  // Each leads to its event, and a later phase has a later version.
  for (const [at, { pos, phase, state_version }] of lines.entries()) {
    const { type, data } = world.events.find((event) => event.pos === pos) ?? {};
    expect({ at, type, data }).toMatchObject({ at, data: { split_id } });
    expect({ phase, isLater: state_version > (lines[at - 1]?.state_version ?? 0) }).toEqual({
      phase,
      isLater: true,
    });
  }
});

test("a line says who brought a split to its phase, and why", () => {
  const world = splitWorld();
  const { split_id } = plan(world);
  endStep(world, claimStep(world));
  world.submit(startDualWrite({ split: split_id, reason: "a is full" }));
  const line = linesOf(world).at(-1);
  expect(line).toMatchObject({ phase: "dual_write", reason: "a is full", routing_version: null });
  const events = world.events.filter(({ type }) => type === "SplitPhaseChanged");
  expect(events).toMatchObject([{ pos: line?.pos, data: { changed_by: line?.changed_by } }]);
  expect(line?.changed_by).toEqual(expect.any(String));
});
