import { describe, expect, test } from "vitest";
import { phasesOf, phaseTimes, sentence, type Split, tenantsText } from "./split-texts.ts";

type Events = Parameters<typeof phaseTimes>[0];

const events = (...list: [type: string, at: string, data?: object][]): Events =>
  list.map(([type, occurred_at, data = {}]) => ({ type, occurred_at, data })) as unknown as Events;

const HISTORY = events(
  ["SplitPlanned", "t1"],
  ["SplitPhaseChanged", "t2", { to_phase: "dual_write" }],
  ["SplitCaughtUp", "t3"],
  ["SplitCaughtUp", "t4"],
  ["SplitCutOver", "t5", { direction: "forward" }],
  ["SplitCutOver", "t6", { direction: "back" }],
);

describe("phaseTimes", () => {
  test("keeps when each phase was first come to", () => {
    expect([...phaseTimes(HISTORY)]).toEqual([
      ["planning", "t1"],
      ["dual_write", "t2"],
      ["cutover_pending", "t3"],
      ["reversible", "t5"],
      ["handed_back", "t6"],
    ]);
  });

  test("forgets what came before a plan was run again", () => {
    const again = events(
      ["SplitPhaseChanged", "t7", { from_phase: "reversible", to_phase: "rolled_back" }],
      ["SplitPhaseChanged", "t8", { from_phase: "rolled_back", to_phase: "dual_write" }],
    );
    expect([...phaseTimes([...HISTORY, ...again])]).toEqual([
      ["planning", "t1"],
      ["dual_write", "t8"],
    ]);
  });
});

describe("phasesOf", () => {
  const placesOf = (split: Partial<Split>, history: Events = []) =>
    phasesOf({ step: null, finished_at: null, ...split } as Split, phaseTimes(history)).map(
      ({ name, place }) => `${name} ${place}`,
    );

  test("marks the present one, or that it failed there", () => {
    const [first, second, third] = placesOf({ phase: "dual_write" });
    expect([first, second, third]).toEqual(["planning done", "dual_write now", "backfill ahead"]);
    const step = { state: "FAILED" } as Split["step"];
    expect(placesOf({ phase: "dual_write", step })[1]).toBe("dual_write failed");
    expect(placesOf({ phase: "completed" }).at(-1)).toBe("completed done");
  });

  test("ends with the way back, and says what was never come to", () => {
    expect(placesOf({ phase: "rolled_back" }, HISTORY.slice(0, 2))).toEqual([
      "planning done",
      "dual_write done",
      "backfill skipped",
      "tailing skipped",
      "cutover_pending skipped",
      "reversible skipped",
      "rolled_back now",
    ]);
  });
});

test("tenantsText names a few and counts the rest", () => {
  expect(tenantsText(["a", "b"])).toBe("a, b");
  expect(tenantsText(["a", "b", "c", "d", "e"])).toBe("a, b, c and 2 more");
});

test("sentence begins and ends as one", () => {
  expect(sentence("arms the capture")).toBe("Arms the capture.");
});
