import { flushCompileCache } from "node:module";
import path from "node:path";
import process from "node:process";
import { pino } from "pino";
import { connectWorker } from "../client/worker-connection.ts";
import { PawlError } from "../kernel/errors.ts";
import type { Project } from "../define/define-pawl.ts";
import { loadProject } from "./load-project.ts";
import { messageOf, plainError } from "./plain-values.ts";
import { captureChildren } from "./tasks/child-lines.ts";
import { captureConsole } from "./tasks/console-lines.ts";
import { type FromWorkerProcess, ToWorkerProcess } from "./worker-process-messages.ts";

/*
 * The process that `forkWorker` starts, and the only one of a server that runs the user's code. It
 * loads the configuration named by its first argument, says what that defines or what is wrong
 * with it, waits to be told where the server is, and works until SIGTERM. Without its parent it
 * ends at once: the server is gone, and its next worker does the work again.
 */

const stop = new AbortController();
const logger = pino({ name: "worker" }, pino.destination(2));

process.on("disconnect", () => process.exit(0));
process.on("SIGTERM", () => stop.abort());
// A terminal sends this to the whole group; the parent decides when the worker goes.
process.on("SIGINT", () => undefined);
// A promise that a task forgot is no reason to lose all the others.
process.on("unhandledRejection", (reason) => {
  logger.error({ reason: messageOf(reason) }, "A promise of the project's code was not awaited.");
});

// Before the project is loaded: its modules may take a method of the console for themselves.
captureConsole(console);
captureChildren(process);

try {
  const project = await loadProject(process.argv[2] ?? "");
  const connect = nextConnect();
  say({ type: "specs", specs: [...project.specs], code_version: null });
  const order = await connect;
  if (order !== null) await work(project, order);
  process.exit(0);
} catch (error) {
  const { code, message } = asPawlError(error);
  say({ type: "error", code, message });
  // Given time to leave the process; a parent that does not listen does not hold it up.
  setTimeout(() => process.exit(1), 100);
}

async function work(project: Project, order: ToWorkerProcess): Promise<void> {
  // Not needed where a project is only looked at.
  const { runWorker } = await import("./run-worker.ts");
  // Now, and not at its end: a worker that is killed leaves the next one as slow as it was itself.
  flushCompileCache();
  const { url, token, concurrency, stop_grace_ms: stopGraceMs, worker_id: workerId } = order;
  const connection = connectWorker({ url, ...(token === undefined ? {} : { token }) });
  await runWorker({
    connection,
    project,
    workerId,
    codeVersion: order.code_version ?? null,
    // Whoever started this process answers for what it holds, should it end in the middle.
    holding: say,
    logger,
    signal: stop.signal,
    folder: path.dirname(path.resolve(process.argv[2] ?? "")),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(stopGraceMs === undefined ? {} : { stopGraceMs }),
  });
  connection.close();
}

/** The parent's word to begin, or null when the process is to stop before it came. */
function nextConnect(): Promise<ToWorkerProcess | null> {
  return new Promise((resolve) => {
    process.on("message", (message) => {
      const parsed = ToWorkerProcess.safeParse(message);
      if (parsed.success) resolve(parsed.data);
    });
    stop.signal.addEventListener("abort", () => resolve(null));
  });
}

/** A parent that is gone hears nothing; that it went is noticed elsewhere. */
function say(message: FromWorkerProcess): void {
  process.send?.(message, () => undefined);
}

function asPawlError(thrown: unknown): PawlError {
  const error = plainError(thrown);
  if (error instanceof PawlError) return error;
  return new PawlError("INTERNAL", `The worker failed: ${messageOf(error)}`, { cause: error });
}
