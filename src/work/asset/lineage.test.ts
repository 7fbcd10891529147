import { describe, expect, test } from "vitest";
import { downstreamOf, groupByDefinition, topologicalOrder, upstreamCycle } from "./lineage.ts";
import { AssetSpec } from "../definition/spec.ts";

const DAILY = { type: "daily", start: "2025-01-01" };
const MONTHLY = { type: "monthly", start: "2025-01" };

function asset(
  key: string,
  partitions: unknown,
  upstream: Record<string, unknown> = {},
): AssetSpec {
  return AssetSpec.parse({
    kind: "asset",
    asset_key: key,
    partitions,
    upstream: Object.entries(upstream).map(([asset_key, mapping]) => ({ asset_key, mapping })),
  });
}

const identity = { type: "identity" };
const timeWindow = { type: "time_window" };
const keys = (assets: readonly AssetSpec[]) => assets.map((each) => each.asset_key);

describe("topologicalOrder", () => {
  test("puts assets after what they are made from, otherwise by key", () => {
    const assets = [
      asset("a", DAILY, { c: identity }),
      asset("c", DAILY, { elsewhere: identity }),
      asset("b", DAILY),
    ];

    expect(keys(topologicalOrder(assets))).toEqual(["c", "a", "b"]);
  });

  test("orders a chain deeper than the call stack", () => {
    const chain = Array.from({ length: 20_000 }, (_, at) =>
      asset(`a${at}`, null, at === 0 ? {} : { [`a${at - 1}`]: { type: "all" } }),
    );

    expect(topologicalOrder(chain.toReversed()).at(-1)?.asset_key).toBe("a19999");
  });
});

describe("upstreamCycle", () => {
  test("names the assets along a circle and nothing else", () => {
    const assets = [
      asset("entry", DAILY, { a: identity }),
      asset("a", DAILY, { b: identity }),
      asset("b", DAILY, { a: identity }),
    ];

    expect(upstreamCycle(assets)).toEqual(["a", "b", "a"]);
    expect(upstreamCycle([asset("self", DAILY, { self: identity })])).toEqual(["self", "self"]);
    expect(upstreamCycle([asset("a", DAILY), asset("b", DAILY, { a: identity })])).toBeNull();
  });
});

describe("groupByDefinition", () => {
  test("keeps assets of one definition together and puts the month after its days", () => {
    const assets = [
      asset("report", MONTHLY, { clean: timeWindow }),
      asset("clean", DAILY, { raw: identity }),
      asset("raw", DAILY),
    ];

    expect(groupByDefinition(assets).map(keys)).toEqual([["raw", "clean"], ["report"]]);
  });

  test("separates days that depend on other days", () => {
    const assets = [
      asset("raw", DAILY),
      asset("change", DAILY, { raw: { type: "offset", by: -1 } }),
    ];

    expect(groupByDefinition(assets).map(keys)).toEqual([["raw"], ["change"]]);
  });

  test("goes back to days after the month they depend on", () => {
    const assets = [
      asset("share", DAILY, { total: timeWindow, raw: identity }),
      asset("total", MONTHLY, { raw: timeWindow }),
      asset("raw", DAILY),
    ];

    expect(groupByDefinition(assets).map(keys)).toEqual([["raw"], ["total"], ["share"]]);
  });
});

describe("downstreamOf", () => {
  test("reaches everything made from the asset", () => {
    const assets = [
      asset("a", DAILY),
      asset("b", DAILY, { a: identity }),
      asset("c", DAILY, { b: identity }),
      asset("d", DAILY),
    ];

    expect(downstreamOf(assets, "a")).toEqual(["a", "b", "c"]);
  });
});
