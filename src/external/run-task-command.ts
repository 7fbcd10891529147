import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { TaskContext, TaskResult } from "../define/automation-context.ts";
import { type AssetReference, assetKeysOf } from "../define/asset.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import { PawlError } from "../kernel/errors.ts";
import { isTaskVariable, TASK_VARIABLES, valueVariable } from "../kernel/task-variables.ts";
import { type CommandEnd, CommandOutput } from "./command-output.ts";

/** How a command is run. */
export type CommandOptions = {
  /** The folder it runs in; that of the worker unless told. */
  cwd?: string;
  /** Variables of its environment, besides those of the worker and of the task. */
  env?: Readonly<Record<string, string | undefined>>;
  /** How long it may go on after it was asked to stop; 3 s unless told. */
  killGraceMs?: number;
  /** Upstream assets whose partitions it is told of, in the file that `PAWL_CONTEXT` names. */
  upstream?: readonly AssetReference[];
  /** Exit codes that say that another attempt cannot help; 65 unless told. */
  doNotRetryOn?: readonly number[];
};

/** The names of the options that all commands have. */
export const COMMAND_OPTIONS = ["cwd", "env", "killGraceMs", "doNotRetryOn", "upstream"];

const KILL_GRACE_MS = 3_000;
/** A worker that is told of no end for 5 s gives the task up: by then the command must be gone. */
const KILL_GRACE_MS_MAX = 4_000;
/** `EX_DATAERR` of sysexits.h: the input is wrong, and will be the next time. */
const DO_NOT_RETRY_ON = [65];
/** How long output may come after the command has ended, from what it set free of its group. */
const LAST_OUTPUT_MS = 1_000;

/**
 * Longest text in one variable. Linux takes 128 KiB, and no character needs more than three bytes;
 * what is longer stands in the file that `PAWL_CONTEXT` names.
 */
const VARIABLE_LENGTH_MAX = 40_000;

/**
 * Becomes the command, with a guard beside it in its process group. The guard reads from a pipe
 * whose other end the worker holds: when the worker is gone, however it went, the whole group goes
 * too, or a command would still be writing its partition while another worker begins to. It hears no
 * signal but the last one.
 */
const GUARDED = `
(
  trap "" TERM INT HUP
  exec >/dev/null 2>&1
  read -r _ <&3
  rm -f -- "$PAWL_CONTEXT"
  kill -9 -$$
) &
exec 3<&-
exec "$@"
`;

