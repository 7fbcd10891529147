import type {
  ClaimAnswer,
  ClaimRequest,
  ReportedResult,
  ReportRequest,
  TaskRef,
} from "../../src/work/run/protocol.ts";
import { FOUND } from "./project.ts";
import type { Random } from "./random.ts";
import type { SimulatedNetwork } from "./simulated-network.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** What workers need from the simulation around them. */
export type WorkerWorld = {
  time: SimulatedTime;
  random: Random;
  network: SimulatedNetwork;
  leaseMs: number;
  newId: () => string;
  /** Whether misfortunes still happen. */
  isCalm: () => boolean;
  isOver: () => boolean;
  /** Keys whose functions always fail. */
  poison: ReadonlySet<string>;
  assets: readonly string[];
  /** A task that a server gave to a worker. */
  granted: (task: TaskRef & { worker_id: string }) => void;
  /** A report that the server said was recorded. */
  recorded: (task: TaskRef) => void;
  /** An answer that breaks the protocol. */
  unexpected: (what: string) => void;
};

type Held = TaskRef & { batch: boolean; keys: readonly string[] };

type Behaviour = {
  succeed: number;
  fail: number;
  final: number;
  later: number;
  skip: number;
  release: number;
  cancel: number;
  partial: number;
};

const CHAOS: Behaviour = {
  succeed: 60,
  fail: 14,
  final: 3,
  later: 3,
  skip: 5,
  release: 5,
  cancel: 1,
  partial: 20,
};
const CALM: Behaviour = {
  ...CHAOS,
  fail: 0,
  final: 0,
  later: 0,
  release: 0,
  cancel: 0,
  partial: 0,
};

/** A worker that claims, runs and reports, and now and then dies, freezes or repeats itself. */
export class SimulatedWorker {
  readonly #world: WorkerWorld;
  #workerId: string;
  /** Tasks that the server told this worker to stop. */
  readonly #stopped = new Set<string>();

  constructor(world: WorkerWorld) {
    this.#world = world;
    this.#workerId = `worker-${world.newId()}`;
  }

  async run(): Promise<void> {
    const { time, random, isOver } = this.#world;
    while (!isOver()) {
      const claim = await this.#claim();
      if (claim === null) {
        await time.sleep(random.integer(50, 1_000));
        continue;
      }
      const held = claim.groups.flatMap((group) =>
        group.tasks.map(
          ({ task_key, attempt, partition_keys }): Held => ({
            run_pos: group.run_pos,
            task_key,
            attempt,
            batch: group.batch,
            keys: partition_keys,
          }),
        ),
      );
      for (const { run_pos, task_key, attempt } of held) {
        this.#world.granted({ run_pos, task_key, attempt, worker_id: this.#workerId });
      }
      if (held.length > 0) await this.#work(claim.lease_id, held);
    }
  }

