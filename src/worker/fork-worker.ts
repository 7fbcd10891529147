import { type ChildProcess, fork } from "node:child_process";
import { hostname } from "node:os";
import { extname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ulid } from "ulid";
import type { PostAddress } from "../client/http-post.ts";
import { connectWorker } from "../client/worker-connection.ts";
import { PawlError } from "../kernel/errors.ts";
import type { Spec } from "../work/definition/published-spec.ts";
import { messageOf } from "./plain-values.ts";
import {
  FromWorkerProcess,
  HeldTasks,
  type ProcessEnd,
  type ToWorkerProcess,
} from "./worker-process-messages.ts";
import type { WorkerLogger } from "./run-worker.ts";

/** What a configuration defines, as far as it can leave the process that loaded it. */
export type LoadedSpecs = { specs: readonly Spec[]; codeVersion: string | null };

/** How to start the worker's process. */
export type ForkOptions = {
  configPath: string;
  logger: WorkerLogger;
  concurrency?: number;
  /** The environment of the user's code; this process's own unless told. */
  env?: NodeJS.ProcessEnv;
  /** How long the configuration may take to load; 60 s unless told. */
  loadMs?: number;
  /** How long running tasks may go on when the worker is to stop; 6 s unless told. */
  stopGraceMs?: number;
  /** How long the worker may take to stop before it is killed; 7.5 s unless told. */
  stopMs?: number;
  /** The version of the code that the worker says it has. */
  codeVersion?: string;
  /** Told that the server will not have this worker, which is not started again then. */
  refused?: (error: PawlError) => void;
};

/** A worker in a process of its own, kept running. */
export interface ForkedWorker {
  /** What the configuration defined when it was last loaded. */
  readonly loaded: LoadedSpecs;
  /** Who the worker is for the server; another one after every start. */
  readonly workerId: string;
  /** Lets the worker work for the server; also after every restart. */
  connect(address: PostAddress): void;
  /** Loads the configuration anew. The old worker goes on if that fails, and stops if it works. */
  restart(): Promise<LoadedSpecs>;
  /** Stops the worker gracefully and resolves when its process is gone. */
  stop(): Promise<void>;
}

const LOAD_MS = 60_000;
const STOP_MS = 7_500;
/** How long it is tried to say what became of a dead worker's tasks: after that its leases run out. */
const REPORT_MS = 10_000;
/** How long for one that was to stop: with the time until it is killed, less than 10 s in all. */
const STOP_REPORT_MS = 1_700;
const REPORT_PAUSE_MS = 200;
/** How long what a process said last may take to be heard after its end. */
const LAST_WORDS_MS = 1_000;
/** A worker that ran for so long did not crash because of how it started. */
const HEALTHY_MS = 60_000;
const RESTART_MS_FIRST = 500;
const RESTART_MS_MAX = 30_000;

type Started = { child: ChildProcess; loaded: LoadedSpecs; startedAt: number; held: HeldTasks };

/**
 * Starts a worker process and resolves with what its configuration defines; throws the
 * configuration's `CONFIG_INVALID` or `DEFINITION_INVALID`. A worker that crashes later is started
 * again, sooner at first and then ever later.
 */
export async function forkWorker(options: ForkOptions): Promise<ForkedWorker> {
  const supervisor = new WorkerSupervisor(options, await start(options));
  return {
    get loaded() {
      return supervisor.loaded;
    },
    get workerId() {
      return supervisor.workerId;
    },
    connect: (address) => supervisor.connect(address),
    restart: () => supervisor.restart(),
    stop: () => supervisor.stop(),
  };
}

