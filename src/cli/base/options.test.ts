import { Command, type Option } from "commander";
import { describe, expect, test } from "vitest";
import { instantOf } from "../../kernel/instant.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import {
  formatDuration,
  keysOf,
  option,
  parseDurationMs,
  relativeTime,
  type SelectorFlags,
  selectorOfFlags,
} from "./options.ts";

function parse(flag: Option, text: string, before?: unknown): unknown {
  return flag.parseArg?.(text, before);
}

describe("integerOption", () => {
  const flag = option.integer("--chunk-size <n>", "", 1, 10);

  test("takes whole numbers within the bounds, both included", () => {
    expect(parse(flag, "1")).toBe(1);
    expect(parse(flag, "10")).toBe(10);
    expect(parse(option.integer("--priority <n>", "", -100, 100), "-100")).toBe(-100);
  });

  test.each(["0", "11", "1.5", "", "x", "1e1", "0x1"])("refuses %j", (text) => {
    expect(() => parse(flag, text)).toThrow(
      `--chunk-size: expected a whole number between 1 and 10, got ${JSON.stringify(text)}.`,
    );
  });
});

describe("failureLimitOption", () => {
  const flag = option.failureLimit("--failure-limit <n>", "");

  test("reads counts and shares", () => {
    expect(parse(flag, "5")).toEqual({ count: 5 });
    expect(parse(flag, "10%")).toEqual({ percent: 10 });
    expect(parse(flag, "0.5%")).toEqual({ percent: 0.5 });
  });

  test.each(["0", "0%", "101%", "1.5", "%", "five"])("refuses %j", (text) => {
    expect(() => parse(flag, text)).toThrow("expected a count such as 5 or a share such as 10%");
  });
});

describe("orderOption", () => {
  test("knows the orders by both names", () => {
    const flag = option.order("--order <order>", "");
    expect(parse(flag, "newest")).toBe("descending");
    expect(parse(flag, "ascending")).toBe("ascending");
    expect(() => parse(flag, "toString")).toThrow("expected newest or oldest");
  });
});

describe("labelsOption", () => {
  test("gathers pairs, and leaves what follows the first sign alone", () => {
    const flag = option.labels("--label <pair>", "");
    expect(parse(flag, "b=c=d", { a: "1" })).toEqual({ a: "1", b: "c=d" });
    expect(() => parse(flag, "=x")).toThrow('--label: expected key=value, got "=x".');
  });
});

describe("jsonOption", () => {
  test("tells null from what is no JSON", () => {
    const flag = option.json("--run-config <json>", "");
    expect(parse(flag, "null")).toEqual({ value: null });
    expect(() => parse(flag, "{")).toThrow("--run-config: expected a JSON value");
  });
});

describe("instantOption", () => {
  const flag = option.instant("--since <time>", "", () => Date.parse("2026-01-31T08:00:00.000Z"));

  test("takes an instant as it is and counts a duration back from now", () => {
    expect(parse(flag, "2026-01-01")).toBe("2026-01-01");
    expect(parse(flag, "2h")).toBe("2026-01-31T06:00:00.000Z");
  });
});

describe("listOption", () => {
  const flag = option.list("--outcomes <outcomes>", "", ["FAILED", "SKIPPED"]);

  test("takes names in whatever case, each once", () => {
    expect(parse(flag, "skipped, Failed,failed")).toEqual(["SKIPPED", "FAILED"]);
  });

  test.each(["", "lost", "failed,"])("refuses %j", (text) => {
    expect(() => parse(flag, text)).toThrow("--outcomes: expected some of failed, skipped");
  });
});

describe("the option of a version", () => {
  test.each(["--expected-state-version", "--expect"])("is %s", (name) => {
    const flag = option.version();
    const command = new Command().addOption(flag);
    if (flag.alias !== undefined) command.addOption(flag.alias);
    command.parse([name, "3"], { from: "user" });
    expect(command.opts()).toEqual({ expectedStateVersion: 3 });
    expect(command.helpInformation()).not.toContain("--expect ");
  });
});

