import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  arm,
  beginCutover,
  bringOver,
  catchUp,
  claimStep,
  claimSteps,
  endStep,
  FINAL,
  plan,
  say,
  splitAt,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { cancelRun } from "../run/cancel.ts";
import {
  changeSchema,
  completeSplit,
  requestCutover,
  resumeSplit,
  rollbackSplit,
  runBackfill,
  type SplitChanged,
  type SplitCommand,
  startDualWrite,
} from "./commands.ts";
import type { Decide } from "../decision.ts";

function refusal(world: LedgerWorld, decide: Decide<unknown>): PawlError {
  try {
    world.submit(decide);
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("It was not refused.");
}

const COMMANDS: Record<string, (command: SplitCommand) => Decide<unknown>> = {
  startDualWrite,
  runBackfill,
  requestCutover,
  completeSplit,
  rollbackSplit,
  changeSchema: (command) => changeSchema({ ...command, ddl: "alter table users add x" }),
  resumeSplit,
};

/** The commands that are not refused now, and would record something. */
function possible(world: LedgerWorld): string[] {
  const { split_id: split } = splitAt(world);
  return Object.entries(COMMANDS).flatMap(([name, command]) => {
    try {
      return world.evaluate(command({ split })).events.length > 0 ? [name] : [];
    } catch (error) {
      if (error instanceof PawlError && error.code === "STATE_ILLEGAL") return [];
      throw error;
    }
  });
}

describe("commands about a split", () => {
  test("are possible when they make sense, and only then", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    expect(possible(world)).toEqual(["rollbackSplit"]);
    endStep(world, claimStep(world));
    expect(possible(world)).toEqual(["startDualWrite", "rollbackSplit"]);
    world.submit(startDualWrite({ split }));
    world.settle();
    expect(possible(world)).toEqual(["rollbackSplit"]);
    endStep(world, claimStep(world));
    expect(possible(world)).toEqual(["runBackfill", "rollbackSplit", "changeSchema"]);
    world.submit(runBackfill({ split }));
    world.settle();
    expect(possible(world)).toEqual(["rollbackSplit", "changeSchema"]);
    endStep(world, claimStep(world));
    expect(possible(world)).toEqual(["rollbackSplit", "changeSchema"]);
  });

  test("are fewer while one of them is under way", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const tail = catchUp(world, split);
    expect(possible(world)).toEqual(["requestCutover", "rollbackSplit", "changeSchema"]);
    world.submit(requestCutover({ split }));
    expect(possible(world)).toEqual(["rollbackSplit"]);
    world.submit(rollbackSplit({ split }));
    expect(possible(world)).toEqual([]);
    world.settle();
    endStep(world, tail);
    endStep(world, claimStep(world));
    expect(possible(world)).toEqual(["startDualWrite"]);
  });

  test("I57: are answered alike when they are repeated, and record nothing more", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    /** Whatever was asked for so far, asked for once more. */
    const repeat = (commands: readonly ((command: SplitCommand) => Decide<SplitChanged>)[]) => {
      const { phase, state_version, wanted } = splitAt(world);
      for (const command of commands) {
        const { events, result } = world.evaluate(command({ split }));
        expect(events).toEqual([]);
        expect(result).toMatchObject({ split_id: split, phase, state_version, wanted });
      }
    };
    const asked: ((command: SplitCommand) => Decide<SplitChanged>)[] = [];
    const ask = (command: (command: SplitCommand) => Decide<SplitChanged>) => {
      world.submit(command({ split }));
      asked.push(command);
      repeat(asked);
      world.settle();
      repeat(asked);
    };
    endStep(world, claimStep(world));
    ask(startDualWrite);
    endStep(world, claimStep(world));
    ask(runBackfill);
    endStep(world, claimStep(world));
    repeat(asked);
    const tail = claimStep(world);
    say(world, tail, "caught_up");
    repeat(asked);
    const ddl = (command: SplitCommand) =>
      changeSchema({ ...command, ddl: "alter table users add x" });
    world.submit(ddl({ split }));
    repeat([...asked, ddl]);
    world.settle();
    endStep(world, tail);
    endStep(world, claimStep(world));
    const second = claimStep(world);
    ask(requestCutover);
    endStep(world, second);
    const cutover = claimStep(world);
    say(world, cutover, "commit");
    repeat(asked);
    endStep(world, cutover);
    ask(completeSplit);
    endStep(world, claimStep(world));
    expect(splitAt(world).phase).toBe("completed");
    repeat(asked);
  });

  test("I57: are answered alike when a rollback, or another try, is asked for twice", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    world.submit(runBackfill({ split }));
    world.settle();
    endStep(world, claimStep(world), FINAL);
    world.submit(resumeSplit({ split }));
    expect(world.evaluate(resumeSplit({ split })).events).toEqual([]);
    world.settle();
    expect(world.evaluate(resumeSplit({ split })).events).toEqual([]);
    const copy = claimStep(world);
    world.submit(rollbackSplit({ split }));
    expect(world.evaluate(rollbackSplit({ split })).events).toEqual([]);
    // What leads on is not what is under way any more.
    for (const command of [startDualWrite, runBackfill]) {
      expect(refusal(world, command({ split })).message).toContain("rollback is asked for");
    }
    world.settle();
    endStep(world, copy);
    endStep(world, claimStep(world));
    const { events, result } = world.evaluate(rollbackSplit({ split }));
    expect(events).toEqual([]);
    expect(result).toMatchObject({ phase: "rolled_back", wanted: null });
    expect(refusal(world, requestCutover({ split })).code).toBe("STATE_ILLEGAL");
  });

  test("I7: refuse a version that is not the current one, and a split that there is not", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    for (const command of Object.values(COMMANDS)) {
      const stale = refusal(world, command({ split, expected_state_version: 7 }));
      expect(stale.code).toBe("STATE_VERSION_MISMATCH");
      expect(refusal(world, command({ split: "none" })).code).toBe("SPLIT_NOT_FOUND");
    }
    expect(world.submit(rollbackSplit({ split, expected_state_version: 1 }))).toMatchObject({
      phase: "rolled_back",
      state_version: 2,
    });
  });
});