/** Refuses options that no command has, or not with such a value; `more` are of its own kind. */
export function checkCommandOptions(
  subject: string,
  options: CommandOptions,
  more: readonly string[],
): void {
  refuseUnknownOptions(subject, options, [...more, ...COMMAND_OPTIONS]);
  const { killGraceMs = KILL_GRACE_MS, doNotRetryOn = DO_NOT_RETRY_ON } = options;
  if (!(killGraceMs >= 0 && killGraceMs <= KILL_GRACE_MS_MAX)) {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has a killGraceMs of ${killGraceMs}; it must be from 0 to ${KILL_GRACE_MS_MAX}, ` +
        "for a worker gives up a task that goes on 5 s after it was stopped.",
    );
  }
  const odd = doNotRetryOn.find((code) => !(Number.isInteger(code) && code > 0 && code < 256));
  if (odd !== undefined) {
    throw new PawlError(
      "DEFINITION_INVALID",
      `${subject} has the exit code ${odd} in doNotRetryOn; exit codes of failures are whole ` +
        "numbers from 1 to 255.",
    );
  }
}

/**
 * Runs a command for a task: tells it what the task is about, takes what it prints, and ends its whole
 * process group when the task is to stop. Throws as the function of a task does.
 */
export async function runTaskCommand(
  context: TaskContext,
  command: readonly string[],
  options: CommandOptions,
): Promise<TaskResult> {
  context.signal.throwIfAborted();
  const stopping = new AbortController();
  const output = new CommandOutput(context, () => stopping.abort());
  const contextFile = join(tmpdir(), `pawl-task-${randomUUID()}.json`);
  const document = { ...taskDocument(context), ...(await upstreamDocument(context, options)) };
  await writeFile(contextFile, JSON.stringify(document), { flag: "wx", mode: 0o600 });
  const stop = (): void => stopping.abort(context.signal.reason);
  context.signal.addEventListener("abort", stop, { once: true });
  if (context.signal.aborted) stop();
  try {
    const env = {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !isTaskVariable(name))),
      ...options.env,
      ...taskVariables(document, contextFile),
    };
    const end = await execute(command, { ...options, env }, output, stopping.signal);
    await output.settled();
    context.signal.throwIfAborted();
    return output.result(end, options.doNotRetryOn ?? DO_NOT_RETRY_ON);
  } finally {
    context.signal.removeEventListener("abort", stop);
    await rm(contextFile, { force: true });
  }
}

/** Resolves once the command has ended and nothing of its process group is left. */
function execute(
  command: readonly string[],
  { cwd = process.cwd(), env, killGraceMs = KILL_GRACE_MS }: CommandOptions,
  output: CommandOutput,
  signal: AbortSignal,
): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    const child = start(command, cwd, env);
    const streams = [child.stdout, child.stderr, child.stdio[3]];
    let timer: NodeJS.Timeout | undefined;
    const stop = (): void => {
      // Somebody else may have begun with the partition: there is no time to ask.
      const isLost = signal.reason instanceof PawlError && signal.reason.code === "LEASE_LOST";
      endGroup(child.pid, isLost ? "SIGKILL" : "SIGTERM");
      timer = setTimeout(() => endGroup(child.pid, "SIGKILL"), killGraceMs);
    };
    signal.addEventListener("abort", stop, { once: true });
    const readers = { stdout: output.reader("stdout"), stderr: output.reader("stderr") };
    child.stdout?.on("data", (bytes: Buffer) => readers.stdout.push(bytes));
    child.stderr?.on("data", (bytes: Buffer) => readers.stderr.push(bytes));
    // A pipe that breaks is a command that ends, which is told below.
    for (const stream of streams) stream?.on("error", () => undefined);
    child.once("error", (error) => {
      signal.removeEventListener("abort", stop);
      reject(unstartable(command, cwd, error));
    });
    child.once("exit", () => {
      signal.removeEventListener("abort", stop);
      clearTimeout(timer);
      // What it left behind, and the guard: nothing outlives its task.
      endGroup(child.pid, "SIGKILL");
      streams[2]?.destroy();
      timer = setTimeout(() => {
        for (const stream of streams) stream?.destroy();
      }, LAST_OUTPUT_MS);
    });
    child.once("close", (code, by) => {
      clearTimeout(timer);
      readers.stdout.end();
      readers.stderr.end();
      resolve({ code, signal: by });
    });
    if (signal.aborted) stop();
  });
}

/** In a session of its own, whose process group is the command and what it starts. */
function start(command: readonly string[], cwd: string, env: CommandOptions["env"]): ChildProcess {
  try {
    return spawn("/bin/sh", ["-c", GUARDED, "pawl", ...command], {
      cwd,
      env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
  } catch (error) {
    throw error instanceof Error ? unstartable(command, cwd, error) : error;
  }
}

function endGroup(leader: number | undefined, signal: NodeJS.Signals): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, signal);
  } catch {
    // Nobody is left.
  }
}

function unstartable(command: readonly string[], cwd: string, error: Error): Error {
  const code = "code" in error ? String(error.code) : "";
  const [program = ""] = command;
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: `the folder ${cwd} or /bin/sh is not there`,
    ENOTDIR: `${cwd} is not a folder`,
    E2BIG: "its arguments and variables are longer than the system takes",
  };
  const reason = reasons[code] ?? error.message;
  return new Error(`The command ${JSON.stringify(program)} could not be started: ${reason}.`);
}

/** What a command is told of upstream partitions, by asset; nothing where it does not want to know. */
async function upstreamDocument(
  context: TaskContext,
  { upstream: assets }: CommandOptions,
): Promise<{ upstream?: Record<string, object[]> }> {
  if (assets === undefined) return {};
  const told: [string, object[]][] = [];
  for (const key of assetKeysOf(assets)) {
    const partitions = await context.upstream(key);
    const documents = partitions.map((each) => {
      const { materializedAt: materialized_at, runId: run_id, codeVersion: code_version } = each;
      const { partition, status, metadata } = each;
      return { partition, status, materialized_at, run_id, code_version, metadata };
    });
    told.push([key, documents]);
  }
  return { upstream: Object.fromEntries(told) };
}

/** All that a command is told about its task, as one document. */
function taskDocument(context: TaskContext) {
  const { asset, runId, attempt, partition, partitions, values, window, config } = context;
  const checkpoint = context.lastCheckpoint;
  return {
    asset,
    run_id: runId,
    attempt,
    partition,
    partitions,
    values,
    window,
    config,
    checkpoint,
  };
}

function taskVariables(
  document: ReturnType<typeof taskDocument>,
  contextFile: string,
): Record<string, string> {
  const { window, values, checkpoint } = document;
  const variables: Record<string, string> = {};
  const set = (variable: string, text: string): void => {
    if (text.length <= VARIABLE_LENGTH_MAX) variables[variable] = text;
  };
  set(TASK_VARIABLES.asset, document.asset);
  set(TASK_VARIABLES.runId, document.run_id);
  set(TASK_VARIABLES.attempt, String(document.attempt));
  set(TASK_VARIABLES.partition, document.partition);
  set(TASK_VARIABLES.partitions, JSON.stringify(document.partitions));
  set(TASK_VARIABLES.values, JSON.stringify(values));
  for (const [dimension, value] of Object.entries(values)) set(valueVariable(dimension), value);
  set(TASK_VARIABLES.config, JSON.stringify(document.config));
  if (checkpoint !== null) set(TASK_VARIABLES.checkpoint, JSON.stringify(checkpoint));
  if (window !== null) {
    set(TASK_VARIABLES.windowStart, window.start);
    set(TASK_VARIABLES.windowEnd, window.end);
  }
  set(TASK_VARIABLES.context, contextFile);
  return variables;
}