class WorkerSupervisor {
  readonly #options: ForkOptions;
  #current: Started | null = null;
  #loaded: LoadedSpecs;
  #workerId = "";
  #address: PostAddress | null = null;
  #crashes = 0;
  #timer: NodeJS.Timeout | null = null;
  /** What is being said of a worker that crashed. */
  #saying: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(options: ForkOptions, first: Started) {
    this.#options = options;
    this.#loaded = first.loaded;
    this.#adopt(first);
  }

  get loaded(): LoadedSpecs {
    return this.#loaded;
  }

  get workerId(): string {
    return this.#workerId;
  }

  connect(address: PostAddress): void {
    this.#address = address;
    if (this.#current !== null) sendConnect(this.#current, address, this.#options);
  }

  async restart(): Promise<LoadedSpecs> {
    const next = await start(this.#options);
    if (this.#isStopped) {
      await this.#end(next, STOP_REPORT_MS);
      return next.loaded;
    }
    const old = this.#current;
    this.#crashes = 0;
    this.#adopt(next);
    if (old !== null) await this.#end(old, REPORT_MS);
    return next.loaded;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await Promise.all([
      this.#current === null ? null : this.#end(this.#current, STOP_REPORT_MS),
      within(STOP_REPORT_MS, this.#saying).catch(() => undefined),
    ]);
  }

  /** Asks the process to go, makes it go after a while, and says what became of what it held. */
  async #end({ child, held }: Started, reportMs: number): Promise<void> {
    await end(child, this.#options.stopMs ?? STOP_MS);
    await this.#report(held, { type: "killed", reason: "it did not stop in time." }, reportMs);
  }

  /** Says what became of the work of a process that is gone; its leases run out if that fails. */
  async #report(held: HeldTasks, ended: ProcessEnd, withinMs: number): Promise<void> {
    if (this.#address === null) return;
    const report = held.reportAfter(ended);
    const { probes, heads } = held.looksAfter(ended);
    const { workerId: worker_id } = held;
    const connection = connectWorker(this.#address);
    const insist = (say: () => Promise<unknown>) => this.#insist(say, withinMs);
    await Promise.all([
      report === null ? null : insist(() => connection.report(report)),
      probes.length === 0
        ? null
        : insist(() => connection.reportProbes({ worker_id, results: probes })),
      heads.length === 0
        ? null
        : insist(() => connection.reportHeads({ worker_id, results: heads })),
    ]);
    connection.close();
  }

  /** Says something until it is heard, within a bound. */
  async #insist(say: () => Promise<unknown>, withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs;
    for (;;) {
      try {
        await within(deadline - performance.now(), say());
        return;
      } catch (error) {
        const isOver = performance.now() + REPORT_PAUSE_MS >= deadline;
        if (!isOver && error instanceof PawlError && error.retryable) {
          await sleep(REPORT_PAUSE_MS);
          continue;
        }
        const reason = messageOf(error);
        this.#options.logger.warn({ reason }, "The work of a worker that ended is not given back.");
        return;
      }
    }
  }

  #adopt(started: Started): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#current = started;
    this.#loaded = started.loaded;
    this.#workerId = started.held.workerId;
    const { child, held } = started;
    let said: PawlError | null = null;
    child.on("message", (message) => {
      const parsed = FromWorkerProcess.safeParse(message);
      if (!parsed.success) return;
      held.hear(parsed.data);
      if (parsed.data.type === "error") said = new PawlError(parsed.data.code, parsed.data.message);
    });
    void goneOf(child).then(() => {
      this.#exited(started, exitReason(child.exitCode, child.signalCode), said);
    });
    if (this.#address !== null) sendConnect(started, this.#address, this.#options);
  }

  #exited(started: Started, reason: string, said: PawlError | null): void {
    if (this.#current !== started || this.#isStopped) return;
    this.#current = null;
    this.#saying = this.#report(started.held, { type: "crashed", reason }, REPORT_MS);
    if (said !== null && !said.retryable && this.#options.refused !== undefined) {
      this.#options.refused(said);
      return;
    }
    if (performance.now() - started.startedAt > HEALTHY_MS) this.#crashes = 0;
    this.#startLater(said?.message ?? reason);
  }

  #startLater(reason: string): void {
    const ms = Math.min(RESTART_MS_MAX, RESTART_MS_FIRST * 2 ** Math.min(this.#crashes, 10));
    this.#crashes++;
    this.#options.logger.error(
      { reason, restart_in_ms: ms },
      `The worker process ended: ${reason} It is started again.`,
    );
    this.#timer = setTimeout(() => {
      this.#timer = null;
      start(this.#options).then(
        (started) => this.#takeOver(started),
        (error: unknown) => {
          if (!this.#isStopped && this.#current === null) this.#startLater(String(error));
        },
      );
    }, ms);
  }

  /** A restart by hand, or the end, may have come first. */
  #takeOver(started: Started): void {
    if (!this.#isStopped && this.#current === null) this.#adopt(started);
    else void this.#end(started, STOP_REPORT_MS);
  }
}

async function start({ configPath, env, loadMs = LOAD_MS }: ForkOptions): Promise<Started> {
  const file = new URL(`./worker-process${extname(import.meta.url)}`, import.meta.url);
  const child = fork(fileURLToPath(file), [configPath], {
    execArgv: [],
    // What user code prints goes to stderr: stdout belongs to the command, which may write JSON there.
    stdio: ["ignore", 2, "inherit", "ipc"],
    ...(env === undefined ? {} : { env }),
  });
  const startedAt = performance.now();
  try {
    const loaded = await firstWord(child, configPath, loadMs);
    const held = new HeldTasks(`${hostname().slice(0, 100)}:${child.pid}:${ulid()}`);
    return { child, loaded, startedAt, held };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** What the process says first: what the configuration defines, or what is wrong with it. */
function firstWord(child: ChildProcess, path: string, loadMs: number): Promise<LoadedSpecs> {
  return new Promise((resolve, reject) => {
    const fail = (code: "CONFIG_INVALID" | "INTERNAL", message: string): void => {
      clearTimeout(timer);
      reject(new PawlError(code, message, { details: { file: path } }));
    };
    const timer = setTimeout(() => {
      fail(
        "CONFIG_INVALID",
        `${path} is not loaded after ${loadMs} ms; what it awaits never ends.`,
      );
    }, loadMs);
    child.once("error", (error) => fail("INTERNAL", `No worker process: ${error.message}.`));
    child.once("exit", (code, signal) => {
      fail(
        "CONFIG_INVALID",
        `${path} ended the worker process while it was loaded: ${exitReason(code, signal)}`,
      );
    });
    child.on("message", (message) => {
      const word = FromWorkerProcess.safeParse(message);
      // The project's own code may say what it likes to its parent: only words of ours count.
      if (!word.success) return;
      clearTimeout(timer);
      if (word.data.type === "error") reject(new PawlError(word.data.code, word.data.message));
      else if (word.data.type === "specs")
        resolve({ specs: word.data.specs, codeVersion: word.data.code_version });
    });
  });
}

function sendConnect(
  { child, held }: Started,
  address: PostAddress,
  { concurrency, stopGraceMs, codeVersion }: ForkOptions,
): void {
  const message: ToWorkerProcess = {
    type: "connect",
    ...address,
    worker_id: held.workerId,
    ...(codeVersion === undefined ? {} : { code_version: codeVersion }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(stopGraceMs === undefined ? {} : { stop_grace_ms: stopGraceMs }),
  };
  // A process that is just dying cannot be told; its end is heard of.
  if (child.connected) child.send(message, () => undefined);
}

/** Gives up on an answer that does not come in time. */
async function within(ms: number, answer: Promise<unknown>): Promise<void> {
  const came = new AbortController();
  const late = sleep(Math.max(0, ms), undefined, { signal: came.signal }).then(() => {
    throw new PawlError("SERVER_UNREACHABLE", "The server does not answer in time.");
  });
  try {
    await Promise.race([answer, late]);
  } finally {
    came.abort();
  }
}

/** Asks the process to go, and makes it go after a while. */
async function end(child: ChildProcess, stopMs: number): Promise<void> {
  const timer = setTimeout(() => child.kill("SIGKILL"), stopMs);
  child.kill("SIGTERM");
  await goneOf(child);
  clearTimeout(timer);
}

/** Resolves when the process is gone and all that it said has been heard. */
function goneOf(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    const exited = (): void => {
      // A process of its own that it left behind may hold the channel open.
      setTimeout(resolve, LAST_WORDS_MS).unref();
      if (!child.connected) resolve();
    };
    child.once("close", () => resolve());
    if (hasExited(child)) exited();
    else child.once("exit", exited);
  });
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function exitReason(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `it ended with the exit code ${code}.` : `it was ended by ${signal}.`;
}