describe("startDualWrite", () => {
  test("refuses while a check is not green, with its note, until they are looked at again", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    expect(refusal(world, startDualWrite({ split })).message).toContain("still being looked at");
    const checks = [
      { check: "users alike", ok: true, note: null },
      { check: "orders alike", ok: false, note: "b has no column total" },
    ];
    endStep(world, claimStep(world), { report: { checks } });
    expect(splitAt(world)).toMatchObject({ checks, phase: "planning" });
    const { message, details } = refusal(world, startDualWrite({ split }));
    expect(message).toContain("orders alike: b has no column total");
    expect(details["checks"]).toEqual(checks.slice(1));
    expect(claimSteps(world)).toEqual([]);

    world.submit(resumeSplit({ split }));
    world.settle();
    endStep(world, claimStep(world));
    expect(world.submit(startDualWrite({ split })).phase).toBe("dual_write");
  });
});

describe("cutOver", () => {
  test("answers the version of the first one for ever, and records nothing", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    expect(bringOver(world, split)).toBe(2);
    const before = world.pos;
    expect(world.submit(requestCutover({ split }))).toMatchObject({
      phase: "reversible",
      wanted: null,
      routing_version_cutover: 2,
    });
    world.submit(completeSplit({ split }));
    world.settle();
    endStep(world, claimStep(world));
    const done = world.pos;
    expect(world.submit(requestCutover({ split })).routing_version_cutover).toBe(2);
    expect([before < done, world.pos]).toEqual([true, done]);
  });

  test("says that it has to wait before the tail is caught up", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    expect(refusal(world, requestCutover({ split })).message).toContain(
      "is dual_write; its cutover is possible only while it is cutover_pending",
    );
  });
});

describe("rollbackSplit", () => {
  test("I56: is refused for ever once somebody has begun to take the way back down", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    bringOver(world, split);
    world.submit(completeSplit({ split }));
    world.settle();
    expect(possible(world)).toContain("rollbackSplit");
    const finish = claimStep(world);
    expect(possible(world)).not.toContain("rollbackSplit");
    endStep(world, finish, FINAL);
    expect(possible(world)).not.toContain("rollbackSplit");
    // Tried again it waits for a worker, and what the first one did is not undone by that.
    world.submit(resumeSplit({ split }));
    expect(possible(world)).not.toContain("rollbackSplit");
    world.settle();
    expect(splitAt(world)).toMatchObject({ step: "finish", step_state: "QUEUED", armed: 0 });
    expect(refusal(world, rollbackSplit({ split })).message).toContain("being taken down");
  });
});

