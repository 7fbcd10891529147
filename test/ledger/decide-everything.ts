import { pauseBackfill, resumeBackfill, retuneBackfill } from "../../src/work/backfill/commands.ts";
import { addPartitionKeys, removePartitionKeys } from "../../src/work/definition/partition-keys.ts";
import { cancelRun } from "../../src/work/run/cancel.ts";
import { createBackfill, retryBackfill } from "../../src/work/backfill/create.ts";
import type { Decide } from "../../src/work/decision.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { requestRun } from "../../src/work/run/request.ts";
import { setTimeout as sleep } from "node:timers/promises";
import type { RecordedEvent } from "../../src/work/envelope.ts";
import type { ClaimedGroup, ReportedResult } from "../../src/work/run/protocol.ts";
import type { Spec } from "../../src/work/definition/published-spec.ts";
import { AssetSpec, PoolSpec } from "../../src/work/definition/spec.ts";
import { Engine } from "../../src/engine/engine.ts";
import { stateHashes } from "../../src/engine/ledger/verify.ts";
import type { Store } from "../../src/store/store.ts";
import { shardWorkNames } from "../../src/work/shard/spec.ts";
import { workNameOf } from "../../src/work/sync/spec.ts";
import { decideAutomation } from "./decide-automation.ts";
import { decideSplits, SHARDS_SPEC, splitResult } from "./decide-splits.ts";
import { decideMoves, SHARD_NAMES, stepResult } from "./decide-moves.ts";
import { decideSyncs, segmentResult, SYNC_SPECS } from "./decide-syncs.ts";
import { steadyEnvironment, underSteadyClock } from "./steady-environment.ts";

const days = { type: "daily", start: "2025-01-01", end: "2025-03-01", time_zone: "UTC" };
const months = { type: "monthly", start: "2025-01-01", end: "2025-03-01", time_zone: "UTC" };
const upstream = (asset_key: string, mapping: object) => [{ asset_key, mapping }];

/** Assets of every kind that there is a rule for. */
export const SPECS: readonly Spec[] = [
  PoolSpec.parse({ kind: "pool", pool: "api", limit: 2 }),
  AssetSpec.parse({ kind: "asset", asset_key: "orders", partitions: days, pool: "api" }),
  AssetSpec.parse({
    kind: "asset",
    asset_key: "clean",
    partitions: days,
    upstream: upstream("orders", { type: "identity" }),
    code_version: "7",
  }),
  AssetSpec.parse({
    kind: "asset",
    asset_key: "monthly",
    partitions: months,
    upstream: upstream("clean", { type: "time_window", start_offset: 0, end_offset: 0 }),
  }),
  AssetSpec.parse({
    kind: "asset",
    asset_key: "bulk",
    partitions: { type: "integers", start: 0, end: 64 },
    batch: true,
    bisect: true,
    retry: { max_attempts: 1 },
  }),
  AssetSpec.parse({
    kind: "asset",
    asset_key: "customers",
    partitions: { type: "dynamic", name: "customers" },
  }),
];

/** What a seeded list of decisions left behind. */
export type Decided = { events: RecordedEvent[]; hashes: Record<string, string> };

