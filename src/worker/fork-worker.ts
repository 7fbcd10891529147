import { type ChildProcess, fork } from "node:child_process";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { ServerAddress } from "../client/json-post.ts";
import { PawlError } from "../core/errors.ts";
import type { Spec } from "../core/published-spec.ts";
import { FromWorkerProcess, type ToWorkerProcess } from "./worker-process-messages.ts";
import type { WorkerLogger } from "./worker-logger.ts";

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
  /** How long running tasks may go on when the worker is to stop; 10 s unless told. */
  stopGraceMs?: number;
  /** How long the worker may take to stop before it is killed; 30 s unless told. */
  stopMs?: number;
};

/** A worker in a process of its own, kept running. */
export interface ForkedWorker {
  /** What the configuration defined when it was last loaded. */
  readonly loaded: LoadedSpecs;
  /** Lets the worker work for the server; also after every restart. */
  connect(address: ServerAddress): void;
  /** Loads the configuration anew. The old worker goes on if that fails, and stops if it works. */
  restart(): Promise<LoadedSpecs>;
  /** Stops the worker gracefully and resolves when its process is gone. */
  stop(): Promise<void>;
}

const LOAD_MS = 60_000;
const STOP_MS = 30_000;
/** A worker that ran for so long did not crash because of how it started. */
const HEALTHY_MS = 60_000;
const RESTART_MS_FIRST = 500;
const RESTART_MS_MAX = 30_000;

type Started = { child: ChildProcess; loaded: LoadedSpecs; startedAt: number };

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
    connect: (address) => supervisor.connect(address),
    restart: () => supervisor.restart(),
    stop: () => supervisor.stop(),
  };
}

class WorkerSupervisor {
  readonly #options: ForkOptions;
  #current: Started | null = null;
  #loaded: LoadedSpecs;
  #address: ServerAddress | null = null;
  #crashes = 0;
  #timer: NodeJS.Timeout | null = null;
  #isStopped = false;

  constructor(options: ForkOptions, first: Started) {
    this.#options = options;
    this.#loaded = first.loaded;
    this.#adopt(first);
  }

  get loaded(): LoadedSpecs {
    return this.#loaded;
  }

  connect(address: ServerAddress): void {
    this.#address = address;
    if (this.#current !== null) sendConnect(this.#current.child, address, this.#options);
  }

  async restart(): Promise<LoadedSpecs> {
    const next = await start(this.#options);
    if (this.#isStopped) {
      await end(next.child, this.#options.stopMs ?? STOP_MS);
      return next.loaded;
    }
    const old = this.#current;
    this.#crashes = 0;
    this.#adopt(next);
    if (old !== null) await end(old.child, this.#options.stopMs ?? STOP_MS);
    return next.loaded;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#current !== null) await end(this.#current.child, this.#options.stopMs ?? STOP_MS);
  }

  #adopt(started: Started): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#current = started;
    this.#loaded = started.loaded;
    const { child } = started;
    let reason: string | null = null;
    child.on("message", (message) => {
      const parsed = FromWorkerProcess.safeParse(message);
      if (parsed.success && parsed.data.type === "error") reason = parsed.data.message;
    });
    child.once("exit", (code, signal) => this.#exited(started, reason ?? exitReason(code, signal)));
    if (this.#address !== null) sendConnect(child, this.#address, this.#options);
    // It may have gone before anybody listened.
    if (hasExited(child)) this.#exited(started, exitReason(child.exitCode, child.signalCode));
  }

  #exited(started: Started, reason: string): void {
    if (this.#current !== started || this.#isStopped) return;
    this.#current = null;
    if (performance.now() - started.startedAt > HEALTHY_MS) this.#crashes = 0;
    this.#startLater(reason);
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
    else void end(started.child, this.#options.stopMs ?? STOP_MS);
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
    return { child, loaded: await firstWord(child, configPath, loadMs), startedAt };
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
      else resolve({ specs: word.data.specs, codeVersion: word.data.code_version });
    });
  });
}

function sendConnect(child: ChildProcess, address: ServerAddress, options: ForkOptions): void {
  const { concurrency, stopGraceMs } = options;
  const message: ToWorkerProcess = {
    type: "connect",
    ...address,
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(stopGraceMs === undefined ? {} : { stop_grace_ms: stopGraceMs }),
  };
  // A process that is just dying cannot be told; its end is heard of.
  if (child.connected) child.send(message, () => undefined);
}

/** Asks the process to go, and makes it go after a while. */
function end(child: ChildProcess, stopMs: number): Promise<void> {
  if (hasExited(child)) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), stopMs);
    child.once("exit", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function exitReason(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `it ended with the exit code ${code}.` : `it was ended by ${signal}.`;
}