describe("resumeSplit", () => {
  /** A split whose step has just ended so that there is nothing to try again. */
  const ended: Record<string, (world: LedgerWorld, split: string) => string> = {
    "a cutover that fell back": (world, split) => {
      endStep(world, beginCutover(world, split), FINAL);
      return "its last step, tail, is queued";
    },
    "a statement that failed": (world, split) => {
      arm(world, split);
      world.submit(changeSchema({ split, ddl: "alter table users add x" }));
      world.settle();
      endStep(world, claimStep(world), FINAL);
      return "its last step, ddl, is done";
    },
    "a cutback that fell back": (world, split) => {
      bringOver(world, split);
      const reverse = claimStep(world);
      world.submit(rollbackSplit({ split }));
      world.settle();
      endStep(world, reverse);
      endStep(world, claimStep(world), FINAL);
      return "its last step, reverse, is queued";
    },
    "a copy that is discarded": (world, split) => {
      arm(world, split);
      world.submit(runBackfill({ split }));
      world.settle();
      endStep(world, claimStep(world), FINAL);
      world.submit(rollbackSplit({ split }));
      world.settle();
      return "its last step, discard, is queued";
    },
  };

  test.each(Object.keys(ended))("I57: is refused after %s: there is nothing to resume", (which) => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const last = ended[which]?.(world, split) ?? "";
    expect(splitAt(world).error).not.toBeNull();
    const { phase } = splitAt(world);
    const { code, message } = refusal(world, resumeSplit({ split }));
    expect(code).toBe("STATE_ILLEGAL");
    expect(message).toContain(`is ${phase}; there is nothing to resume: ${last}`);
    expect(message).toContain("pawl split status");
    // A worker that has begun with what goes on changes nothing about that.
    for (const held of claimSteps(world)) say(world, held, null, {});
    expect(refusal(world, resumeSplit({ split })).code).toBe("STATE_ILLEGAL");
  });

  test("I57: is answered alike while what failed is tried again, also by a run after the next", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const tail = catchUp(world, split);
    endStep(world, tail, FINAL);
    world.submit(resumeSplit({ split }));
    const alike = () => expect(world.evaluate(resumeSplit({ split })).events).toEqual([]);
    alike();
    world.settle();
    alike();
    const second = claimStep(world);
    alike();
    world.submit(cancelRun({ run_id: second.run_id }));
    endStep(world, second, { outcome: "CANCELLED", report: {} });
    alike();
    say(world, claimStep(world), "caught_up");
    alike();
  });

  test("I57: is answered alike while an attempt that failed waits for its next", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const tail = catchUp(world, split);
    endStep(world, tail, { ...FINAL, final: false });
    expect(splitAt(world).step_state).toBe("RUNNING");
    expect(world.evaluate(resumeSplit({ split })).events).toEqual([]);
  });

  test("I57: is refused after a step that was tried again and has done its work", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    world.submit(runBackfill({ split }));
    world.settle();
    endStep(world, claimStep(world), FINAL);
    world.submit(resumeSplit({ split }));
    world.settle();
    endStep(world, claimStep(world));
    expect(refusal(world, resumeSplit({ split })).message).toContain(
      "is tailing; there is nothing",
    );
  });
});

describe("changeSchema", () => {
  test("refuses an empty statement, and a split that is not armed", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    endStep(world, claimStep(world));
    world.submit(startDualWrite({ split }));
    world.settle();
    expect(refusal(world, changeSchema({ split, ddl: " " })).code).toBe("INPUT_INVALID");
    expect(
      refusal(world, changeSchema({ split, ddl: "alter table users add x" })).message,
    ).toContain("not armed");
  });

  test("refuses tables that another split has a stream of, which would take it over later", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    const { split_id: other } = plan(world, { tenants: ["t2"] });
    arm(world, other);

    const { code, details } = refusal(
      world,
      changeSchema({ split, ddl: "alter table users add x" }),
    );
    expect({ code, details }).toEqual({ code: "SPLIT_OVERLAPS", details: { split_id: other } });

    world.submit(rollbackSplit({ split: other }));
    world.settle();
    endStep(world, claimStep(world));
    expect(world.submit(changeSchema({ split, ddl: "alter table users add x" })).wanted).toBe(
      "ddl",
    );
  });
});
