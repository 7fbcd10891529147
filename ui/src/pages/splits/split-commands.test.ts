import { describe, expect, test } from "vitest";
import { leadingCommand, whyNot } from "./split-commands.ts";
import type { Split } from "./split-texts.ts";

const split = (fields: Partial<Split>, ...commands: string[]): Split =>
  ({
    phase: "planning",
    wanted: null,
    source: "a",
    target: "b",
    checks: [],
    armed: true,
    backfill: { status: "completed" },
    tail: { status: "running" },
    step: null,
    next: { text: "", commands: commands.map((command) => ({ command, effect: "does it" })) },
    ...fields,
  }) as Split;

const step = (state: "FAILED" | "RUNNING" | "SUCCEEDED") => ({ state }) as Split["step"];

describe("whyNot", () => {
  test("has nothing against what the server offers", () => {
    expect(whyNot(split({}, "cutover"), "cutover")).toBeNull();
  });

  test("says what has to come first", () => {
    expect(whyNot(split({}), "run-backfill")).toBe("Only once the dual write has started.");
    expect(whyNot(split({ phase: "tailing" }), "cutover")).toContain("caught up and verified");
    expect(whyNot(split({ phase: "tailing" }), "complete")).toContain("Only after the cutover");
    expect(whyNot(split({ checks: null }), "start-dual-write")).toContain("still being looked at");
  });

  test("says what stands in the way", () => {
    const checks = [{ check: "tables", ok: false, note: null }];
    const unfit = split({ checks, step: step("SUCCEEDED") });
    expect(whyNot(unfit, "start-dual-write")).toContain("a and b do not fit together");
    const unarmed = split({ phase: "dual_write", armed: false, step: step("FAILED") });
    expect(whyNot(unarmed, "start-dual-write")).toBe("The dual write has started already.");
    const cutOff = split({ phase: "reversible", step: step("FAILED") });
    expect(whyNot(cutOff, "rollback")).toContain("a is not up to date");
    expect(whyNot(split({ phase: "cutover_pending", wanted: "cutover" }), "ddl")).toBe(
      "A cutover is under way.",
    );
  });

  test("says that it is over", () => {
    expect(whyNot(split({ phase: "completed" }), "rollback")).toContain("no way back");
    expect(whyNot(split({ phase: "rolled_back" }), "cutover")).toContain("planned again");
  });
});

describe("leadingCommand", () => {
  test("is to try again what failed, and else what leads on", () => {
    expect(leadingCommand(split({}, "start-dual-write", "rollback"))).toBe("start-dual-write");
    expect(leadingCommand(split({}, "resume", "cutover"))).toBe("resume");
    expect(leadingCommand(split({}, "rollback"))).toBeNull();
    expect(leadingCommand(split({ phase: "completed" }))).toBeNull();
  });
});
