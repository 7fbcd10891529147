import { describe, test } from "vitest";
import { expectSurvived } from "./live/kill-suite.ts";

describe("kill -9 of the worker at every step of a split", { timeout: 300_000 }, () => {
  test("I54, I57: splits go on to their ends, every other one back (I56)", async () => {
    await expectSurvived({ victim: "the worker", goesBack: (at) => at % 2 === 0 });
  });

  test("I54, I56: the other ones go back", async () => {
    await expectSurvived({ victim: "the worker", goesBack: (at) => at % 2 === 1 });
  });
});
