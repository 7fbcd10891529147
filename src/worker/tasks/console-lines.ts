import { AsyncLocalStorage } from "node:async_hooks";
import { format, inspect } from "node:util";
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

type CapturedConsole = Record<(typeof METHODS)[number][0], (...said: unknown[]) => void> &
  Pick<Console, "dir" | "dirxml">;

/**
 * Whose code is running, along all that it awaits. None before a console is captured: in a process
 * without one, tasks do not pay for it.
 */
let current: AsyncLocalStorage<LineKeeper> | null = null;

/** Runs the code of a task; what it writes on a captured console is the task's. */
export function asOwnerOfLines<Result>(keeper: LineKeeper, run: () => Result): Result {
  return current === null ? run() : current.run(keeper, run);
}

/** Whose code is running now; null beside tasks. */
export function ownerOfLines(): LineKeeper | null {
  return current?.getStore() ?? null;
}

/**
 * From now on, what tasks write on this console is kept with them as well as shown. What is written
 * beside tasks is only shown.
 */
export function captureConsole(target: CapturedConsole): void {
  current ??= new AsyncLocalStorage();
  const keep = (level: LogLevel, said: readonly unknown[], shown: () => string): void => {
    ownerOfLines()?.log(textOf(said, shown), levelFields(level));
  };
  for (const [method, level] of METHODS) {
    const show = target[method].bind(target);
    target[method] = (...said) => {
      show(...said);
      keep(level, said, () => format(...said));
    };
  }
  // These write by none of the others.
  const { dir, dirxml } = target;
  target.dir = (item, options) => {
    dir.call(target, item, options);
    keep("info", [item], () => inspect(item, { customInspect: false, ...options }));
  };
  target.dirxml = (...said) => {
    dirxml.apply(target, said);
    keep("info", said, () => format(...said));
  };
}

/** As the console shows it; what cannot be shown so fails no task. */
function textOf(said: readonly unknown[], shown: () => string): string {
  try {
    return shown();
  } catch {
    return said.map(shortened).join(" ");
  }
}
