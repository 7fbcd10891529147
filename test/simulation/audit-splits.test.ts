import { describe, expect, test } from "vitest";
import { rollbackSplit, startDualWrite } from "../../src/work/split/commands.ts";
import type { NewEvent } from "../../src/work/events.ts";
import { bringOver, claimStep, endStep, plan, say, splitWorld } from "../properties/split-world.ts";
import type { Audited } from "./audit-ledger.ts";
import { SplitAudit } from "./audit-splits.ts";
import { Violations } from "./violations.ts";

type Ledger = (NewEvent & { pos: number })[];

/** A ledger of a split that was cut over and taken back, and whose plan is run again. */
function soundLedger(): Ledger {
  const world = splitWorld();
  const { split_id: split } = plan(world, { tenants: ["t1", "t2"] });
  bringOver(world, split);
  world.submit(rollbackSplit({ split }));
  world.settle();
  const cutback = claimStep(world);
  say(world, cutback, "commit");
  endStep(world, cutback);
  endStep(world, claimStep(world));
  world.submit(startDualWrite({ split }));
  world.settle();
  endStep(world, claimStep(world));
  return world.events;
}

/** The promises that an auditor finds broken in a ledger. */
function broken(ledger: Ledger): string[] {
  const violations = new Violations();
  const audit = new SplitAudit(violations);
  for (const { type, data, pos } of ledger) {
    const event = { type, data, pos, occurred_at: "2026-03-10T00:00:00.000Z" } as Audited;
    audit.expectNext(event);
    audit.see(event);
  }
  return [...new Set(violations.list.map(({ promise }) => promise))].toSorted();
}

/** The ledger with the events of a type changed or left out. */
function changed(type: NewEvent["type"], change: (data: never) => object | null): Ledger {
  return soundLedger().flatMap((event) => {
    if (event.type !== type) return [event];
    const data = change(event.data as never);
    return data === null ? [] : [{ ...event, data } as Ledger[number]];
  });
}

// Goal: the auditor of splits sees what it is there for. Method: break one rule in a sound ledger.
describe("the auditor of splits", () => {
  test("finds nothing in a sound ledger", () => {
    expect(broken(soundLedger())).toEqual([]);
  });

  test("finds a change of the routing without its commit record", () => {
    expect(broken(changed("SplitCutOver", () => null))).toContain("I53");
  });

  test("finds a version that does not follow, and a tenant that is left behind", () => {
    const skipped = changed("RoutingChanged", (data: { version: number }) => ({
      ...data,
      version: data.version * 2,
    }));
    expect(broken(skipped)).toContain("I53");
    const fewer = changed("RoutingChanged", (data: { routes: unknown[] }) => ({
      ...data,
      routes: data.routes.slice(1),
    }));
    expect(broken(fewer)).toContain("I53");
  });

  test("finds a cutover of what is not verified, or not wanted", () => {
    const unverified = changed("SplitCaughtUp", (data: object) => ({ ...data, report: {} }));
    expect(broken(unverified)).toContain("I55");
    expect(broken(changed("SplitWanted", () => null))).toContain("I55");
  });

  test("finds two steps at a time, and phases out of order", () => {
    expect(broken(changed("SplitStepSettled", () => null))).toContain("I57");
    const leap = changed("SplitPhaseChanged", (data: { to_phase: string }) =>
      data.to_phase === "backfill" ? { ...data, to_phase: "tailing" } : data,
    );
    expect(broken(leap)).toContain("I57");
  });

  test("finds a plan that is run again with tenants that are elsewhere by now, or are left out", () => {
    type Again = { again?: { epochs: number[] }; tenants?: string[] };
    const stale = changed("SplitPhaseChanged", (data: Again) =>
      data.again === undefined ? data : { ...data, again: { ...data.again, epochs: [1, 1] } },
    );
    expect(broken(stale)).toEqual(["I53"]);
    const fewer = changed("SplitPhaseChanged", (data: Again) =>
      data.again === undefined ? data : { ...data, tenants: data.tenants?.slice(1) },
    );
    expect(broken(fewer)).toEqual(["I57"]);
  });

  test("finds two splits about one tenant", () => {
    const ledger = soundLedger().flatMap((event): Ledger => {
      if (event.type !== "SplitPlanned") return [event];
      const data = { ...event.data, split_id: "other" };
      return [event, { ...event, data }];
    });
    expect(broken(ledger)).toContain("I57");
  });
});
