import { changeRouting, routeOf, type CurrentRoute } from "../../src/work/routing/commands.ts";
import {
  planSplit,
  requestCutover,
  runBackfill,
  type SplitChanged,
  type SplitInput,
  startDualWrite,
} from "../../src/work/split/commands.ts";
import { expireLeases } from "../../src/work/run/expire-leases.ts";
import { reportStep } from "../../src/work/split/report-step.ts";
import type { ClaimedGroup, ReportedResult } from "../../src/work/run/protocol.ts";
import type { SplitRow } from "../../src/work/split/rows.ts";
import { shardWorkNames } from "../../src/work/shard/spec.ts";
import type {
  ClaimedSplit,
  SplitReport,
  StepAnswer,
  StepWord,
} from "../../src/work/shard/step-protocol.ts";
import { LedgerWorld } from "./ledger-world.ts";

/** The shards of a test; the last one is kept in another engine. */
export const SHARDS = ["a", "b", "c", "p"];

/** The shards as they are published, written with what matters only. */
export function shardsSpec(own: object = {}): object {
  return {
    kind: "shards",
    name: "shards",
    shards: SHARDS.map((shard) => ({ shard, engine: shard === "p" ? "postgres" : "sqlite" })),
    tables: [
      { table: "users", shard_by: "tenant" },
      { table: "orders", shard_by: "tenant" },
    ],
    retry: { max_attempts: null, delay_ms: 1_000, jitter: 0 },
    ...own,
  };
}

/** A world with shards, and everybody on the first of them. */
export function splitWorld(): LedgerWorld {
  const world = new LedgerWorld();
  world.publish(shardsSpec());
  world.submit(changeRouting({ default_shard: "a", routes: [] }));
  return world;
}

/** Plans a split of one tenant from the first shard to the second. */
export function plan(world: LedgerWorld, own: Partial<SplitInput> = {}): SplitChanged {
  const input = { source: "a", target: "b", tenants: ["t1"], ...own };
  const planned = world.submit(planSplit(input));
  world.settle();
  return planned;
}

/** The split of a world, by its place or its id. */
export function splitAt(world: LedgerWorld, which: number | string = 0): SplitRow {
  const splits = world.splits();
  const split =
    typeof which === "number" ? splits[which] : splits.find(({ split_id }) => split_id === which);
  if (split === undefined) throw new Error("There is no such split.");
  return split;
}

/** Where a tenant is routed to. */
export function routeIn(world: LedgerWorld, tenant: string): CurrentRoute | null {
  return world.read((rows) => routeOf(rows, tenant));
}

/** A claimed task that is a step of a split. */
export type HeldStep = ClaimedGroup & { step: ClaimedSplit };

/** Claims steps for a worker that knows all shards. */
export function claimSteps(world: LedgerWorld): HeldStep[] {
  return world.claim(shardWorkNames(SHARDS)).flatMap((group) => {
    const { step } = group;
    return step?.work === "split" ? [{ ...group, step }] : [];
  });
}

/** Claims the one step that waits. */
export function claimStep(world: LedgerWorld): HeldStep {
  const [held, ...more] = claimSteps(world);
  if (held === undefined || more.length > 0) throw new Error("There is not just one step.");
  return held;
}

/** A verification of everything, with nothing amiss. */
export const VERIFIED = { ok: true, ranges: 2, rows: 7, finished: true, note: null };

/** What a step that does all it should says at its end. */
export function soundReport({ step, tables }: ClaimedSplit): SplitReport {
  switch (step) {
    case "check":
      return { checks: [{ check: "schemas alike", ok: true, note: null }] };
    case "copy":
      return {
        rows_copied: 7,
        tables: tables.map(({ table }) => ({ table, rows: 3, cursor: null, done: true })),
      };
    case "tail":
      return { lag_events: 0, lag_ms: 3, last_event_id: "9", verification: VERIFIED };
    case "cutover":
    case "cutback":
      return { write_pause_ms: 12.5 };
    default:
      return {};
  }
}

function refOf({ run_pos, tasks }: HeldStep) {
  const [task] = tasks;
  if (task === undefined) throw new Error("The group has no task.");
  return { run_pos, task_key: task.task_key, attempt: task.attempt };
}

/** Has a worker say how far its step is. */
export function say(
  world: LedgerWorld,
  held: HeldStep,
  record: StepWord["record"] = null,
  report: SplitReport = soundReport(held.step),
): StepAnswer {
  const answer = world.submit(
    reportStep({
      ...refOf(held),
      worker_id: "worker",
      report: { work: "split", ...report },
      record,
    }),
  );
  world.settle();
  return answer;
}

/** Ends an attempt: by default, with all done. */
export function endStep(
  world: LedgerWorld,
  held: HeldStep,
  own: Partial<Omit<ReportedResult, "step">> & { report?: SplitReport } = {},
): "recorded" | "lost" {
  const { report = soundReport(held.step), ...result } = own;
  const [verdict] = world.report({
    ...refOf(held),
    outcome: "SUCCEEDED",
    step: { work: "split", ...report },
    ...result,
  });
  world.settle();
  return verdict ?? "lost";
}

/** How an attempt ends that trying again cannot help. */
export const FINAL = {
  outcome: "FAILED",
  final: true,
  report: {},
  error: { class: "user", message: "no luck" },
} as const;

/** Takes a planned split to where its capture is armed. */
export function arm(world: LedgerWorld, split: string): void {
  endStep(world, claimStep(world));
  world.submit(startDualWrite({ split }));
  world.settle();
  endStep(world, claimStep(world));
}

/** Takes a planned split to its tail, which is running and caught up; answers who holds it. */
export function catchUp(world: LedgerWorld, split: string): HeldStep {
  arm(world, split);
  world.submit(runBackfill({ split }));
  world.settle();
  endStep(world, claimStep(world));
  const tail = claimStep(world);
  say(world, tail, "caught_up");
  return tail;
}

/** Takes a planned split to its cutover, which is running; answers who holds it. */
export function beginCutover(world: LedgerWorld, split: string): HeldStep {
  const tail = catchUp(world, split);
  world.submit(requestCutover({ split }));
  world.settle();
  endStep(world, tail);
  return claimStep(world);
}

/** Takes a planned split over to its target; answers the version of the routing that did it. */
export function bringOver(world: LedgerWorld, split: string): number {
  const held = beginCutover(world, split);
  const { routing_version } = say(world, held, "commit");
  endStep(world, held);
  if (routing_version === null) throw new Error("The cutover was not recorded.");
  return routing_version;
}

/** Lets the lease of a worker that is gone run out, and the time before the next attempt pass. */
export function loseWorker(world: LedgerWorld, held: HeldStep): void {
  const task = { ...refOf(held), deadline_at: world.now };
  const lease = { lease_id: "lease", worker_id: "worker", expires_at: world.now, tasks: [task] };
  world.submit((rows, context) => {
    const { events } = expireLeases(rows, [lease], context);
    return { events, result: null };
  });
  world.settle();
  world.pass(60_000);
}
