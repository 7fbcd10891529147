import type { Rows } from "../rows.ts";
import type { RunRow, RunAssetRow, TaskRow, TaskState } from "./rows.ts";
import { needTasksAt, taskOf } from "./task-blocks.ts";
import {
  eachTaskOfAsset,
  keysOfTask,
  needTasks,
  repeatedTasks,
  runRef,
  sizeOfTask,
} from "./tasks.ts";
import { present } from "../../kernel/errors.ts";
import type { ClaimedGroup, ClaimFound, TaskRef, ClaimRequest } from "./protocol.ts";
import { type Key, afterRow, type Condition, compareRows } from "../../kernel/table.ts";
import { pinnedWork } from "../asset/look-up.ts";
import { type Decision, type Context, KEY_COST, RoomUsed } from "../decision.ts";
import {
  aloneMs,
  canWaitAlone,
  isSuspect,
  assetName as nameOf,
  CANDIDATES_MAX,
  findRetries,
  PAGE_SIZE,
  type Retries,
  URGENCY,
} from "./retries.ts";
import { kindOf, StartLimits } from "../kinds.ts";
import type { NewEvent } from "../events.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { Demands } from "../requires/demands.ts";
import { PartitionHolders } from "./edges.ts";
import { RUN_CLASS } from "./request.ts";

/** What a worker needs to run tasks of one asset of one run; null when it is not to be done any more. */
export function claimedGroup(
  rows: Rows,
  run: RunRow,
  asset: RunAssetRow,
  tasks: readonly TaskRow[],
  attemptsAhead: 0 | 1,
): ClaimedGroup | null {
  const spec = pinnedWork(rows, asset.spec_hash);
  const claimed = kindOf(run)?.runs.claimed?.(rows, run, asset);
  if (claimed === null) return null;
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
    ...claimed,
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
  return (rows: Rows): Decision<ClaimFound> => {
    needTasksAt(rows, held);
    rows.runs.need(held.map(({ run_pos }) => [run_pos]));
    needAssetsHeld(rows, held);
    const result: ClaimFound = { groups: [] };
    for (const ref of held) {
      const task = taskOf(rows, ref.run_pos, ref.task_key);
      if (task?.state !== "RUNNING" || task.attempt !== ref.attempt) continue;
      const run = present(rows.runs.get(ref.run_pos), "a running task has its run");
      const asset = present(rows.runAssets.get(ref.run_pos, task.asset_index), "and its asset");
      // What was opened again meanwhile is cancelled: nobody needs to begin with it.
      const group = claimedGroup(rows, run, asset, [task], 0);
      if (group === null) continue;
      result.groups.push(group);
      // Which is all that its claim got.
      const isAlone = held.length === 1 && isSuspect(task) && canWaitAlone(run);
      if (isAlone) result.alone_ms = aloneMs(run, task);
    }
    return { events: [], result };
  };
}

/** Has loaded what the held tasks belong to, with one load of each kind for all of them. */
function needAssetsHeld(rows: Rows, held: readonly TaskRef[]): void {
  const keys = held.flatMap(({ run_pos, task_key }): Key[] => {
    const task = taskOf(rows, run_pos, task_key);
    return task === null ? [] : [[run_pos, task.asset_index]];
  });
  rows.runAssets.need(keys);
  new StartLimits(rows).need(keys.flatMap((key) => rows.runAssets.get(...key) ?? []));
}

/** What a claim took: for the worker, and for its lease. */
export type Claimed = ClaimFound & {
  tasks: { run_pos: number; task_key: number; attempt: number; deadline_at: Instant }[];
  /** There is a task whose lease ran out since the worker was heard of: it has to ask again first. */
  isUnheard: boolean;
  /** Tasks were put aside for what they require: there may be others behind them. */
  isMore: boolean;
};

/** A worker ends an attempt at its timeout; this much later the engine does it for it. */
const TIMEOUT_GRACE_MS = 30_000;
/** How many times as many tasks as a decision has room for may be read, most of which are in memory. */
const READ_FACTOR = 5;
const READ_FACTOR_EMPTY = 20;
/** Most tasks of a claim that were tried before: what each kept last may go with the answer, and be megabytes. */
const TRIED_MAX = 16;
/** The share of a claim that work of the lowest class gets while more urgent work waits. */
const LOWEST_CLASS_SHARE = 1 / 8;

