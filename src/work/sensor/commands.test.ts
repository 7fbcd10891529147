import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { pauseSensor, resetCursor, resumeSensor } from "./commands.ts";

function world(): LedgerWorld {
  const made = new LedgerWorld();
  made.publish({ asset_key: "a" });
  made.publish(
    { kind: "sensor", name: "look", mode: "poll" },
    { kind: "sensor", name: "hook", mode: "push" },
    {
      kind: "sensor",
      name: "watch",
      mode: "poll",
      watch: { type: "materializations", asset_key: "a" },
    },
  );
  return made;
}

function codeOf(body: () => unknown): string | null {
  try {
    body();
    return null;
  } catch (error) {
    return error instanceof PawlError ? error.code : "another error";
  }
}

describe("pauseSensor and resumeSensor", () => {
  test("stop the sensor and let it act again, one version each", () => {
    const made = world();
    expect(made.submit(pauseSensor({ sensor: "look", reason: "holidays" }))).toMatchObject({
      state: "PAUSED",
      state_version: 2,
    });
    const [row] = made.read((rows) =>
      rows.sensors.find([{ cell: "name", is: "=", value: "look" }], [], 1),
    );
    expect(row).toMatchObject({ state: "PAUSED", reason: "holidays", state_version: 2 });
    expect(made.submit(resumeSensor({ sensor: "look" }))).toMatchObject({
      state: "ACTIVE",
      state_version: 3,
    });
  });

  test("refuse what makes no sense, another version, and an unknown sensor", () => {
    const made = world();
    expect(codeOf(() => made.submit(resumeSensor({ sensor: "look" })))).toBe("STATE_ILLEGAL");
    const stale = { sensor: "look", expected_state_version: 7 };
    expect(codeOf(() => made.submit(pauseSensor(stale)))).toBe("STATE_VERSION_MISMATCH");
    expect(codeOf(() => made.submit(pauseSensor({ sensor: "x" })))).toBe("SENSOR_NOT_FOUND");
  });
});

describe("resetCursor", () => {
  test("moves the cursor anywhere and back to the start, also of a paused sensor", () => {
    const made = world();
    expect(made.submit(resetCursor({ sensor: "look", cursor: "2026-01-01" }))).toMatchObject({
      cursor: "2026-01-01",
      state: "ACTIVE",
      state_version: 2,
    });
    made.submit(pauseSensor({ sensor: "look" }));
    expect(made.submit(resetCursor({ sensor: "look", cursor: null }))).toMatchObject({
      cursor: null,
      state: "PAUSED",
      state_version: 4,
    });
  });

  test("refuses a sensor without a cursor, and what is no position for one of the ledger", () => {
    const made = world();
    const reset = (sensor: string, cursor: string | null) =>
      codeOf(() => made.submit(resetCursor({ sensor, cursor })));
    expect(reset("hook", null)).toBe("INPUT_INVALID");
    expect(reset("watch", "yesterday")).toBe("INPUT_INVALID");
    expect(reset("watch", "1")).toBeNull();
    expect(reset("watch", "1:40")).toBeNull();
    expect(reset("watch", null)).toBeNull();
  });
});
