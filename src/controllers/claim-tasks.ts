import { present } from "../core/assert.ts";
import type { NewEvent } from "../core/events/index.ts";
import { addMs, type Instant } from "../core/instant.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { ClaimedGroup, ClaimRequest, TaskRef } from "../core/protocol.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { pinnedSpec } from "./asset-lookup.ts";
import type { Context, Decision } from "./decision.ts";
import { PartitionHolders } from "./partition-holders.ts";
import { RUN_CLASS } from "./request-run.ts";
import { keysOfTask, repeatedTasks, runRef, sizeOfTask, tasksOfAsset } from "./run-lookup.ts";

/** What a claim took: for the worker, and for its lease. */
export type Claimed = {
  groups: ClaimedGroup[];
  tasks: { run_pos: number; task_key: number; attempt: number; deadline_at: Instant }[];
};

/** A worker ends an attempt at its timeout; this much later the engine does it for it. */
const TIMEOUT_GRACE_MS = 30_000;
/** How many ready assets of runs one look-up brings. */
const CANDIDATES_MAX = 200;
/** The share of a claim that work of the lowest class gets while more urgent work waits. */
const LOWEST_CLASS_SHARE = 1 / 8;

/**
 * Gives a worker tasks that are ready: the most urgent class first, with a share kept for
 * backfills; never more of a pool than its limit, never a partition that another task holds.
 */
export function claimTasks(request: ClaimRequest) {
  return (rows: Rows, context: Context): Decision<Claimed> => {
    const claim = new Claim(rows, request, context);
    claim.takeRetries();
    const candidates = readyAssets(rows, request);
    const lowest = candidates.filter((asset) => asset.class === RUN_CLASS.backfill);
    if (lowest.length > 0 && lowest.length < candidates.length) {
      claim.take(lowest, lowestShare(request.slots, context.nextPos));
    }
    claim.take(candidates, request.slots);
    return claim.decision();
  };
}

/** At least one slot in eight claims when a claim is smaller than eight. */
function lowestShare(slots: number, pos: number): number {
  const share = Math.floor(slots * LOWEST_CLASS_SHARE);
  return share > 0 ? share : pos % 8 === 0 ? 1 : 0;
}

function readyAssets(rows: Rows, request: ClaimRequest): RunAssetRow[] {
  const ready: Condition[] = [
    { cell: "ready", is: ">", value: 0 },
    { cell: "asset_key", is: "in", values: request.assets },
  ];
  const order = [{ cell: "class" }, { cell: "priority", descending: true }, { cell: "run_pos" }];
  const first = rows.runAssets.find(ready, order, CANDIDATES_MAX);
  const full = first.length === CANDIDATES_MAX;
  if (!full || first.at(-1)?.class === RUN_CLASS.backfill) return first;
  const backfill: Condition = { cell: "class", is: "=", value: RUN_CLASS.backfill };
  return [...first, ...rows.runAssets.find([backfill, ...ready], order, CANDIDATES_MAX)];
}

class Claim {
  readonly #rows: Rows;
  readonly #request: ClaimRequest;
  readonly #context: Context;
  readonly #holders: PartitionHolders;
  readonly #taken = new Map<number, { run: RunRow; tasks: Map<RunAssetRow, TaskRow[]> }>();
  readonly #takenOfPool = new Map<string, number>();
  readonly #poolRoom = new Map<string, number>();
  #count = 0;

  constructor(rows: Rows, request: ClaimRequest, context: Context) {
    this.#rows = rows;
    this.#request = request;
    this.#context = context;
    this.#holders = new PartitionHolders(rows);
  }

