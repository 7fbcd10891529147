import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Bench } from "./benchmark.ts";
import type { FromServer, ServerOptions } from "./server-process.ts";
import type { FromWorker, WorkerProcessOptions } from "./worker-process.ts";

/** A process of the product under measurement. */
export interface Child<Message extends { type: string }> {
  readonly pid: number;
  /** Resolves with the next message of a type. */
  next<Type extends Message["type"]>(type: Type): Promise<Extract<Message, { type: Type }>>;
  /** Asks for something and resolves with the message of the same name. */
  ask<Type extends Message["type"]>(type: Type): Promise<Extract<Message, { type: Type }>>;
  /** Ends it in order; resolves when it is gone. */
  stop(): Promise<void>;
  /** Ends it as `kill -9` does; resolves when it is gone. */
  kill(): Promise<void>;
}

const running = new Set<ChildProcess>();

/** Kills whatever a benchmark that failed left running. */
export function killChildren(): void {
  for (const child of running) child.kill("SIGKILL");
}

/** Has a process killed with the others; resolves when it is gone. */
export function keepTrack(child: ChildProcess): Promise<void> {
  running.add(child);
  return new Promise((resolve) => {
    child.once("exit", () => {
      running.delete(child);
      resolve();
    });
  });
}

/** Starts a file of this folder in a process of its own. */
export function startChild<Message extends { type: string }>(
  bench: Bench,
  file: string,
  options: object,
): Child<Message> {
  const { profileFolder } = bench;
  const execArgv =
    profileFolder === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileFolder}/${file}`];
  const path = fileURLToPath(new URL(`./${file}.ts`, import.meta.url));
  const child = fork(path, [JSON.stringify(options)], { execArgv });
  const gone = keepTrack(child);
  function next<Type extends Message["type"]>(type: Type) {
    return new Promise<Extract<Message, { type: Type }>>((resolve, reject) => {
      const forget = (): void => {
        child.off("message", hear);
        child.off("exit", fail);
      };
      const hear = (message: unknown): void => {
        if ((message as Message).type !== type) return;
        forget();
        resolve(message as Extract<Message, { type: Type }>);
      };
      const fail = (code: number | null): void => {
        forget();
        reject(new Error(`${file} ended with ${code} before it said ${type}`));
      };
      child.on("message", hear);
      child.on("exit", fail);
    });
  }
  return {
    pid: child.pid ?? 0,
    next,
    ask(type) {
      const answer = next(type);
      child.send(type);
      return answer;
    },
    stop() {
      if (child.connected) child.send("stop");
      return gone;
    },
    kill() {
      child.kill("SIGKILL");
      return gone;
    },
  };
}

/** A server of its own process, which listens. */
export type BenchServer = Child<FromServer> & { readonly url: string };

/** Starts a server and resolves when it listens. */
export async function startBenchServer(bench: Bench, options: ServerOptions): Promise<BenchServer> {
  const child = startChild<FromServer>(bench, "server-process", options);
  const { url } = await child.next("listening");
  return { ...child, url };
}

/** Starts a worker; it claims as soon as it can. */
export function startBenchWorker(bench: Bench, options: WorkerProcessOptions): Child<FromWorker> {
  return startChild<FromWorker>(bench, "worker-process", options);
}
