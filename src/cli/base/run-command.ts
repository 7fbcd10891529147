import { type ErrorCode, PawlError } from "../../kernel/errors.ts";
import process from "node:process";
import { type Command, CommanderError } from "commander";
import type { Cli } from "../cli.ts";
import {
  drawable,
  type LineStream,
  showsColours,
  type Terminal,
  withoutControlsOn,
} from "./terminal.ts";

/**
 * The exit code of the command line for every error code; 0 is success. Adding a code without one
 * does not compile.
 *
 * 1 work failed, 2 wrong usage or input, 3 not found, 4 conflict, 5 server or store out of reach,
 * 6 not allowed, 7 corrupt, 70 a bug.
 */
export const EXIT_CODES = {
  ASSET_NOT_FOUND: 3,
  BACKFILL_NOT_FOUND: 3,
  BACKFILL_OVERLAPS: 4,
  CHUNK_NOT_FOUND: 3,
  COMMIT_UNKNOWN: 5,
  CONFIG_INVALID: 2,
  COORDINATOR_STALE: 4,
  DATA_DIRECTORY_UNWRITABLE: 5,
  DDL_NOT_ALLOWED: 6,
  DEFINITION_INVALID: 2,
  EPOCH_STALE: 4,
  EVENT_NOT_FOUND: 3,
  FENCE_BUSY: 4,
  FENCE_CLOSED: 4,
  FENCE_EXPIRED: 4,
  FORBIDDEN: 6,
  HEAD_IMPLAUSIBLE: 4,
  IDEMPOTENCY_KEY_MISSING: 2,
  IDEMPOTENCY_KEY_REUSED: 4,
  INPUT_INVALID: 2,
  INTERNAL: 70,
  LEASE_LOST: 4,
  LEDGER_CORRUPT: 7,
  LEDGER_NEWER: 5,
  METHOD_NOT_ALLOWED: 2,
  MOVE_NOT_FOUND: 3,
  NAME_TAKEN: 4,
  NOT_ENTERED: 4,
  NOT_YET: 4,
  OVERLOADED: 5,
  PARTITION_INVALID: 2,
  PLAN_CHANGED: 4,
  PORT_IN_USE: 4,
  QUOTA_EXCEEDED: 2,
  ROUTE_NOT_FOUND: 3,
  ROWS_CONFLICT: 4,
  RUN_KEY_CONFLICT: 4,
  RUN_NOT_FOUND: 3,
  SCHEDULE_NOT_FOUND: 3,
  SCHEMA_CHANGED: 4,
  SEGMENT_NOT_FOUND: 3,
  SELECTION_EMPTY: 2,
  SELECTION_TOO_LARGE: 2,
  SENSOR_NOT_FOUND: 3,
  SERVER_UNREACHABLE: 5,
  SHARD_BUSY: 5,
  SHARD_NOT_FOUND: 3,
  SHARD_UNREACHABLE: 5,
  SPLIT_NOT_FOUND: 3,
  SPLIT_OVERLAPS: 4,
  STATE_ILLEGAL: 4,
  STATE_VERSION_MISMATCH: 4,
  STORE_CORRUPT: 7,
  STORE_LOCKED: 5,
  STORE_UNAVAILABLE: 5,
  STREAM_MOVED: 4,
  SYNC_NOT_FOUND: 3,
  TABLE_UNFIT: 4,
  TASK_NOT_FOUND: 3,
  TOKEN_NOT_FOUND: 3,
  TOKEN_REQUIRED: 6,
  UNAUTHORIZED: 6,
  VERIFICATION_FAILED: 4,
  WEBHOOK_FAILED: 5,
  WEBHOOK_NOT_FOUND: 3,
  WEBHOOK_REFUSED: 2,
  WORK_FAILED: 1,
  WORK_NOT_FOUND: 3,
} as const satisfies Record<ErrorCode, number>;

/** The exit code of a command that was interrupted, as shells have it. */
const INTERRUPTED_EXIT_CODE = 130;

/** What is around a command: a process, or what stands for one. */
export type Surroundings = Pick<Cli, "cwd" | "env" | "signal"> &
  Readonly<Record<"stdout" | "stderr", LineStream>>;

/**
 * Runs what `build` makes of these arguments, reports what goes wrong in one sentence, and ends the
 * process with the exit code that goes with it.
 */