  /** Tasks whose time to be tried again has come. */
  takeRetries(): void {
    const due: Condition[] = [
      { cell: "state", is: "=", value: "RETRY_WAIT" },
      { cell: "retry_at", is: "<=", value: this.#context.now },
    ];
    const order = [{ cell: "retry_at" }, { cell: "run_pos" }, { cell: "task_key" }];
    for (const task of this.#rows.tasks.find(due, order, CANDIDATES_MAX)) {
      if (this.#count >= this.#request.slots) return;
      const asset = present(
        this.#rows.runAssets.get(task.run_pos, task.asset_index),
        "a task that waits has its asset",
      );
      if (this.#request.assets.includes(asset.asset_key)) this.#takeFrom(asset, [task], 1);
    }
  }

  /** Takes ready tasks of these assets of runs until the claim holds `until` tasks. */
  take(assets: readonly RunAssetRow[], until: number): void {
    for (const asset of assets) {
      if (this.#count >= until) return;
      const own = this.#taken.get(asset.run_pos)?.tasks.get(asset) ?? [];
      // What was taken to be tried again was not ready, so it takes nothing from what is.
      if (asset.ready <= own.filter(({ state }) => state === "READY").length) continue;
      const ready = tasksOfAsset(this.#rows, asset).filter((task) => task.state === "READY");
      this.#takeFrom(asset, ready, until - this.#count);
    }
  }

  #takeFrom(asset: RunAssetRow, tasks: readonly TaskRow[], most: number): void {
    const run = present(this.#rows.runs.get(asset.run_pos), "an asset has its run");
    if (run.cancel_requested_at !== null) return;
    const taken = this.#taken.get(run.run_pos) ?? { run, tasks: new Map() };
    const own = taken.tasks.get(asset) ?? [];
    let left = Math.min(most, this.#roomOf(asset.pool));
    for (const task of tasks) {
      if (left === 0) break;
      if (own.includes(task) || this.#holders.isHeld(run, asset, task)) continue;
      own.push(task);
      this.#holders.hold(run, asset, task);
      left -= 1;
      this.#count += 1;
      if (asset.pool !== null) {
        this.#takenOfPool.set(asset.pool, (this.#takenOfPool.get(asset.pool) ?? 0) + 1);
      }
    }
    if (own.length === 0) return;
    taken.tasks.set(asset, own);
    this.#taken.set(run.run_pos, taken);
  }

  #roomOf(pool: string | null): number {
    if (pool === null) return Number.MAX_SAFE_INTEGER;
    let room = this.#poolRoom.get(pool);
    if (room === undefined) {
      const definition = this.#rows.definitions.get("pool", pool);
      const body = definition === null ? null : this.#rows.specs.get(definition.spec_hash)?.body;
      // A pool that is defined no longer limits nothing.
      const limit = body?.kind === "pool" ? body.limit : Number.MAX_SAFE_INTEGER;
      room = limit - (this.#rows.pools.get(pool)?.running ?? 0);
      this.#poolRoom.set(pool, room);
    }
    return Math.max(0, room - (this.#takenOfPool.get(pool) ?? 0));
  }

  decision(): Decision<Claimed> {
    const events: NewEvent[] = [];
    const claimed: Claimed = { groups: [], tasks: [] };
    for (const { run, tasks } of this.#taken.values()) {
      if (run.state === "PENDING") {
        events.push({
          type: "RunStarted",
          idempotency_key: IDEMPOTENCY_KEYS.run(run.run_id, "started"),
          data: runRef(run),
        });
      }
      events.push(this.#started(run, tasks));
      for (const [asset, own] of tasks) this.#addGroup(claimed, run, asset, own);
    }
    return { events, result: claimed };
  }

  #started(run: RunRow, tasks: ReadonlyMap<RunAssetRow, TaskRow[]>): NewEvent {
    const started = [...tasks].flatMap(([asset, own]) =>
      own.map((task) => ({
        task_key: task.task_key,
        attempt: task.attempt + 1,
        asset_index: asset.asset_index,
        partitions: sizeOfTask(run, asset, task),
      })),
    );
    return {
      type: "TasksStarted",
      idempotency_key: IDEMPOTENCY_KEYS.tasks(this.#context.hash, run.run_id, started, "started"),
      data: {
        ...runRef(run),
        worker_id: this.#request.worker_id,
        assets: [...tasks.keys()].map(({ asset_index, pool }) => ({ asset_index, pool })),
        tasks: repeatedTasks(started),
      },
    };
  }

  #addGroup(claimed: Claimed, run: RunRow, asset: RunAssetRow, tasks: readonly TaskRow[]): void {
    const group = claimedGroup(this.#rows, run, asset, tasks, 1);
    claimed.groups.push(group);
    const deadline_at = addMs(this.#context.now, group.timeout_ms + TIMEOUT_GRACE_MS);
    for (const { task_key, attempt } of group.tasks) {
      claimed.tasks.push({ run_pos: run.run_pos, task_key, attempt, deadline_at });
    }
  }
}

/** What a worker needs to run tasks of one asset of one run. */
function claimedGroup(
  rows: Rows,
  run: RunRow,
  asset: RunAssetRow,
  tasks: readonly TaskRow[],
  attemptsAhead: 0 | 1,
): ClaimedGroup {
  const spec = pinnedSpec(rows, asset.spec_hash);
  return {
    run_id: run.run_id,
    run_pos: run.run_pos,
    run_key: run.run_key,
    backfill_id: run.backfill_id,
    asset_key: asset.asset_key,
    spec_hash: asset.spec_hash,
    batch: spec.batch,
    config: run.config,
    labels: run.labels,
    timeout_ms: spec.timeout_ms,
    stall_after_ms: spec.stall_after_ms,
    tasks: tasks.map((task) => ({
      task_key: task.task_key,
      attempt: task.attempt + attemptsAhead,
      partition_keys: run.partition_keys === null ? [] : keysOfTask(run, asset, task),
      checkpoint: null,
    })),
  };
}

/** The tasks that a lease still holds, for a worker that did not get the answer to its claim. */
export function repeatClaim(held: readonly TaskRef[]) {
  return (rows: Rows): Decision<ClaimedGroup[]> => {
    rows.tasks.need(held.map(({ run_pos, task_key }) => [run_pos, task_key]));
    const groups: ClaimedGroup[] = [];
    for (const ref of held) {
      const task = rows.tasks.get(ref.run_pos, ref.task_key);
      if (task?.state !== "RUNNING" || task.attempt !== ref.attempt) continue;
      const run = present(rows.runs.get(ref.run_pos), "a running task has its run");
      const asset = present(rows.runAssets.get(ref.run_pos, task.asset_index), "and its asset");
      groups.push(claimedGroup(rows, run, asset, [task], 0));
    }
    return { events: [], result: groups };
  };
}
