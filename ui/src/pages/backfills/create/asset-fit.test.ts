import { describe, expect, test } from "vitest";
import type { PartitionDefinition } from "../../../../../src/kernel/keyspace/definition.ts";
import { type Asset, byFit, choosing, fitOf, leadingAsset, linked, withKind } from "./asset-fit.ts";
import { EMPTY_FORM } from "./create-form.ts";

const DAYS: PartitionDefinition = { type: "daily", start: "2026-01-01", time_zone: "UTC" };
const REGIONS: PartitionDefinition = { type: "static", keys: ["eu", "us"] };

/** As much of an asset as is looked at here. */
function asset(
  asset_key: string,
  partitions: PartitionDefinition | null,
  upstream: string[] = [],
): Asset {
  const made = upstream.map((key) => ({ asset_key: key, mapping: { type: "identity" } }));
  return { asset_key, spec: { asset_key, partitions, upstream: made } } as unknown as Asset;
}

const raw = asset("raw", DAYS);
const clean = asset("clean", DAYS, ["raw"]);
const report = asset("report", null, ["raw"]);
const regions = asset("regions", REGIONS);
const ALL = [clean, raw, regions, report];

describe("leadingAsset", () => {
  test("is the one that the others are made from", () => {
    expect(leadingAsset([clean, raw])).toBe(raw);
    expect(leadingAsset([clean, report])).toBe(clean);
    const balance = asset("balance", DAYS, ["balance"]);
    expect(leadingAsset([asset("late", DAYS, ["balance"]), balance])).toBe(balance);
    expect(leadingAsset([])).toBeNull();
  });
});

describe("linked", () => {
  test("is what is made from the chosen ones or what they are made from, of what is made here", () => {
    expect(linked(ALL, ["raw"], "downstream")).toEqual(["clean", "raw", "report"]);
    expect(linked(ALL, ["clean", "regions"], "upstream")).toEqual(["clean", "raw", "regions"]);
    const outside = { ...raw, spec: { ...raw.spec, external: true as const } };
    expect(linked([outside, clean], ["clean"], "upstream")).toEqual(["clean"]);
  });
});

describe("fitOf", () => {
  test("says how assets go together, and those that do best come first", () => {
    expect(ALL.map((each) => fitOf(each, raw))).toEqual(["same", "first", "other", "downstream"]);
    expect(fitOf(raw, report)).toBe("upstream");
    const keys = byFit(ALL, ["raw"], raw).map(({ asset_key }) => asset_key);
    expect(keys).toEqual(["raw", "clean", "report", "regions"]);
  });
});

describe("withKind", () => {
  test("shows the usual way to choose until another is chosen", () => {
    expect(withKind(EMPTY_FORM, DAYS).kind).toBe("range");
    expect(withKind(EMPTY_FORM, REGIONS).kind).toBe("filter");
    expect(withKind({ ...EMPTY_FORM, kind: "keys" }, DAYS).kind).toBe("keys");
    expect(withKind({ ...EMPTY_FORM, kind: "keys" }, null).kind).toBe("all");
  });
});

describe("choosing", () => {
  const form = { ...EMPTY_FORM, assets: ["raw"], kind: "range" as const, start: "2026-01-01" };

  test("keeps the selection while it means the same", () => {
    expect(choosing(form, ["raw", "clean", "regions"], ALL)).toEqual({
      assets: ["raw", "clean", "regions"],
    });
    expect(choosing({ ...form, kind: "stale" }, ["regions"], ALL)).toEqual({ assets: ["regions"] });
  });

  test("lets go of a selection that was made for other partitions", () => {
    expect(choosing(form, ["regions"], ALL)).toMatchObject({ kind: null, start: "" });
    expect(choosing(form, [], ALL)).toMatchObject({ assets: [], kind: null });
  });
});