  /** Claims, and repeats the claim under the same name when the answer does not come. */
  async #claim(): Promise<ClaimAnswer | null> {
    const { random, network, newId, isCalm, assets } = this.#world;
    const request: ClaimRequest = {
      worker_id: this.#workerId,
      lease_id: newId(),
      slots: random.integer(1, 6),
      assets: isCalm() || random.chance(0.7) ? [...assets] : random.some(assets),
      code_version: random.pick([null, "v1", "v2"]),
      wait_ms: isCalm() ? 10_000 : random.pick([0, 100, 2_000, 10_000]),
      // It ends what it has before it asks for more.
      alone: true,
    };
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        const answer = await network.ask((engine) => engine.claim(request));
        if (answer.lease_id !== request.lease_id) this.#world.unexpected("an answer to another");
        return answer;
      } catch {
        await this.#world.time.sleep(random.integer(10, 3_000));
      }
    }
    return null;
  }

  async #work(leaseId: string, held: readonly Held[]): Promise<void> {
    const { time, random, isCalm, leaseMs } = this.#world;
    if (!isCalm() && random.chance(0.06)) {
      // Dies without a word; another worker takes its place after a while.
      await time.sleep(random.integer(100, 10_000));
      this.#workerId = `worker-${this.#world.newId()}`;
      return;
    }
    const isFrozen = !isCalm() && random.chance(0.08);
    const open = new Map(held.map((task) => [nameOf(task), task]));
    const lease = { id: leaseId, isDone: false };
    const beats = isFrozen ? Promise.resolve() : this.#beat(lease, open);
    if (isFrozen) await time.sleep(random.integer(Math.floor(leaseMs / 2), 4 * leaseMs));
    for (const batch of this.#batches(held)) {
      await time.sleep(this.#duration());
      if (random.chance(0.2)) await this.#checkpoint(batch);
      if (!isCalm() && random.chance(0.02)) continue;
      await this.#report(
        batch.map((task) => this.#outcomeOf(task)),
        [],
      );
      for (const task of batch) open.delete(nameOf(task));
    }
    lease.isDone = true;
    if (isCalm() || random.chance(0.9)) await this.#report([], [leaseId]);
    // Its last sleep is a third of a lease: a worker that has its hands free asks for more at once.
    if (!isCalm()) await beats;
  }

  async #beat(
    lease: { readonly id: string; readonly isDone: boolean },
    open: ReadonlyMap<string, Held>,
  ): Promise<void> {
    const { time, leaseMs } = this.#world;
    while (!lease.isDone) {
      await time.sleep(Math.floor(leaseMs / 3));
      if (!lease.isDone) await this.#heartbeat(lease.id, [...open.values()]);
    }
  }

  #duration(): number {
    const { random, isCalm } = this.#world;
    return isCalm() ? random.integer(1, 300) : random.pick([1, 20, 200, 1_000, 4_000, 9_000]);
  }

  /** The tasks in the order and company in which they will be reported. */
  #batches(held: readonly Held[]): Held[][] {
    const { random } = this.#world;
    const left = random.shuffled(held);
    const batches: Held[][] = [];
    while (left.length > 0) batches.push(left.splice(0, random.integer(1, left.length)));
    return batches;
  }

  #outcomeOf(task: Held): ReportedResult {
    const { random, isCalm, poison } = this.#world;
    const { run_pos, task_key, attempt } = task;
    const ref = { run_pos, task_key, attempt };
    const error = { class: "user", message: "it did not work" };
    if (this.#stopped.has(nameOf(task)) && random.chance(0.7)) {
      return { ...ref, outcome: "CANCELLED" };
    }
    const poisoned = task.keys.filter((key) => poison.has(key));
    if (poisoned.length > 0) {
      if (task.batch && random.chance(0.3)) return { ...ref, ...this.#partial(task, poisoned) };
      return { ...ref, outcome: "FAILED", error };
    }
    switch (random.weighted(isCalm() ? CALM : CHAOS)) {
      case "fail":
        return { ...ref, outcome: "FAILED", error };
      case "final":
        return { ...ref, outcome: "FAILED", error, final: true };
      case "later":
        return { ...ref, outcome: "FAILED", error, retry_after_ms: random.integer(0, 20_000) };
      case "skip":
        return { ...ref, outcome: "SKIPPED", ...(random.chance(0.2) ? { error } : {}) };
      case "release":
        return { ...ref, outcome: "FAILED", released: true };
      case "cancel":
        return { ...ref, outcome: "CANCELLED" };
      case "partial":
        return task.batch
          ? { ...ref, ...this.#partial(task, random.some(task.keys)), ...judged(task.keys.length) }
          : { ...ref, outcome: "SUCCEEDED" };
      default:
        return { ...ref, outcome: "SUCCEEDED", ...found(task, random.integer(0, 9), isCalm()) };
    }
  }

  #partial(task: Held, failed: readonly string[]): Pick<ReportedResult, "outcome" | "exceptions"> {
    const { random } = this.#world;
    type Exceptions = NonNullable<ReportedResult["exceptions"]>;
    const exceptions = task.keys.flatMap((key, index): Exceptions => {
      if (failed.includes(key)) {
        const error = { class: "user", message: `${key} did not work` };
        return [{ index, outcome: "FAILED", error }];
      }
      return random.chance(0.2) ? [{ index, outcome: "SKIPPED", error: null }] : [];
    });
    return { outcome: "SUCCEEDED", exceptions };
  }

  async #heartbeat(leaseId: string, open: readonly Held[]): Promise<void> {
    const { network, random } = this.#world;
    const tasks = open.map(({ run_pos, task_key, attempt }) => ({
      run_pos,
      task_key,
      attempt,
      ...(random.chance(0.3) ? { progress: { done: 1, total: 2, note: null } } : {}),
    }));
    try {
      const { cancelled, lost } = await network.ask((engine) =>
        engine.heartbeat({ worker_id: this.#workerId, leases: [leaseId], tasks }),
      );
      for (const task of [...cancelled, ...lost]) this.#stopped.add(nameOf(task));
    } catch {
      // The next one may arrive.
    }
  }

  async #checkpoint(tasks: readonly Held[]): Promise<void> {
    const { network, random } = this.#world;
    const items = tasks.map(({ run_pos, task_key, attempt }) => ({
      run_pos,
      task_key,
      attempt,
      value: { at: random.integer(1, 100) },
    }));
    await network.ask((engine) => engine.checkpoint({ items })).catch(() => undefined);
  }

  /** Reports until an answer comes; a report may be repeated although it had arrived. */
  async #report(results: ReportedResult[], released_leases: string[]): Promise<void> {
    const { network, random, recorded, time, isOver } = this.#world;
    const request: ReportRequest = {
      worker_id: this.#workerId,
      code_version: "v1",
      results: random.chance(0.05) ? [...results, ...results] : results,
      released_leases,
    };
    while (!isOver()) {
      try {
        const answer = await network.ask((engine) => engine.report(request));
        for (const [index, verdict] of answer.results.entries()) {
          const result = request.results[index];
          if (verdict === "recorded" && result !== undefined) recorded(result);
        }
        return;
      } catch {
        await time.sleep(random.integer(10, 2_000));
      }
    }
  }
}

/** What a success says: how many rows there were, and of some of them the keys that came with them. */
function found({ run_pos, task_key, keys: own }: Held, rows: number, isCalm: boolean) {
  const keys = [
    "seen",
    ...Array.from({ length: rows % 4 }, (_, n) => `${run_pos}-${task_key}-${n}`),
  ];
  const metadata = { rows };
  if (rows < 5) return rows === 4 && !isCalm ? { metadata, ...judged(own.length) } : { metadata };
  return { metadata, added_keys: [{ definition: FOUND, keys }] };
}

/** What checks found: the first partition is not good, and a warning is on all of them. */
function judged(count: number): Pick<ReportedResult, "checks"> {
  const good = { name: "good", severity: "fail", blocking: true } as const;
  const rest: [number, number][] = [[1, count - 1]];
  return {
    checks: [
      { ...good, passed: false, partitions: [[0, 0]] },
      ...(count > 1 ? [{ ...good, passed: true, partitions: rest }] : []),
      { name: "many", severity: "warn", passed: false, message: "few" },
    ],
  };
}

function nameOf({ run_pos, task_key, attempt }: TaskRef): string {
  return `${run_pos}/${task_key}/${attempt}`;
}
