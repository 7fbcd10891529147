import type { WorkerConnection } from "../../src/client/worker-connection.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type {
  ClaimAnswer,
  ClaimRequest,
  ReportAnswer,
  ReportRequest,
} from "../../src/work/run/protocol.ts";
import type { Project } from "../../src/define/define-pawl.ts";
import type { SyncCode } from "../../src/define/automation-context.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { SYNCS } from "./draw-syncs.ts";
import { SimulatedProcess } from "./simulated-process.ts";
import { ConnectionLost } from "./simulated-server.ts";
import type { WorkerWorld } from "./simulated-worker.ts";

/** What the workers of syncs need from the simulation around them. */
export type SyncerWorld = Omit<WorkerWorld, "poison" | "assets"> & {
  /** The functions of every sync, as one process has them. */
  codeOf: (process: SimulatedProcess) => SyncCode;
};

const STOP_MS_MAX = 30_000;
const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** The real worker in a process that dies, freezes, stops and is started again. */
export class SimulatedSyncer {
  readonly #world: SyncerWorld;

  readonly #lives: Life[] = [];

  constructor(world: SyncerWorld) {
    this.#world = world;
  }

  /** Lets go of all workers there were: the platform keeps whoever listens to a signal for ever. */
  close(): void {
    for (const { process, stop } of this.#lives) {
      process.kill();
      stop.abort();
    }
  }

  async run(): Promise<void> {
    const { time, random, isCalm, isOver } = this.#world;
    while (!isOver()) {
      const life = this.#start();
      while (!life.process.isGone && !isOver()) {
        await time.sleep(isCalm() ? 5_000 : random.integer(200, 15_000));
        if (!isCalm()) await this.#strike(life);
      }
      await time.sleep(random.integer(100, 5_000));
    }
  }

  async #strike({ process, stop, ended }: Life): Promise<void> {
    const { time, random, leaseMs } = this.#world;
    switch (random.weighted({ nothing: 6, crash: 2, freeze: 2, stop: 1 })) {
      case "crash":
        return process.kill();
      case "freeze":
        return process.freeze(random.integer(Math.floor(leaseMs / 2), 3 * leaseMs));
      case "stop":
        stop.abort();
        // Whoever is asked to stop and does not is killed.
        await Promise.race([ended, time.sleep(STOP_MS_MAX)]);
        return process.kill();
      default:
    }
  }

  #start(): Life {
    const { time, random, newId, codeOf, unexpected } = this.#world;
    const process = new SimulatedProcess(time);
    const stop = new AbortController();
    const code = codeOf(process);
    const project: Project = {
      specs: [],
      functions: new Map(),
      checks: new Map(),
      sensors: new Map(),
      syncs: new Map(SYNCS.map((name) => [name, code])),
      shards: new Map(),
      allowsDdl: false,
    };
    const ended = runWorker({
      connection: this.#connection(process),
      project,
      workerId: `syncer-${newId()}`,
      codeVersion: null,
      logger: SILENT,
      signal: stop.signal,
      concurrency: random.integer(1, 6),
      stopGraceMs: random.pick([0, 2_000]),
      clock: process.clock,
      wallNow: time.wallMs,
      random: () => random.next(),
      newLeaseId: newId,
      environment: {},
      folder: "/",
    }).catch((error: unknown) => unexpected(`the worker failed: ${String(error)}`));
    const life: Life = { process, stop, ended };
    this.#lives.push(life);
    return life;
  }

  /** The server, as far as messages get through. */
  #connection(process: SimulatedProcess): WorkerConnection {
    const { network } = this.#world;
    const ask = <Answer>(question: (engine: Engine) => Promise<Answer>): Promise<Answer> =>
      process.ask(() => network.ask(question).catch((error: unknown) => unreachable(error)));
    return {
      address: null,
      claim: (request, signal) =>
        abortable(
          signal,
          ask((engine) => engine.claim(request)).then((got) => this.#got(request, got)),
        ),
      heartbeat: (request) => ask((engine) => engine.heartbeat(request)),
      checkpoint: async (request) => {
        this.#mayDie(process);
        const answer = await ask((engine) => engine.checkpoint(request));
        this.#mayDie(process);
        return process.ask(() => Promise.resolve(answer));
      },
      log: (request) => ask((engine) => engine.log(request)),
      report: (request) =>
        ask((engine) => engine.report(request)).then((answer) => this.#reported(request, answer)),
      upstream: () => Promise.reject(new Error("a segment has nothing upstream")),
      claimProbes: (request) => ask((engine) => engine.claimProbes(request)),
      reportProbes: (request) => ask((engine) => engine.reportProbes(request)),
      claimHeads: (request, signal) =>
        abortable(
          signal,
          ask((engine) => engine.claimHeads(request)),
        ),
      reportHeads: (request) => ask((engine) => engine.reportHeads(request)),
      exchangeSources: (request) => ask((engine) => engine.exchangeSources(request)),
      sayStep: (word) => ask((engine) => engine.sayStep(word)),
      close: () => undefined,
    };
  }

  /** Between what was stored and what is said about it is where it hurts most. */
  #mayDie(process: SimulatedProcess): void {
    const { random, isCalm } = this.#world;
    if (!isCalm() && random.chance(0.01)) process.kill();
  }

  #got({ worker_id }: ClaimRequest, answer: ClaimAnswer): ClaimAnswer {
    for (const { run_pos, tasks } of answer.groups) {
      for (const { task_key, attempt } of tasks) {
        this.#world.granted({ run_pos, task_key, attempt, worker_id });
      }
    }
    return answer;
  }

  #reported({ results }: ReportRequest, answer: ReportAnswer): ReportAnswer {
    for (const [index, verdict] of answer.results.entries()) {
      const result = results[index];
      if (verdict === "recorded" && result !== undefined) this.#world.recorded(result);
    }
    return answer;
  }
}

/** One life of a worker. */
type Life = { process: SimulatedProcess; stop: AbortController; ended: Promise<void> };

function unreachable(error: unknown): never {
  if (!(error instanceof ConnectionLost)) throw error;
  throw new PawlError("SERVER_UNREACHABLE", error.message);
}

/** Resolves or rejects as the answer does, unless it is given up before. */
function abortable<Answer>(signal: AbortSignal | undefined, answer: Promise<Answer>) {
  return new Promise<Answer>((resolve, reject) => {
    const abort = (): void => reject(new PawlError("SERVER_UNREACHABLE", "it was given up"));
    signal?.addEventListener("abort", abort, { once: true });
    answer.then(resolve, reject);
  });
}
