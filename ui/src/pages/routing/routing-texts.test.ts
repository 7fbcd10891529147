import { describe, expect, test } from "vitest";
import { changeText, type RoutingVersion, typedRoutes } from "./routing-texts.ts";

const version = (routes: RoutingVersion["routes"], default_shard: string | null = null) =>
  ({ default_shard, routes }) as RoutingVersion;

describe("changeText", () => {
  test("tells the default and where tenants came from", () => {
    expect(changeText(version([{ tenant: "acme", shard: "b", from: null }], "a"))).toBe(
      "default → a, acme: default → b",
    );
  });

  test("counts what it does not tell", () => {
    const routes = ["1", "2", "3", "4", "5"].map((tenant) => ({ tenant, shard: "b", from: "a" }));
    expect(changeText(version(routes))).toBe("1: a → b, 2: a → b, 3: a → b, 2 more");
  });
});

describe("typedRoutes", () => {
  test("reads a route a line, and leaves out empty ones", () => {
    expect(typedRoutes(" acme = west \n\nx=1=east")).toEqual({
      routes: [
        { tenant: "acme", shard: "west" },
        { tenant: "x=1", shard: "east" },
      ],
      problem: null,
    });
  });

  test("names the line that is no route", () => {
    expect(typedRoutes("acme=west\nbeta")).toEqual({
      routes: null,
      problem: "Line 2 must be a tenant, = and a shard.",
    });
    expect(typedRoutes("acme=").problem).toContain("Line 1");
  });
});
