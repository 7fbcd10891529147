import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import { PawlError } from "../kernel/errors.ts";
import {
  type Commanded,
  type CommandRules,
  commandsAbout,
  type Expecting,
  idle,
  legal,
  notFound,
  offeredCommands,
  refused,
  whyNot,
} from "./command.ts";

type State = "OPEN" | "SHUT" | "GONE_FOR_GOOD";
type Door = { name: string; state: State; state_version: number; isLocked: boolean };

const RULES = {
  open: {
    action: "opening",
    effect: ({ name }) => `opens ${name}`,
    when: {
      OPEN: idle("It is open already."),
      SHUT: ({ isLocked }) =>
        isLocked
          ? refused("It is locked.", { text: "is locked. Find the key.", details: { key: "lost" } })
          : null,
    },
  },
  shut: { action: "shutting", effect: "shuts it", when: legal("OPEN") },
  paint: { action: "painting", effect: "paints it", when: legal("OPEN", "SHUT") },
} as const satisfies CommandRules<Door, State>;

const front: Door = { name: "front", state: "SHUT", state_version: 3, isLocked: false };

function commandOf(door: Door) {
  const subject: Commanded<Door, State, Door, { door: string }> = {
    title: ({ name }) => `Door ${name}`,
    stateOf: ({ state }) => state,
    details: ({ state, state_version }) => ({ state, state_version }),
    known: (_, { door: name }) => {
      if (name !== door.name) throw notFound("INPUT_INVALID", "door", name);
      return door;
    },
    factsOf: (row) => row,
  };
  return commandsAbout(subject);
}

/** What becomes of a command: whether it was idle, or how it was refused. */
function asked(
  fields: Partial<Door>,
  command: keyof typeof RULES,
  said: Expecting & { door: string } = { door: "front" },
  checkInput?: () => void,
) {
  const make = commandOf({ ...front, ...fields });
  const { decide } = make(
    RULES[command],
    (_row, _said: Expecting & { door: string }, _rows, _context, isIdle) => ({
      events: [],
      result: isIdle ? "idle" : "done",
    }),
    checkInput,
  );
  try {
    return new LedgerWorld().submit(decide(said));
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    return { code: error.code, message: error.message, details: error.details };
  }
}

describe("commandsAbout", () => {
  test("lets through what is legal, and says when nothing comes of it", () => {
    expect(asked({}, "open")).toBe("done");
    expect(asked({ state: "OPEN" }, "open")).toBe("idle");
    expect(asked({}, "paint", { door: "front", expected_state_version: 3 })).toBe("done");
  });

  test("refuses what there is not, then another version, then an illegal state", () => {
    expect(asked({}, "shut", { door: "back", expected_state_version: 1 })).toEqual({
      code: "INPUT_INVALID",
      message: 'There is no door "back". `pawl door list` shows those there are.',
      details: { door: "back" },
    });
    expect(asked({}, "shut", { door: "front", expected_state_version: 1 })).toEqual({
      code: "STATE_VERSION_MISMATCH",
      message: "Door front is at state version 3 (SHUT), not 1. Look at it again, then decide.",
      details: { expected_state_version: 1, state_version: 3, state: "SHUT" },
    });
    expect(asked({ state: "GONE_FOR_GOOD" }, "open")).toEqual({
      code: "STATE_ILLEGAL",
      message: "Door front is GONE_FOR_GOOD; opening is possible only while it is OPEN or SHUT.",
      details: { state: "GONE_FOR_GOOD", state_version: 3, legal: ["OPEN", "SHUT"] },
    });
  });

  test("refuses in the rule's own words where it has some", () => {
    expect(asked({ isLocked: true }, "open")).toEqual({
      code: "STATE_ILLEGAL",
      message: "Door front is locked. Find the key.",
      details: { key: "lost" },
    });
  });

  test("refuses wrong input before what else stands in the way, but not in an illegal state", () => {
    const wrong = () => {
      throw new PawlError("INPUT_INVALID", "Wrong.");
    };
    const codeOf = (fields: Partial<Door>) => asked(fields, "open", { door: "front" }, wrong);
    expect(codeOf({ isLocked: true })).toMatchObject({ code: "INPUT_INVALID" });
    expect(codeOf({ state: "OPEN" })).toMatchObject({ code: "INPUT_INVALID" });
    expect(codeOf({ state: "GONE_FOR_GOOD" })).toMatchObject({ code: "STATE_ILLEGAL" });
  });
});

test("whyNot says in a sentence what stands in the way, and nothing where nothing does", () => {
  const why = (command: keyof typeof RULES, fields: Partial<Door>) => {
    const door = { ...front, ...fields };
    return whyNot(RULES[command], door.state, door);
  };
  expect(why("open", {})).toBeNull();
  expect(why("open", { isLocked: true })).toBe("It is locked.");
  expect(why("open", { state: "OPEN" })).toBe("It is open already.");
  expect(why("paint", { state: "GONE_FOR_GOOD" })).toBe(
    "Only while it is open or shut; now it is gone for good.",
  );
});

test("offeredCommands has what makes sense now, in the order of the rules, with what comes of it", () => {
  const offered = (door: Door) => offeredCommands(RULES, door.state, door);
  expect(offered(front)).toEqual([
    { command: "open", effect: "opens front" },
    { command: "paint", effect: "paints it" },
  ]);
  expect(offered({ ...front, state: "OPEN" })).toEqual([
    { command: "shut", effect: "shuts it" },
    { command: "paint", effect: "paints it" },
  ]);
  expect(offered({ ...front, state: "GONE_FOR_GOOD" })).toEqual([]);
});