const READY: readonly TaskState[] = ["READY"];

/** How long a worker lets what runs come to an end before it gets a suspect beside the rest. */
const DRAIN_MS = 30_000;

/**
 * Gives a worker tasks that are ready or are to be tried again: the most urgent class first, with
 * a share kept for backfills; never more of a pool or a kind of work than its limit, never a partition that
 * another task holds, and no task whose lease ran out after `heardPos`, where the ledger ended when the
 * claim came: a worker that has been frozen since would let it run out again.
 *
 * A task that is suspected of taking processes down goes alone to a worker that runs nothing else.
 * `drainedMs` says for how long a worker has taken nothing more for so many of those; null when it is
 * not its turn to.
 */
export function claimTasks(
  request: ClaimRequest,
  heardPos = Number.MAX_SAFE_INTEGER,
  drainedMs: (suspects: number) => number | null = () => 0,
) {
  return (rows: Rows, context: Context): Decision<Claimed> => {
    const claim = new Claim(rows, request, heardPos, context);
    claim.findRetries();
    if (claim.takeSuspect(drainedMs)) return claim.decision();
    if (claim.hasUrgentWork()) claim.take(lowestShare(request, context), true);
    claim.take(request.slots, false);
    return claim.decision();
  };
}

/** An eighth of the slots; of claims with fewer than eight, one slot in every eighth by chance. */
function lowestShare({ slots }: ClaimRequest, context: Context): number {
  const share = Math.floor(slots * LOWEST_CLASS_SHARE);
  if (share > 0) return share;
  return context.random() < LOWEST_CLASS_SHARE ? 1 : 0;
}

/** What a claim takes of one asset of one run. */
type TakenAsset = { asset: RunAssetRow; tasks: Map<number, TaskRow> };

class Claim {
  readonly #rows: Rows;
  readonly #request: ClaimRequest;
  readonly #context: Context;
  readonly #holders: PartitionHolders;
  readonly #limits: StartLimits;
  readonly #demands: Demands;
  /** By run, then by the asset's index: a row found twice may be two objects. */
  readonly #taken = new Map<number, { run: RunRow; assets: Map<number, TakenAsset> }>();
  readonly #takenOfPool = new Map<string, number>();
  readonly #poolRoom = new Map<string, number>();
  /** Tasks whose time to be tried again has come, by asset of a run; the most urgent first. */
  #retries: Retries = new Map();
  /** Of those the ones that are to run alone, as far as the worker knows of that. */
  #suspects: Retries = new Map();
  #aloneMs: number | null = null;
  #suspectsWait = false;
  #count = 0;
  #tried = 0;
  #triedMax = TRIED_MAX;
  readonly #used: RoomUsed;
  /** Whether the claim has taken or read all that one decision has room for. */
  #isFull = false;
  #tasksRead = 0;
  /** How many more tasks of the lowest class this claim may take. */
  #lowestLeft: number;
  #isUnheard = false;
  readonly #heardPos: number;

  constructor(rows: Rows, request: ClaimRequest, heardPos: number, context: Context) {
    this.#rows = rows;
    this.#request = request;
    this.#heardPos = heardPos;
    this.#context = context;
    this.#holders = new PartitionHolders(rows);
    this.#limits = new StartLimits(rows);
    this.#used = new RoomUsed(context.room);
    this.#demands = new Demands(rows, context, this.#used);
    this.#lowestLeft = request.backfill_slots ?? request.slots;
  }