/** Makes the same long list of decisions on whatever store it is given. */
export async function decideEverything(given: Store, seed: number): Promise<Decided> {
  const { store, advance } = underSteadyClock(given);
  const environment = steadyEnvironment(seed);
  const engine = await Engine.open({ store, tenantId: "t", workspaceId: "w", environment });
  const chance = steadyEnvironment(seed + 1);
  const choose = (): number => chance.random();
  const actor = { principal: "anna", token_id: null };
  const submit = async <Result>(decide: Decide<Result>): Promise<Result> => {
    advance(1_000);
    return (await engine.submit(decide, { actor, correlationId: "c" })).result;
  };
  const work = (most: number): Promise<void> => workOn(engine, choose, advance, most);

  await submit(publishDefinitions({ origin: "code", specs: SPECS, prune: true }));
  await submit(
    addPartitionKeys({ asset_key: "customers", request_id: "k", keys: ["a b", "c,d", "ü"] }),
  );
  const chain = await submit(createBackfill(backfill(["orders", "clean", "monthly"], 7)));
  const bulk = await submit(createBackfill({ ...backfill(["bulk"], 16), order: "descending" }));
  const taken = { asset_key: "customers", keys: ["c,d"] };
  await submit(removePartitionKeys({ ...taken, request_id: "gone" }));
  await submit(createBackfill(backfill(["customers"], 2)));
  await submit(addPartitionKeys({ ...taken, request_id: "back" }));
  const run = await submit(
    requestRun({
      request_id: "r1",
      run_key: "mine",
      assets: ["orders"],
      partition_keys: ["2025-01-05"],
    }),
  );
  await submit(
    requestRun({
      request_id: "r2",
      run_key: "mine",
      assets: ["orders"],
      partition_keys: ["2025-01-06"],
    }),
  );
  await work(12);
  await submit(cancelRun({ run_id: run.run_id })).catch(() => undefined);
  await submit(retuneBackfill({ backfill_id: bulk.backfill_id, max_concurrent_runs: 4 })).catch(
    () => undefined,
  );
  await submit(pauseBackfill({ backfill_id: chain.backfill_id }));
  await work(6);
  await submit(resumeBackfill({ backfill_id: chain.backfill_id }));
  await work(400);
  await submit(
    retryBackfill({ backfill_id: bulk.backfill_id, retry_request_id: "again", missing: false }),
  );
  await work(400);
  const pass = async (ms: number): Promise<void> => {
    advance(ms);
    await engine.tick();
  };
  await decideAutomation(SPECS, { submit, pass, work });
  await decideSyncs(SPECS, { submit, pass, work });
  await decideSplits(SPECS, { submit, pass, work });
  await decideMoves(SPECS, { submit, pass, work });
  await engine.stop();

  return given.read(engine.workspace.ws, async (reader) => ({
    events: await reader.events({ after: 0, limit: 1_000_000 }),
    hashes: await stateHashes(reader),
  }));
}

function backfill(assets: string[], chunkSize: number) {
  return {
    client_request_id: assets.join(),
    assets,
    selector: { type: "all" } as const,
    chunk_size: chunkSize,
    max_concurrent_runs: 3,
    order: "ascending" as const,
    priority: 0,
    allow_overlap: false,
    continue_on_failure: true,
  };
}

/** A worker that claims and reports until there is nothing, or so many times. */
async function workOn(
  engine: Engine,
  choose: () => number,
  advance: (ms: number) => void,
  most: number,
): Promise<void> {
  const assets = [
    ...SPECS.flatMap((spec) => (spec.kind === "asset" ? [spec.asset_key] : [])),
    ...SYNC_SPECS.map(({ name }) => workNameOf(name)),
    ...shardWorkNames(SHARD_NAMES),
    ...shardWorkNames(SHARDS_SPEC.shards.map(({ shard }) => shard)),
  ];
  let empty = 0;
  for (let turn = 0; turn < most && empty < 3; turn++) {
    advance(1_000);
    const lease_id = `lease-${Math.floor(choose() * 2 ** 32)}`;
    const enough = new AbortController();
    const answer = { isThere: false };
    const claim = { worker_id: "w", lease_id, slots: 5, assets, code_version: null, wait_ms: 0 };
    const claimed = engine.claim(claim, enough.signal).finally(() => {
      answer.isThere = true;
    });
    // By the engine's own word, not by the clock: the claim waits, then everything due is decided.
    while (!answer.isThere && engine.status().waiting_claims === 0) await sleep(1);
    await engine.tick();
    enough.abort();
    const { groups } = await claimed;
    const results: ReportedResult[] = [];
    for (const group of groups) {
      for (const task of group.tasks) results.push(await resultOf(engine, group, task, choose));
    }
    empty = results.length === 0 ? empty + 1 : 0;
    if (results.length === 0) continue;
    await engine.report({
      worker_id: "w",
      code_version: null,
      results,
      released_leases: [lease_id],
    });
  }
}

/** How the worker does one task. */
async function resultOf(
  engine: Engine,
  group: ClaimedGroup,
  { task_key, attempt, partition_keys }: ClaimedGroup["tasks"][number],
  choose: () => number,
): Promise<ReportedResult> {
  const ref = { run_pos: group.run_pos, task_key, attempt };
  const fetched =
    segmentResult(group, ref, choose) ??
    stepResult(group, ref, choose) ??
    (await splitResult(group, ref, choose, (word) => engine.sayStep(word)));
  if (fetched !== null) return fetched;
  const error = { class: "user", message: "no luck" };
  if (partition_keys.includes("13")) return { ...ref, outcome: "FAILED", error };
  if (choose() < 0.1) return { ...ref, outcome: "FAILED", error };
  if (choose() < 0.1) return { ...ref, outcome: "SKIPPED" };
  return { ...ref, outcome: "SUCCEEDED", metadata: { rows: Math.floor(choose() * 100) } };
}