export async function runCommand(
  args: readonly string[],
  build: (cli: Cli) => Command | Promise<Command>,
): Promise<void> {
  const { env, stdout, stderr } = process;
  endWhenNobodyReads();
  const surroundings = { cwd: process.cwd(), env, stdout, stderr, signal: interruption() };
  const code = await exitCodeOf(args, build, surroundings);
  // Connections that are kept open for a next request would hold the process up.
  stdout.write("", () => process.exit(code));
}

/** Runs what `build` makes of these arguments, as `runCommand` does; answers the exit code. */
export async function exitCodeOf(
  args: readonly string[],
  build: (cli: Cli) => Command | Promise<Command>,
  { cwd, env, signal, stdout, stderr }: Surroundings,
): Promise<number> {
  const json = args.slice(0, indexOrEnd(args, "--")).includes("--json");
  const terminal: Terminal = {
    stdout: withoutControlsOn(stdout),
    stderr: withoutControlsOn(drawable(stderr, env)),
    json,
    colours: !json && showsColours(stdout, env),
    now: Date.now,
  };
  const cli = { cwd, env, terminal, signal };
  return run(cli, await build(cli), args);
}

async function run(cli: Cli, command: Command, args: readonly string[]): Promise<number> {
  try {
    await command.parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    // Help and version come as errors too, when they have been shown.
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    if (error instanceof CommanderError && error.code === "commander.help") return 2;
    if (cli.signal.aborted && !(error instanceof PawlError)) return INTERRUPTED_EXIT_CODE;
    const failure = failureOf(error, () => commandOf(command, args));
    report(cli, failure, error);
    return EXIT_CODES[failure.code];
  }
}

function failureOf(error: unknown, typed: () => string): PawlError {
  if (error instanceof PawlError) return error;
  if (error instanceof CommanderError) return usageError(error, typed());
  const message = error instanceof Error ? error.message : String(error);
  return new PawlError(
    "INTERNAL",
    `Something failed that should not: ${message.split("\n")[0]}. PAWL_DEBUG=1 shows where.`,
    { cause: error },
  );
}

/** The command that arguments lead to, as one types it: `pawl backfill create`. */
function commandOf(program: Command, args: readonly string[]): string {
  const names = [program.name()];
  let command = program;
  for (const [at, arg] of args.entries()) {
    const next = command.commands.find((each) => each.name() === arg);
    // What stands behind an option may be its value.
    const isOption = arg.startsWith("-") || args[at - 1]?.startsWith("-") === true;
    if (next === undefined && !isOption) break;
    if (next === undefined) continue;
    names.push(arg);
    command = next;
  }
  return names.join(" ");
}

/** The parser's complaint, with what was probably meant, as a sentence. */
function usageError({ message, code }: CommanderError, typed: string): PawlError {
  const [complaint = "", ...hints] = message.replace(/^error: /, "").split("\n");
  const end = /[.?]$/.test(complaint) ? "" : ".";
  const sentence = `${complaint.charAt(0).toUpperCase()}${complaint.slice(1)}${end}`;
  const hint = hints.join(" ").replace(/^\((.*)\)$/, "$1");
  const advice = hint === "" ? `\`${typed} --help\` lists what there is.` : hint;
  return new PawlError("INPUT_INVALID", `${sentence} ${advice}`, { details: { usage: code } });
}

function report({ terminal, env }: Cli, failure: PawlError, error: unknown): void {
  const { code, message, details } = failure;
  if (terminal.json) terminal.stderr.write(`${JSON.stringify({ code, message, details })}\n`);
  else terminal.stderr.write(`pawl: ${message} (${code})\n`);
  const { PAWL_DEBUG: debug = "" } = env;
  if (debug === "" || debug === "0" || !(error instanceof Error)) return;
  terminal.stderr.write(`${error.stack}\n`);
  if (error.cause instanceof Error) terminal.stderr.write(`Caused by: ${error.cause.stack}\n`);
}

/** The first signal asks the command to end, the second ends it. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  const interrupt = (): void => {
    if (controller.signal.aborted) process.exit(INTERRUPTED_EXIT_CODE);
    controller.abort();
  };
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  process.on("SIGHUP", interrupt);
  return controller.signal;
}

/** `pawl events | head` is no failure. */
function endWhenNobodyReads(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? 0 : EXIT_CODES.INTERNAL);
  });
}

function indexOrEnd(args: readonly string[], text: string): number {
  const index = args.indexOf(text);
  return index < 0 ? args.length : index;
}