  /** Finds the tasks whose time to be tried again has come, but for those that a limit holds back. */
  findRetries(): void {
    const { retries, suspects, isUnheard } = findRetries(this.#rows, {
      now: this.#context.now,
      heardPos: this.#heardPos,
      limits: this.#limits,
      knowsSuspects: this.#request.alone !== undefined,
      needPools: (assets) => this.#needPools(assets),
      isFull: ({ pool }) => this.#roomOf(pool) === 0,
      assetsBut: (full) => this.#assetsBut(full),
    });
    this.#retries = retries;
    this.#suspects = suspects;
    this.#isUnheard = isUnheard;
  }

  /** Takes a suspect, or has the worker wait for it; false when the claim is like any other. */
  takeSuspect(drainedMs: (suspects: number) => number | null): boolean {
    const first = this.#suspects.size === 0 ? null : this.#firstSuspect();
    if (first === null) return false;
    const { run, asset, task } = first;
    if (this.#request.alone === false) {
      const drained = drainedMs([...this.#suspects.values()].flatMap(({ tasks }) => tasks).length);
      if (drained === null) return false;
      this.#suspectsWait = drained < DRAIN_MS;
      if (this.#suspectsWait) return true;
    }
    this.#takeTask(run, asset, task);
    this.#aloneMs = aloneMs(run, task);
    return true;
  }

  /** The most urgent suspect that may start now. */
  #firstSuspect(): { run: RunRow; asset: RunAssetRow; task: TaskRow } | null {
    const all = [...this.#suspects.values()];
    this.#rows.runs.need(all.map(({ asset }): Key => [asset.run_pos]));
    // The first ones may be held by others, so each time twice as many are looked at.
    for (let at = 0, size = 1; at < all.length; at += size, size *= 2) {
      const some = all.slice(at, at + size);
      const among = some.map(({ asset }) => asset);
      this.#holders.need(among);
      this.#demands.need(among, 1, (asset) => this.#suspects.get(nameOf(asset))?.tasks ?? []);
      for (const { asset, tasks } of some) {
        const run = present(this.#rows.runs.get(asset.run_pos), "an asset has its run");
        if (this.#mostOf(run, asset) <= 0) continue;
        const free = tasks.filter((each) => !this.#holders.isHeld(run, asset, each));
        for (const task of this.#demands.startable(asset, free, 1)) return { run, asset, task };
      }
    }
    return null;
  }

  /** Whether anything waits that goes before the lowest class. */
  hasUrgentWork(): boolean {
    const [ready] = this.#readyPage(new Set(), [], false);
    const [retry] = this.#retries.values();
    return [ready, retry?.asset].some(
      (asset) => asset !== undefined && asset.class !== RUN_CLASS.backfill,
    );
  }

  /** Takes what is most urgent, of the lowest class only or of all, until the claim holds `until`. */
  take(until: number, lowestOnly: boolean): void {
    this.#triedMax = lowestOnly ? TRIED_MAX * LOWEST_CLASS_SHARE : TRIED_MAX;
    const full = new Set<string>();
    let after: Condition[] = [];
    let retries = [...this.#retries.values()]
      .map(({ asset }) => asset)
      .filter((asset) => !lowestOnly || asset.class === RUN_CLASS.backfill);
    for (let looked = PAGE_SIZE; this.#count < until && !this.#isFull; looked += PAGE_SIZE) {
      const page = this.#readyPage(full, after, lowestOnly);
      const end = page.length < PAGE_SIZE || looked >= CANDIDATES_MAX ? undefined : page.at(-1);
      const isBeyond = (asset: RunAssetRow): boolean =>
        end !== undefined && compareRows(asset, end, URGENCY) > 0;
      const here = new Map(page.map((asset) => [nameOf(asset), asset]));
      for (const asset of retries) if (!isBeyond(asset)) here.set(nameOf(asset), asset);
      retries = retries.filter(isBeyond);
      this.#takeInOrder(
        [...here.values()].toSorted((a, b) => compareRows(a, b, URGENCY)),
        until,
      );
      if (end === undefined) return;
      // Behind this there is only more of the lowest class.
      if (this.#lowestLeft <= 0 && end.class === RUN_CLASS.backfill) return;
      // An asset whose pool is full would fill page after page.
      for (const { pool, asset_key } of page) if (this.#roomOf(pool) === 0) full.add(asset_key);
      after = [afterRow(end, URGENCY)];
    }
  }

  /** A page of assets of runs with ready tasks, the most urgent first. */
  #readyPage(
    without: ReadonlySet<string>,
    after: readonly Condition[],
    lowestOnly: boolean,
  ): RunAssetRow[] {
    const where: Condition[] = [
      { cell: "ready", is: ">", value: 0 },
      this.#assetsBut(without),
      ...after,
    ];
    const find = (...more: Condition[]): RunAssetRow[] =>
      this.#rows.runAssets.find([...more, ...where], URGENCY, PAGE_SIZE);
    if (!lowestOnly) return find();
    const isLowest = (asset: RunAssetRow): boolean => asset.class === RUN_CLASS.backfill;
    // The first page was read already, and mostly it is all there is.
    const first = after.length === 0 ? find() : null;
    if (first !== null && first.length < PAGE_SIZE) return first.filter(isLowest);
    return find({ cell: "class", is: "=", value: RUN_CLASS.backfill });
  }

  #assetsBut(without: ReadonlySet<string>): Condition {
    const { assets } = this.#request;
    const values = without.size === 0 ? assets : assets.filter((key) => !without.has(key));
    return { cell: "asset_key", is: "in", values };
  }

  /** Takes from these assets of runs. What is likely to be taken is loaded at once. */
  #takeInOrder(assets: readonly RunAssetRow[], until: number): void {
    this.#needPools(assets);
    // The likely ones may be held by others, so each time twice as many are loaded.
    let least = 1;
    for (let at = 0; at < assets.length && this.#count < until && !this.#isFull; least *= 2) {
      const likely: RunAssetRow[] = [];
      let expected = this.#count;
      for (; at < assets.length && (likely.length < least || expected < until); at++) {
        const asset = present(assets[at], "at is within");
        if (this.#roomOf(asset.pool) === 0) continue;
        // All tasks of an asset are loaded, however few of them are ready.
        if (likely.length > 0 && this.#tasksRead + asset.task_count > this.#readMax) break;
        this.#tasksRead += asset.task_count;
        likely.push(asset);
        expected += asset.ready + (this.#retries.get(nameOf(asset))?.tasks.length ?? 0);
      }
      needTasks(this.#rows, likely);
      this.#limits.need(likely);
      this.#holders.need(likely);
      this.#demands.need(likely, until - this.#count, (asset) => this.#freeTasks(asset));
      for (const asset of likely) this.#takeFrom(asset, until - this.#count);
      if (this.#tasksRead >= this.#readMax) this.#isFull = true;
    }
  }

  /** Most tasks to read: far more where all that was read is held by others, so that none starves. */
  get #readMax(): number {
    return this.#context.room.rows * (this.#count > 0 ? READ_FACTOR : READ_FACTOR_EMPTY);
  }

  #takeFrom(asset: RunAssetRow, most: number): void {
    const run = present(this.#rows.runs.get(asset.run_pos), "an asset has its run");
    let left = Math.min(most, this.#mostOf(run, asset));
    if (left <= 0) return;
    for (const task of this.#demands.startable(asset, this.#takeable(run, asset), left)) {
      if (!this.#takeTask(run, asset, task)) this.#isFull = true;
      if (this.#isFull) break;
      left -= 1;
      if (left === 0) break;
    }
    if (this.#demands.isFull) this.#isFull = true;
  }

  /** The tasks of an asset of a run that nobody has. */
  *#takeable(run: RunRow, asset: RunAssetRow): Generator<TaskRow> {
    for (const task of this.#freeTasks(asset)) {
      if (task.attempt > 0 && this.#tried >= this.#triedMax) continue;
      const own = this.#taken.get(run.run_pos)?.assets.get(asset.asset_index)?.tasks;
      if (own?.has(task.task_key) === true || this.#holders.isHeld(run, asset, task)) continue;
      yield task;
    }
  }

  /** How many tasks of this asset of a run the claim may take. */
  #mostOf(run: RunRow, asset: RunAssetRow): number {
    if (run.cancel_requested_at !== null || !this.#limits.isFree(asset)) return 0;
    const room = this.#roomOf(asset.pool);
    return asset.class === RUN_CLASS.backfill ? Math.min(room, this.#lowestLeft) : room;
  }

  /** Takes a task that nobody holds; false when there is no room for it. */
  #takeTask(run: RunRow, asset: RunAssetRow, task: TaskRow): boolean {
    const isFirst = this.#taken.get(run.run_pos)?.assets.has(asset.asset_index) !== true;
    // It goes with each asset of the run to the worker, in one answer for all that is claimed.
    const bytes = isFirst && run.config !== null ? JSON.stringify(run.config).length : 0;
    if (!this.#used.take(1 + sizeOfTask(run, asset, task) * KEY_COST, bytes)) return false;
    const taken = this.#taken.get(run.run_pos) ?? { run, assets: new Map<number, TakenAsset>() };
    const own = taken.assets.get(asset.asset_index) ?? { asset, tasks: new Map() };
    this.#taken.set(run.run_pos, taken);
    taken.assets.set(asset.asset_index, own);
    own.tasks.set(task.task_key, task);
    this.#holders.hold(run, asset, task);
    this.#limits.take(run);
    this.#count += 1;
    if (task.attempt > 0) this.#tried += 1;
    if (asset.class === RUN_CLASS.backfill) this.#lowestLeft -= 1;
    if (asset.pool !== null) {
      this.#takenOfPool.set(asset.pool, (this.#takenOfPool.get(asset.pool) ?? 0) + 1);
    }
    return true;
  }

  /** What is to be tried again, then what is ready. */
  *#freeTasks(asset: RunAssetRow): Generator<TaskRow> {
    yield* this.#retries.get(nameOf(asset))?.tasks ?? [];
    // Block by block: mostly few of them are taken.
    if (asset.ready > 0) yield* eachTaskOfAsset(this.#rows, asset, READY);
  }

  #needPools(assets: readonly RunAssetRow[]): void {
    const names = new Set(assets.flatMap(({ pool }) => pool ?? []));
    const pools = [...names].filter((name) => !this.#poolRoom.has(name));
    this.#rows.definitions.need(pools.map((name): Key => ["pool", name]));
    const specs = pools.flatMap((name) => this.#rows.definitions.get("pool", name) ?? []);
    this.#rows.specs.need(specs.map(({ spec_hash }): Key => [spec_hash]));
    this.#rows.pools.need(pools.map((name): Key => [name]));
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
    const taken = [...this.#taken.values()].flatMap(({ assets }) => [...assets.values()]);
    this.#rows.specs.need(taken.map(({ asset }): Key => [asset.spec_hash]));
    const events: NewEvent[] = [];
    const isMore = this.#demands.hasPutAside;
    const claimed: Claimed = { groups: [], tasks: [], isUnheard: this.#isUnheard, isMore };
    if (this.#aloneMs !== null) claimed.alone_ms = this.#aloneMs;
    if (this.#suspectsWait) claimed.suspects_wait = true;
    for (const { run, assets } of this.#taken.values()) {
      if (run.state === "PENDING") {
        events.push({
          type: "RunStarted",
          idempotency_key: IDEMPOTENCY_KEYS.run(run.run_id, "started"),
          data: runRef(run),
        });
      }
      events.push(this.#started(run, [...assets.values()]));
      for (const { asset, tasks } of assets.values()) {
        this.#addGroup(claimed, run, asset, [...tasks.values()]);
      }
    }
    return { events: [...events, ...this.#demands.events()], result: claimed };
  }

  #started(run: RunRow, assets: readonly TakenAsset[]): NewEvent {
    const started = assets.flatMap(({ asset, tasks }) =>
      [...tasks.values()].map((task) => ({
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
        claimed_by: this.#context.holder,
        assets: assets.map(({ asset: { asset_index, pool } }) => ({ asset_index, pool })),
        tasks: repeatedTasks(started),
      },
    };
  }

  #addGroup(claimed: Claimed, run: RunRow, asset: RunAssetRow, tasks: readonly TaskRow[]): void {
    const group = present(
      claimedGroup(this.#rows, run, asset, tasks, 1),
      "only a current segment is taken",
    );
    claimed.groups.push(group);
    const deadline_at = addMs(this.#context.now, group.timeout_ms + TIMEOUT_GRACE_MS);
    for (const { task_key, attempt } of group.tasks) {
      claimed.tasks.push({ run_pos: run.run_pos, task_key, attempt, deadline_at });
    }
  }
}
