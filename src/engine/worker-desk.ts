import { isHeldBy } from "../work/run/tasks.ts";
import { type Actor, holderOf } from "../work/envelope.ts";
import type { Instant } from "../kernel/instant.ts";
import type {
  AcceptedAnswer,
  CheckpointRequest,
  ClaimAnswer,
  ClaimFound,
  ClaimRequest,
  HeartbeatAnswer,
  HeartbeatRequest,
  LogRequest,
  LookRef,
  TaskRef,
} from "../work/run/protocol.ts";
import { keyText } from "../kernel/table.ts";
import { TABLES } from "../work/tables.ts";
import { leaseKeyOf } from "./claim-queue.ts";
import { type EngineOptions, LEASE_MS } from "./options.ts";
import { HeardNames } from "./probes/heard-names.ts";
import { LogBudget, CheckpointBudget, SAID_LIMITS } from "./budgets.ts";
import type { Lease, Store, WorkspaceId } from "../store/store.ts";

/**
 * Everything workers say and hear that is no event: leases, progress, checkpoints, logs. None of it
 * takes the workspace lock; fences are checked by the store where it writes.
 */
export class WorkerDesk {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #leaseMs: number;
  readonly #heard = new HeardNames();
  readonly #checkpoints: CheckpointBudget;
  /** What is kept of what tasks log. */
  readonly logs: LogBudget;
  /** Results that came too late, since this server started. */
  resultsLost = 0;

  constructor(
    { store, environment, leaseMs = LEASE_MS, saidLimits = SAID_LIMITS }: EngineOptions,
    ws: WorkspaceId,
  ) {
    this.#store = store;
    this.#ws = ws;
    this.#leaseMs = leaseMs;
    this.#checkpoints = new CheckpointBudget(saidLimits, {
      measure: () => store.checkpointBytes(ws),
      elapsedMs: () => environment.elapsedMs(),
      pause: (ms) => new Promise((resolve) => environment.timer(ms, resolve)),
    });
    this.logs = new LogBudget(store, ws, environment, saidLimits);
  }

  /** Hears a claim: what its lease holds already, and where the ledger ends as it comes. */
  async hear(
    request: ClaimRequest,
    actor: Actor,
  ): Promise<{ held: Lease | null; heardPos: number }> {
    this.#heard.hear(holderOf(actor), request.assets, await this.#store.now());
    return this.#store.read(this.#ws, async (reader) => ({
      held: await reader.lease(leaseKeyOf(actor, request.lease_id)),
      heardPos: (await reader.head()).pos,
    }));
  }

  /** The names that workers have asked for lately, and when. */
  claimedAssets(): Map<string, Instant> {
    return this.#heard.all();
  }

  /**
   * The claim with a shorter wait: half of a lease. A worker renews its leases every third, so one that
   * freezes has no claim left here when they run out.
   */
  patient<Claim extends { wait_ms: number }>(claim: Claim): Claim {
    return { ...claim, wait_ms: Math.min(claim.wait_ms, Math.floor(this.#leaseMs / 2)) };
  }

  countLost(count: number): void {
    this.resultsLost += count;
  }

  /** The answer to a claim, with the checkpoints of earlier attempts. */
  async answer(leaseId: string, found: ClaimFound): Promise<ClaimAnswer> {
    const { groups } = found;
    const retried = groups.flatMap(({ run_pos, tasks }) =>
      tasks.filter(({ attempt }) => attempt > 1).map(({ task_key }) => ({ run_pos, task_key })),
    );
    if (retried.length > 0) {
      const kept = await this.#store.read(this.#ws, (reader) => reader.checkpoints(retried));
      const values = new Map(
        kept.map(({ run_pos, task_key, value }) => [keyText([run_pos, task_key]), value]),
      );
      for (const { run_pos, tasks } of groups) {
        for (const task of tasks) {
          task.checkpoint = values.get(keyText([run_pos, task.task_key])) ?? null;
        }
      }
    }
    return { lease_id: leaseId, ttl_ms: this.#leaseMs, ...found };
  }

  async heartbeat(request: HeartbeatRequest, actor: Actor): Promise<HeartbeatAnswer> {
    const holder = holderOf(actor);
    const keyOf = (leaseId: string): string => leaseKeyOf(actor, leaseId);
    const keys = request.leases.map(keyOf);
    const kept = new Set(await this.#store.renewLeases(this.#ws, keys, this.#leaseMs));
    const renewed = request.leases.filter((leaseId) => kept.has(keyOf(leaseId)));
    const progress = request.tasks.flatMap(({ progress: made, ...ref }) =>
      made === undefined ? [] : [{ ...ref, ...made }],
    );
    if (progress.length > 0) await this.#store.saveProgress(this.#ws, holder, progress);
    return {
      ttl_ms: this.#leaseMs,
      renewed,
      ...(await this.#judge(request.tasks, holder)),
      ...(await this.#renewLooks(request.looks ?? [], holder)),
    };
  }

  /** A look is its worker's for as long as a task is: without a word it is free at the same time. */
  async #renewLooks(
    looks: readonly LookRef[],
    holder: string,
  ): Promise<{ lost_looks?: LookRef[] }> {
    if (looks.length === 0) return {};
    const fences = looks.map((look) => ({ ...look, leased_by: holder }));
    const renewed = await this.#store.renewProbes(this.#ws, fences, this.#leaseMs);
    return { lost_looks: looks.filter((_, at) => renewed[at] !== true) };
  }

  /** Which tasks are not the worker's any more, and which should stop. */
  async #judge(
    refs: readonly TaskRef[],
    holder: string,
  ): Promise<{ lost: TaskRef[]; cancelled: TaskRef[] }> {
    const lost: TaskRef[] = [];
    const cancelled: TaskRef[] = [];
    if (refs.length === 0) return { lost, cancelled };
    const { tasks, runs } = await this.#store.read(this.#ws, async (reader) => {
      const taskKeys = refs.map(({ run_pos, task_key }) => [run_pos, task_key]);
      const runKeys = [...new Set(refs.map(({ run_pos }) => run_pos))].map((pos) => [pos]);
      return {
        tasks: await reader.load(TABLES.tasks, taskKeys),
        runs: await reader.load(TABLES.runs, runKeys),
      };
    });
    const taskOf = new Map(tasks.map((task) => [keyText([task.run_pos, task.task_key]), task]));
    const runOf = new Map(runs.map((run) => [run.run_pos, run]));
    for (const { run_pos, task_key, attempt } of refs) {
      const task = taskOf.get(keyText([run_pos, task_key]));
      const ref = { run_pos, task_key, attempt };
      if (!isHeldBy(task, attempt, holder)) lost.push(ref);
      else if (runOf.get(run_pos)?.cancel_requested_at !== null) cancelled.push(ref);
    }
    return { lost, cancelled };
  }

  async checkpoint({ items }: CheckpointRequest, actor: Actor): Promise<AcceptedAnswer> {
    const holder = holderOf(actor);
    await this.#checkpoints.take(holder, items);
    return { accepted: await this.#store.saveCheckpoints(this.#ws, holder, items) };
  }

  async log({ items }: LogRequest, actor: Actor): Promise<AcceptedAnswer> {
    const verdicts = await this.logs.append(holderOf(actor), items);
    return { accepted: verdicts.map((verdict) => verdict === "kept") };
  }
}