describe("parseDurationMs", () => {
  test.each([
    ["50s", 50_000],
    ["500ms", 500],
    ["1h30m", 5_400_000],
    ["1.5s", 1_500],
    ["2d", 172_800_000],
    ["0s", 0],
  ])("reads %s", (text, ms) => {
    expect(parseDurationMs(text, "--for")).toBe(ms);
  });

  test.each(["", "50", "s", "5 s", "-5s", "5x", "1h-2m"])("refuses %j", (text) => {
    expect(() => parseDurationMs(text, "--for")).toThrow(
      `--for: expected a duration such as 50s, 15m or 1h30m, got ${JSON.stringify(text)}.`,
    );
  });
});

describe("formatDuration", () => {
  test.each([
    [-5, "0ms"],
    [999, "999ms"],
    [4_210, "4.2s"],
    [9_949, "9.9s"],
    [59_499, "59s"],
    [59_500, "1m 00s"],
    [185_000, "3m 05s"],
    [3_599_400, "59m 59s"],
    [3_599_600, "1h 00m"],
    [7_800_000, "2h 10m"],
    [442_800_000, "5d 03h"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe("relativeTime", () => {
  const now = Date.parse("2026-01-31T08:00:00.000Z");

  test.each([
    [0, "now"],
    [999, "now"],
    [12_000, "12s ago"],
    [179_000, "2m ago"],
    [10_800_000, "3h ago"],
    [172_800_000, "2d ago"],
    [-300_000, "in 5m"],
  ])("writes %d ms before now as %s", (ms, text) => {
    expect(relativeTime(instantOf(now - ms), now)).toBe(text);
  });

  test("writes what has no time as a dash", () => {
    expect(relativeTime(null, now)).toBe("-");
  });
});

describe("selectorOfFlags", () => {
  test.each<[SelectorFlags, Selector]>([
    [
      { start: "a", end: "b" },
      { type: "range", start: "a", end: "b" },
    ],
    [{ partitions: "a,b" }, { type: "explicit", partition_keys: ["a", "b"] }],
    [{ all: true }, { type: "all" }],
    [{ stale: true }, { type: "stale", limit: 10_000 }],
    [
      { stale: true, reason: ["CODE_CHANGED"], limit: 5 },
      { type: "stale", reasons: ["CODE_CHANGED"], limit: 5 },
    ],
    [{ filter: ["region=us-*"] }, { type: "filter", dimensions: { region: "us-*" } }],
    [
      { filter: ["region=eu,us", "day=2026-01-01..2026-01-31"] },
      {
        type: "filter",
        dimensions: { region: ["eu", "us"], day: { start: "2026-01-01", end: "2026-01-31" } },
      },
    ],
  ])("makes of %j", (flags, selector) => {
    expect(selectorOfFlags(flags)).toEqual(selector);
  });

  test.each<[SelectorFlags, string]>([
    [{}, "or --stale, got nothing."],
    [{ stale: true, start: "a" }, "got --start and --end together with --stale."],
    [{ all: true, limit: 5 }, "--limit: expected only together with --stale, got it with --all."],
    [{ partitions: "a", reason: ["CODE_CHANGED"] }, "--reason: expected only together with"],
    [{ all: true, partitions: "a" }, "got --partitions together with --all."],
    [{ end: "a" }, "--start: expected the first partition key of the range, got nothing."],
    [{ partitions: "a,,b" }, '--partitions: expected keys separated by commas, got "a,,b".'],
    [{ filter: ["us-*"] }, '--filter: expected dimension=pattern such as region=us-*, got "us-*".'],
    [{ filter: ["r=a", "r=b"] }, "--filter: expected each dimension once, got r twice."],
  ])("refuses %j", (flags, message) => {
    expect(() => selectorOfFlags(flags)).toThrow(message);
  });
});

describe("keysOf", () => {
  test("tells the commas between keys from those within", () => {
    expect(keysOf("day=1,region=eu,day=2,region=us")).toEqual([
      "day=1,region=eu",
      "day=2,region=us",
    ]);
    expect(keysOf("day=1,region=eu;day=2,region=us")).toEqual([
      "day=1,region=eu",
      "day=2,region=us",
    ]);
  });

  test("takes blanks around keys for typing", () => {
    expect(keysOf("a, b")).toEqual(["a", "b"]);
  });
});

test("takes a dimension of any name for one, also one that every object has", () => {
  const names = ["__proto__", "constructor", "toString", "hasOwnProperty"];
  const selector = selectorOfFlags({ filter: names.map((name) => `${name}=x`) });
  if (selector.type !== "filter") throw new Error("A filter was asked for.");
  expect(Object.keys(selector.dimensions)).toEqual(names);
});
