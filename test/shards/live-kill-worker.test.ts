import { describe, test } from "vitest";
import { OPEN_KILL_POINTS } from "./live/kill-points.ts";
import { expectSurvived } from "./live/kill-suite.ts";

describe("kill -9 of the worker at every step of a split", () => {
  test("I54, I56, I57: splits between files of SQLite go on to their ends, every other one of them back", async () => {
    await expectSurvived({ victim: "the worker", goesBack: (at) => at % 2 === 0 });
  });

  test("I54, I56, I57: splits between files of SQLite go on to their ends, the others back", async () => {
    await expectSurvived({
      points: OPEN_KILL_POINTS,
      victim: "the worker",
      goesBack: (at) => at % 2 === 1,
    });
  });
});
