import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { advanceSplit } from "../../src/work/split/advance.ts";
import { cancelRun } from "../../src/work/run/cancel.ts";
import { changeRouting } from "../../src/work/routing/commands.ts";
import {
  changeSchema,
  completeSplit,
  requestCutover,
  resumeSplit,
  rollbackSplit,
  runBackfill,
  startDualWrite,
} from "../../src/work/split/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type { SplitRow } from "../../src/work/split/rows.ts";
import type { SplitReport } from "../../src/work/shard/step-protocol.ts";
import { AuditedWorld } from "./audited-world.ts";
import {
  claimSteps,
  endStep,
  FINAL,
  type HeldStep,
  loseWorker,
  plan,
  say,
  soundReport,
  VERIFIED,
} from "./split-world.ts";

/** One thing that happens; each number picks what, to whom and how. */
type Act = readonly [what: number, whom: number, how: number];

/** What happens more often stands there more often. */
const KINDS = "0 1 2 2 2 2 2 2 2 2 2 2 3 3 4 4 4 5 6 6 7 8 9 10".split(" ").map(Number);

const history: fc.Arbitrary<Act[]> = fc.array(
  fc.tuple(fc.constantFrom(...KINDS), fc.nat(11), fc.nat(11)),
  { maxLength: 120, size: "max" },
);

/** The world after a history; what is refused is part of it. */
function lived(acts: readonly Act[]): AuditedWorld {
  const world = new AuditedWorld();
  plan(world, { tenants: ["t1", "t2"], grace_ms: 10_000 });
  for (const act of acts) {
    try {
      live(world, act);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
    }
    world.settle();
  }
  return world;
}

function live(world: AuditedWorld, [what, whom, how]: Act): void {
  const splits = world.splits();
  const split = splits[whom % Math.max(1, splits.length)];
  const held = world.held[whom % Math.max(1, world.held.length)];
  switch (what) {
    case 0:
      plan(world, {
        source: ["a", "a", "b", "c"][how % 4] ?? "a",
        target: ["b", "c", "a"][whom % 3] ?? "b",
        tenants: [`t${how % 3}`, `t${3 + (whom % 3)}`].slice(0, 1 + (how % 2)),
        auto_cutover: how > 7,
        grace_ms: 10_000,
      });
      return;
    case 1:
      world.held.push(...claimSteps(world));
      return;
    case 2:
      if (split !== undefined) goOn(world, split);
      return;
    case 3:
      if (held !== undefined) saySomething(world, held, how);
      return;
    case 4:
      if (held !== undefined) end(world, held, how);
      return;
    case 5:
      if (held !== undefined) loseWorker(world, held);
      return;
    case 6:
      if (split !== undefined) world.submit(anyCommand(split, how));
      return;
    case 7:
      if (split !== undefined) world.submit(rollbackSplit({ split: split.split_id }));
      return;
    case 8: {
      const shard = ["a", "b", "c"][whom % 3] ?? "a";
      const tenant = `t${how % 7}`;
      world.submit(
        changeRouting(how > 8 ? { default_shard: shard, routes: [] } : route(tenant, shard)),
      );
      return;
    }
    case 9:
      world.submit(cancelRun({ run_id: split?.run_id ?? "none" }));
      return;
    default:
      world.pass([1, 1_000, 15_000, 70_000][how % 4] ?? 1);
  }
}

function route(tenant: string, shard: string) {
  return { routes: [{ tenant, shard }] };
}

/** Whatever somebody may ask of a split, whether it makes sense or not. */
function anyCommand({ split_id: split, state_version }: SplitRow, how: number): Decide<unknown> {
  const commands: Decide<unknown>[] = [
    startDualWrite({ split }),
    runBackfill({ split }),
    requestCutover({ split }),
    requestCutover({ split, expected_state_version: state_version - 1 }),
    completeSplit({ split }),
    resumeSplit({ split }),
    changeSchema({ split, ddl: "alter table users add x" }),
    rollbackSplit({ split }),
  ];
  return commands[how % commands.length] ?? resumeSplit({ split });
}

/** The word of a worker: often what is true, sometimes what is not for it to say. */
function saySomething(world: AuditedWorld, held: HeldStep, how: number): void {
  const record = (["caught_up", "commit", null] as const)[how % 3] ?? null;
  const reports: SplitReport[] = [
    soundReport(held.step),
    { verification: VERIFIED },
    { verification: { ...VERIFIED, ok: false } },
    {},
  ];
  const answer = say(world, held, record, reports[Math.floor(how / 3)] ?? {});
  const { step, source, target, tenants } = held.step;
  if (record !== "commit" || answer.routing_version === null) return;
  // Whoever is told of a version owns what it says, or has handed it on since.
  expect(["cutover", "cutback"]).toContain(step);
  const [tenant = ""] = tenants;
  const version = world.read((rows) => rows.routingVersions.get(answer.routing_version ?? 0));
  expect(version?.routes[0]).toMatchObject({
    tenant,
    shard: step === "cutover" ? target : source,
  });
}

