import { describe, expect, test } from "vitest";
import { SensorTarget } from "../definition/spec.ts";
import type { Json } from "../../kernel/canonical.ts";
import { requestOfTarget, requestsOfTarget } from "./target.ts";

const MESSAGE: Json = {
  message_id: "m1",
  type: "order.paid",
  attributes: { region: "eu", "ce.subject": "orders" },
  payload: { region: "us", day: 3, big: { n: 1 }, list: ["a", "b"], none: null },
};

function filled(target: object, item: Json = MESSAGE) {
  return requestOfTarget(SensorTarget.parse({ asset_selection: ["a"], ...target }), item);
}

describe("requestsOfTarget", () => {
  test("asks for one run for each item, with the fields of the item in place of their names", () => {
    const target = SensorTarget.parse({
      asset_selection: ["a", "b"],
      partition_key: "{stem}",
      run_key: "file-{name}",
    });
    const items = [
      { name: "x.csv", stem: "x" },
      { name: "y.csv", stem: "y" },
    ];
    expect(requestsOfTarget(target, items)).toEqual([
      {
        asset_selection: ["a", "b"],
        partition_keys: ["x"],
        run_key: "file-x.csv",
        config: null,
        labels: {},
      },
      {
        asset_selection: ["a", "b"],
        partition_keys: ["y"],
        run_key: "file-y.csv",
        config: null,
        labels: {},
      },
    ]);
    expect(requestsOfTarget(target, [])).toEqual([]);
  });

  test("fills fields of a message, also those whose names have dots", () => {
    expect(
      filled({
        partition_key: "{payload.region}",
        run_key: "{type}/{message_id}/{attributes.ce.subject}/{payload.list.1}/{payload.day}",
      }),
    ).toMatchObject({ partition_keys: ["us"], run_key: "order.paid/m1/orders/b/3" });
  });

  test("keeps the kind of a value that stands alone in the configuration", () => {
    const config = {
      day: "{payload.day}",
      text: "day {payload.day}",
      all: ["{payload.big}", 7, true, null],
      none: "{payload.none}",
    };
    expect(filled({ config })?.config).toEqual({
      day: 3,
      text: "day 3",
      all: [{ n: 1 }, 7, true, null],
      none: null,
    });
  });

  test("takes doubled braces for braces themselves", () => {
    expect(filled({ run_key: "{{{type}}} }}{{" })?.run_key).toBe("{order.paid} }{");
  });

  test("names the field that the item does not have", () => {
    expect(() => filled({ run_key: "{payload.city}" })).toThrow(/the field payload\.city, which/);
    expect(() => filled({ run_key: "{payload.none}" })).toThrow(/payload\.none/);
    expect(() => filled({ config: ["{nothing}"] })).toThrow(/nothing/);
    expect(() => filled({ run_key: "{type.length}" })).toThrow(/type\.length/);
    expect(() => filled({ run_key: "{constructor}" })).toThrow(/constructor/);
    expect(() => filled({ run_key: "{x}" }, null)).toThrow(/field x/);
  });

  test("refuses what cannot be a text, a brace that opens nothing, and a text that is too long", () => {
    expect(() => filled({ run_key: "{payload.big}" })).toThrow(/payload\.big, which is no text/);
    for (const run_key of ["{", "a}", "{}", "{ }", "{a{b}"]) {
      expect(() => filled({ run_key })).toThrow(/brace that opens no field/);
    }
    expect(() => filled({ run_key: "{long}" }, { long: "x".repeat(201) })).toThrow(/run_key/);
    expect(() => filled({ partition_key: "{empty}" }, { empty: "" })).toThrow(/partition_keys/);
  });

  test("refuses an item that does not fit, and holds up no other", () => {
    const target = SensorTarget.parse({ asset_selection: ["a"], partition_key: "{day}" });
    const requests = requestsOfTarget(target, [{ day: "mon" }, {}, { day: "tue" }]);
    expect(requests.map(({ partition_keys }) => partition_keys)).toEqual([["mon"], null, ["tue"]]);
    expect(requests.map(({ error }) => error?.class)).toEqual([
      undefined,
      "INPUT_INVALID",
      undefined,
    ]);
    expect(requests[1]?.error?.message).toMatch(/the field day, which the item does not have/);
  });
});
