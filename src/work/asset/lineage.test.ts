import { describe, expect, test } from "vitest";
import { groupByDefinition, isMadeInOrder, topologicalOrder, upstreamCycle } from "./lineage.ts";
import { downstreamOf, selectAssets, upstreamOf } from "./select-assets.ts";
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

describe("an asset that is made from its own earlier partitions", () => {
  const balance = asset("balance", DAILY, {
    balance: { type: "offset", by: -1 },
    orders: identity,
  });
  const assets = [balance, asset("orders", DAILY), asset("report", DAILY, { balance: identity })];

  test("I92: is no circle, and stands where it would stand without that", () => {
    expect(upstreamCycle(assets)).toBeNull();
    expect(keys(topologicalOrder(assets))).toEqual(["orders", "balance", "report"]);
    expect(groupByDefinition(assets).map(keys)).toEqual([["orders", "balance", "report"]]);
    expect(upstreamOf(assets, "balance")).toEqual(["balance", "orders"]);
    expect(assets.map(isMadeInOrder)).toEqual([true, false, false]);
  });

  test("is a circle where it is not earlier, or goes through another asset", () => {
    expect(upstreamCycle([asset("a", DAILY, { a: { type: "offset", by: 1 } })])).toEqual([
      "a",
      "a",
    ]);
    expect(upstreamCycle([asset("a", DAILY, { a: timeWindow })])).toEqual(["a", "a"]);
    const past = { type: "offset", by: -1 };
    const both = [asset("a", DAILY, { b: past }), asset("b", DAILY, { a: identity })];
    expect(upstreamCycle(both)).toEqual(["a", "b", "a"]);
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

describe("selectAssets", () => {
  const labelled = (spec: AssetSpec, labels: Record<string, string>): AssetSpec => ({
    ...spec,
    labels,
  });
  const assets: AssetSpec[] = [
    { ...asset("feed", DAILY), external: true },
    labelled(asset("orders", DAILY, { feed: identity }), { team: "growth", group: "raw" }),
    labelled(asset("sales", DAILY, { orders: identity }), { team: "growth", constructor: "x" }),
    asset("report", MONTHLY, { sales: timeWindow }),
    asset("other", DAILY),
  ];

  test("takes what an asset is made from, what is made from it, or both, without what is made elsewhere", () => {
    expect(upstreamOf(assets, "report")).toEqual(["feed", "orders", "report", "sales"]);
    expect(selectAssets(assets, ["+sales"])).toEqual(["orders", "sales"]);
    expect(selectAssets(assets, ["sales+"])).toEqual(["report", "sales"]);
    expect(selectAssets(assets, ["+sales+"])).toEqual(["orders", "sales", "report"]);
    expect(selectAssets(assets, ["other", "sales+", "+sales"])).toEqual([
      "other",
      "report",
      "sales",
      "orders",
    ]);
  });

  test("takes assets by a label, and by the label group", () => {
    expect(selectAssets(assets, ["label:team=growth"])).toEqual(["orders", "sales"]);
    expect(selectAssets(assets, ["group:raw", "label:constructor=x"])).toEqual(["orders", "sales"]);
  });

  test("says which values a label has when nobody has this one", () => {
    expect(() => selectAssets(assets, ["label:team=sale"])).toThrow(
      "No asset has the label team=sale: its values are growth.",
    );
    expect(() => selectAssets(assets, ["label:toString=1"])).toThrow("none has a label toString.");
  });

  test("leaves keys that nobody has to be refused by name", () => {
    expect(selectAssets(assets, ["nobody", "+nothing"])).toEqual(["nobody", "nothing"]);
    expect(selectAssets(assets, ["feed"])).toEqual(["feed"]);
  });

  test("walks through each asset once, however many words reach it", () => {
    let walked = 0;
    const chain = Array.from({ length: 300 }, (_, at): AssetSpec => {
      const { upstream, ...rest } = asset(
        `a${at}`,
        DAILY,
        at === 0 ? {} : { [`a${at - 1}`]: identity },
      );
      const counted = upstream.map((each) => ({
        ...each,
        get asset_key() {
          walked += 1;
          return each.asset_key;
        },
      }));
      return { ...rest, upstream: counted };
    });
    const words = chain.map(({ asset_key }) => `+${asset_key}+`);
    expect(selectAssets(chain, words)).toHaveLength(300);
    expect(walked).toBeLessThanOrEqual(2 * 300);
    expect(selectAssets(chain, ["+a2", "a2+", "+a1+"]).slice(0, 5)).toEqual([
      "a0",
      "a1",
      "a2",
      ...chain
        .map(({ asset_key }) => asset_key)
        .slice(3)
        .toSorted()
        .slice(0, 2),
    ]);
  });

  test("refuses words that select nothing but what is made elsewhere", () => {
    const elsewhere = [labelled({ ...asset("feed", DAILY), external: true }, { group: "feeds" })];
    for (const word of ["+feed", "feed+", "group:feeds"]) {
      expect(() => selectAssets(elsewhere, [word]), word).toThrow(
        `${word} selects only what is made elsewhere and never run here: feed.`,
      );
    }
  });
});
