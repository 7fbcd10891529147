import { expect } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { shardWorkNames } from "../../src/work/shard/spec.ts";
import type {
  ClaimedMove,
  ClaimedSplit,
  ClaimedStep,
  MoveReport,
  SplitReport,
  SplitStep,
  StepAnswer,
} from "../../src/work/shard/step-protocol.ts";

type Body = PartInput<"publishDefinitions", "body">["specs"][number];
type MoveBody = Extract<Body, { kind: "move" }>;

/** Three shards of one engine and one of another, with two tables in common. */
export const SHARDS = {
  kind: "shards",
  name: "shards",
  shards: [
    { shard: "a", engine: "sqlite" },
    { shard: "b", engine: "sqlite" },
    { shard: "c", engine: "sqlite" },
    { shard: "p", engine: "postgres" },
  ],
  tables: [
    { table: "users", shard_by: "tenant" },
    { table: "orders", shard_by: "tenant" },
  ],
  retry: { max_attempts: null, delay_ms: 3_600_000, max_delay_ms: 3_600_000 },
} satisfies Body;

/** A move of one tenant from a to b. */
export const SPREAD = {
  kind: "move",
  name: "spread",
  from: { by: "tenant", tenants: {}, default: "a" },
  to: { by: "tenant", tenants: { acme: "b" }, default: "a" },
  tables: ["users"],
  segment_attempts: 1,
} satisfies MoveBody;

/** Publishes the shards and moves as a deploy does. */
export async function publishShards(client: Client, ...moves: MoveBody[]): Promise<void> {
  const body = { specs: [SHARDS, ...moves], origin: "code" as const, prune: true };
  await client.call("publishDefinitions", { body });
}

/** A step that a test has taken, with what it needs to say what became of it. */
export type Taken<Step extends ClaimedStep = ClaimedStep> = {
  step: Step;
  lease_id: string;
  run_pos: number;
  task_key: number;
  attempt: number;
};

const WORKER = { worker_id: "hand" };

/** Takes a step that is ready; fails when there is none. */
export async function takeStep(client: Client): Promise<Taken> {
  const lease_id = crypto.randomUUID();
  const assets = shardWorkNames(SHARDS.shards.map(({ shard }) => shard));
  const { groups } = await client.call("claim", {
    body: { ...WORKER, lease_id, slots: 1, assets, code_version: null, wait_ms: 5_000 },
  });
  const [group] = groups;
  const task = group?.tasks[0];
  if (group?.step === undefined || task === undefined) throw new Error("No step is ready.");
  const { run_pos, step } = group;
  return { step, lease_id, run_pos, task_key: task.task_key, attempt: task.attempt };
}

/** Takes the step of a split that must be this one. */
export async function takeSplitStep(client: Client, step: SplitStep): Promise<Taken<ClaimedSplit>> {
  const taken = await takeStep(client);
  expect(taken.step).toMatchObject({ work: "split", step });
  return taken as Taken<ClaimedSplit>;
}

/** Takes a step of a move that must be this one. */
export async function takeMoveStep(
  client: Client,
  step: ClaimedMove["step"],
): Promise<Taken<ClaimedMove>> {
  const taken = await takeStep(client);
  expect(taken.step).toMatchObject({ work: "move", step });
  return taken as Taken<ClaimedMove>;
}

/** Says how far a step is, and hears whether to stop. */
export function say(
  client: Client,
  { run_pos, task_key, attempt, step }: Taken,
  report: SplitReport | MoveReport,
  record: "caught_up" | "commit" | null = null,
): Promise<StepAnswer> {
  const said = { work: step.work, ...report };
  const body = { ...WORKER, run_pos, task_key, attempt, report: said, record };
  return client.call("sayStep", { body });
}

/** What became of an attempt, where it is not plain success. */
export type Ended = { error?: { class: string; message: string }; final?: boolean };

/** Ends an attempt at a step with what it found. */
export async function endStep(
  client: Client,
  taken: Taken,
  report: SplitReport | MoveReport = {},
  { error, final }: Ended = {},
): Promise<void> {
  const { run_pos, task_key, attempt, step, lease_id } = taken;
  const result = {
    run_pos,
    task_key,
    attempt,
    outcome: error === undefined ? ("SUCCEEDED" as const) : ("FAILED" as const),
    step: { work: step.work, ...report },
    ...(error === undefined ? {} : { error }),
    ...(final === undefined ? {} : { final }),
  };
  const answer = await client.call("report", {
    body: { ...WORKER, code_version: null, results: [result], released_leases: [lease_id] },
  });
  expect(answer.results).toEqual(["recorded"]);
}

/** Ends the look of a move before its first copy: nothing stands in the way. */
export async function lookBefore(client: Client): Promise<void> {
  await endStep(client, await takeMoveStep(client, "check"), { equal: true, misplaced: [] });
}

/** What a check says of shards that fit together. */
export const FITTING: SplitReport = {
  checks: [{ check: "schema of users", ok: true, note: null }],
};

/** What a copy says that is through. */
export const COPIED: SplitReport = {
  rows_copied: 30,
  tables: [
    { table: "users", rows: 10, cursor: ["10"], done: true },
    { table: "orders", rows: 20, cursor: ["20"], done: true },
  ],
  tenant_rows: { acme: 30 },
};

/** What a tail says that is caught up and verified. */
export const CAUGHT_UP: SplitReport = {
  last_event_id: "7",
  last_event_at: "2026-01-01T00:00:00.000Z",
  lag_events: 0,
  lag_ms: 3,
  verification: { ok: true, ranges: 2, rows: 30, finished: true, note: null },
};