/** An attempt comes to one of its ends. */
function end(world: AuditedWorld, held: HeldStep, how: number): void {
  world.held.splice(world.held.indexOf(held), 1);
  const unfit = { checks: [{ check: "alike", ok: false, note: "it is not" }] };
  const ends: Parameters<typeof endStep>[2][] = [
    {},
    {},
    {},
    { report: {} },
    { report: unfit },
    { outcome: "FAILED", report: {} },
    { outcome: "FAILED", released: true, report: {} },
    FINAL,
    FINAL,
    { outcome: "CANCELLED", report: {} },
  ];
  endStep(world, held, ends[how % ends.length]);
}

/** Does what takes a split on its way, as an operator and a worker would who make no mistakes. */
function goOn(world: AuditedWorld, row: SplitRow): void {
  world.held.push(...claimSteps(world));
  const held = world.held.find(
    ({ step }) => step.split_id === row.split_id && step.n === row.steps,
  );
  const { split_id: split, phase, wanted, step } = row;
  const isLong = step === "tail" || step === "reverse";
  if (held !== undefined && !(isLong && wanted === null)) {
    if (step === "cutover" || step === "cutback") say(world, held, "commit");
    end(world, held, 0);
    return;
  }
  const isBehind = phase === "tailing" || phase === "cutover_pending";
  if (held !== undefined && isBehind && row.tail_status !== "caught_up") {
    say(world, held, "caught_up");
    return;
  }
  // A check that found something, or did not say what, stays as a failed step does.
  if (row.run_pos === null && row.step_state !== null) world.submit(resumeSplit({ split }));
  else if (phase === "planning") world.submit(startDualWrite({ split }));
  else if (phase === "dual_write") world.submit(runBackfill({ split }));
  else if (phase === "cutover_pending") world.submit(requestCutover({ split }));
  else if (phase === "reversible") world.submit(completeSplit({ split }));
  else if (phase === "rolled_back") world.submit(startDualWrite({ split }));
  else world.pass(15_000);
}

function holds(promise: string): void {
  const seen = new Set<string>();
  fc.assert(
    fc.property(history, (acts) => {
      const { violations, events } = lived(acts);
      expect(violations.list.filter((violation) => violation.promise === promise)).toEqual([]);
      for (const { type } of events) seen.add(type);
    }),
    { numRuns: 30 },
  );
  // Histories that never get anywhere would prove nothing.
  expect(seen).toContain("SplitCutOver");
}

/** Whether nothing is left to do for a split. */
function isOver({ phase, remove_after, step_state }: SplitRow): boolean {
  return (
    (phase === "completed" || phase === "rolled_back") &&
    remove_after === null &&
    step_state === null
  );
}

// Goal: what the ledger promises about splits, on every history that could have happened. Method: live
// a random history of operators, workers and time with the real decisions; an auditor that shares
// nothing with the fold looks at every event, and its understanding is held against the rows.
describe("splits", () => {
  test("I53: give tenants one owner at a time; epochs grow by 1 with each cutover", () => {
    holds("I53");
  });

  test("I55: are cut over only when they are copied, caught up and verified, and wanted so", () => {
    holds("I55");
  });

  test("I56: go back as long as nobody has begun to take the way back down", () => {
    holds("I56");
  });

  test("I57: work on one step at a time, through legal phases, and never overlap", () => {
    holds("I57");
  });

  test("I7: count the versions of their state", () => {
    holds("I7");
  });

  test("settle: once they have had their way they have nothing to add", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        const context = world.context();
        for (const split of world.splits()) {
          expect(world.read((rows) => advanceSplit(rows, split, context))).toEqual([]);
        }
      }),
      { numRuns: 30 },
    );
  });

  test("I37: come to an end once faults stop and a worker is there", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        for (let round = 0; round < 200 && !world.splits().every(isOver); round++) {
          for (const row of world.splits()) {
            try {
              if (!isOver(row)) goOn(world, row);
            } catch (error) {
              if (!(error instanceof PawlError)) throw error;
            }
            world.settle();
          }
          // Those whose worker is gone are tried by another.
          for (const held of world.held.splice(0)) loseWorker(world, held);
          world.pass(61_000);
          world.settle();
        }
        expect(world.splits().filter((split) => !isOver(split))).toEqual([]);
        expect(world.violations.list).toEqual([]);
      }),
      { numRuns: 15 },
    );
  });
});
