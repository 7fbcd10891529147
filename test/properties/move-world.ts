import { expireLeases } from "../../src/work/run/expire-leases.ts";
import { planMove } from "../../src/work/move/commands.ts";
import { MovePlan } from "../../src/work/move/spec.ts";
import type { ClaimedGroup, ReportedResult } from "../../src/work/run/protocol.ts";
import type { MoveRow } from "../../src/work/move/rows.ts";
import { shardWorkNames } from "../../src/work/shard/spec.ts";
import type { ClaimedMove, MoveReport } from "../../src/work/shard/step-protocol.ts";
import { LedgerWorld } from "./ledger-world.ts";
import { SHARDS, shardsSpec } from "./split-world.ts";

/** A claimed task that is a step of a move. */
export type HeldMoveStep = ClaimedGroup & { step: ClaimedMove };

const FROM = { by: "tenant", tenants: {}, default: "a" } as const;
const TO = { by: "tenant", tenants: { t1: "b", t2: "c" }, default: "a" } as const;

/** A world with shards, between which nothing is on its way. */
export function moveWorld(): LedgerWorld {
  const world = new LedgerWorld();
  world.publish(shardsSpec());
  return world;
}

/** Plans a move of two tenants to two other shards; answers its id. */
export function planned(world: LedgerWorld, own: object = {}, dryRun = false): string {
  const plan = MovePlan.parse({ from: FROM, to: TO, segment_attempts: 3, ...own });
  const { move_id } = world.submit(planMove({ plan }, dryRun));
  world.settle();
  return move_id;
}

/** The move of a world, by its id. */
export function moveAt(world: LedgerWorld, moveId: string): MoveRow {
  const move = world.moves().find(({ move_id }) => move_id === moveId);
  if (move === undefined) throw new Error("There is no such move.");
  return move;
}

/** Claims steps for a worker that knows all shards. */
export function claimMoveSteps(world: LedgerWorld, slots = 100): HeldMoveStep[] {
  return world.claim(shardWorkNames(SHARDS), slots).flatMap((group) => {
    const { step } = group;
    return step?.work === "move" ? [{ ...group, step }] : [];
  });
}

/** What a step that does all it should says at its end; a survey finds two segments and the end. */
export function soundMoveReport({ step, lower, rows, digest }: ClaimedMove): MoveReport {
  switch (step) {
    case "survey":
      return lower === null
        ? { bounds: [{ upper: ["5"], rows: 4 }], sealed: false }
        : { bounds: [{ upper: null, rows: 3 }], sealed: true };
    case "copy":
      return { rows: 4, bytes: 40, work_ms: 5, cursor: ["4"], digest: "d", equal: true };
    case "verify":
      return { rows: rows ?? 0, digest: digest ?? "d", equal: true };
    case "remove":
      return digest === null ? { rows_removed: 4 } : { equal: true, rows_removed: rows ?? 0 };
    case "check":
      return { equal: true, misplaced: [], excepted: 0, note: null };
  }
}

function refOf({ run_pos, tasks }: HeldMoveStep) {
  const [task] = tasks;
  if (task === undefined) throw new Error("The group has no task.");
  return { run_pos, task_key: task.task_key, attempt: task.attempt };
}

/** Ends an attempt: by default, with all done. */
export function endMoveStep(
  world: LedgerWorld,
  held: HeldMoveStep,
  own: Partial<Omit<ReportedResult, "step">> & { report?: MoveReport } = {},
): "recorded" | "lost" {
  const { report = soundMoveReport(held.step), ...result } = own;
  const [verdict] = world.report({
    ...refOf(held),
    outcome: "SUCCEEDED",
    step: { work: "move", ...report },
    ...result,
  });
  world.settle();
  return verdict ?? "lost";
}

/** Lets the lease of a worker that is gone run out, and the time before the next attempt pass. */
export function loseMoveWorker(world: LedgerWorld, held: HeldMoveStep): void {
  const task = { ...refOf(held), deadline_at: world.now };
  const lease = { lease_id: "lease", worker_id: "worker", expires_at: world.now, tasks: [task] };
  world.submit((rows, context) => {
    const { events } = expireLeases(rows, [lease], context);
    return { events, result: null };
  });
  world.settle();
  world.pass(60_000);
}

/** Works until nothing waits any more; answers how many steps that took. */
export function workOff(world: LedgerWorld, most = 1_000): number {
  for (let steps = 0; steps < most; ) {
    world.pass(60_000);
    world.settle();
    const held = claimMoveSteps(world);
    if (held.length === 0) return steps;
    for (const each of held) endMoveStep(world, each);
    steps += held.length;
  }
  throw new Error("The work does not come to an end.");
}
