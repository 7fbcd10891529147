import { AsyncLocalStorage } from "node:async_hooks";
import { format } from "node:util";
import { type LogLevel, levelFields } from "../../work/run/protocol.ts";
import { shortened } from "../plain-values.ts";

/** What keeps the lines of a task. */
export type LineKeeper = {
  log(message: string, fields: ReturnType<typeof levelFields>): void;
};

/** The methods of a console whose lines are kept; others, such as `table`, write by these. */
const METHODS = [
  ["debug", "debug"],
  ["log", "info"],
  ["info", "info"],
  ["warn", "warn"],
  ["error", "error"],
] as const satisfies readonly (readonly [string, LogLevel])[];

type CapturedConsole = Record<(typeof METHODS)[number][0], (...said: unknown[]) => void>;

/**
 * Whose code is running, along all that it awaits. None before a console is captured: in a process
 * without one, tasks do not pay for it.
 */
let current: AsyncLocalStorage<LineKeeper> | null = null;

/** Runs the code of a task; what it writes on a captured console is the task's. */
export function asOwnerOfLines<Result>(keeper: LineKeeper, run: () => Result): Result {
  return current === null ? run() : current.run(keeper, run);
}

/**
 * From now on, what tasks write on this console is kept with them as well as shown. What is written
 * beside tasks is only shown.
 */
export function captureConsole(target: CapturedConsole): void {
  current ??= new AsyncLocalStorage();
  const storage = current;
  for (const [method, level] of METHODS) {
    const show = target[method].bind(target);
    target[method] = (...said) => {
      show(...said);
      storage.getStore()?.log(textOf(said), levelFields(level));
    };
  }
}

/** As the console shows it; what cannot be shown so fails no task. */
function textOf(said: readonly unknown[]): string {
  try {
    return format(...said);
  } catch {
    return said.map(shortened).join(" ");
  }
}
