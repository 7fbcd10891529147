import { AsyncLocalStorage } from "node:async_hooks";
import { format, inspect } from "node:util";
import { type LogLevel, levelFields } from "../../work/run/protocol.ts";
import { shortened } from "../plain-values.ts";
import { sharedPatch } from "./shared-patch.ts";

/** What becomes of what tasks write on the console: kept as lines of their logs, shown, or both. */
export const TASK_OUTPUTS = ["keep-and-show", "keep", "show"] as const;
export type TaskOutput = (typeof TASK_OUTPUTS)[number];

/** What keeps the lines of a task. */
export type LineKeeper = {
  readonly output: TaskOutput;
  /** Whether it has kept the line: a task that has ended keeps none. */
  log(message: string, fields: ReturnType<typeof levelFields>): boolean;
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
 * Whose code is running, along all that it awaits. None while no console is captured: in a process
 * without one, tasks do not pay for it.
 */
let current: AsyncLocalStorage<LineKeeper | null> | null = null;
let captures = 0;

/** Runs the code of a task; what it writes on a captured console is the task's. */
export function asOwnerOfLines<Result>(keeper: LineKeeper, run: () => Result): Result {
  return current === null ? run() : current.run(keeper.output === "show" ? null : keeper, run);
}

/** Runs what is nobody's, such as what Pawl itself says while a task is running. */
export function besideTasks<Result>(run: () => Result): Result {
  return current === null ? run() : current.run(null, run);
}

/** Whose code is running now; null beside tasks. */
export function ownerOfLines(): LineKeeper | null {
  return current?.getStore() ?? null;
}

/**
 * From now on, what tasks write on this console is kept with them, and shown if they want it to be. What
 * is written beside tasks is only shown. Answers what ends it; the console is as it was once all who
 * captured it have ended that.
 */
export const captureConsole: (target: CapturedConsole) => () => void = sharedPatch((target) => {
  current ??= new AsyncLocalStorage();
  captures++;
  const restore = patchConsole(target);
  return () => {
    restore();
    captures--;
    if (captures > 0) return;
    current?.disable();
    current = null;
  };
});

function patchConsole(target: CapturedConsole): () => void {
  let isOver = false;
  const write = (
    level: LogLevel,
    said: readonly unknown[],
    show: () => void,
    text: () => string,
  ): void => {
    const owner = isOver ? null : ownerOfLines();
    if (owner?.output !== "keep") show();
    const isKept = owner?.log(textOf(said, text), levelFields(level));
    if (owner?.output === "keep" && isKept !== true) show();
  };
  const restores: (() => void)[] = [];
  for (const [method, level] of METHODS) {
    const before = target[method];
    const after: typeof before = (...said) => {
      const show = (): void => before.apply(target, said);
      write(level, said, show, () => format(...said));
    };
    target[method] = after;
    restores.push(() => {
      if (target[method] === after) target[method] = before;
    });
  }
  // These write by none of the others.
  const { dir: dirBefore, dirxml: dirxmlBefore } = target;
  const dir: typeof dirBefore = (item, options) => {
    const show = (): void => dirBefore.call(target, item, options);
    write("info", [item], show, () => inspect(item, { customInspect: false, ...options }));
  };
  const dirxml: typeof dirxmlBefore = (...said) => {
    const show = (): void => dirxmlBefore.apply(target, said);
    write("info", said, show, () => format(...said));
  };
  Object.assign(target, { dir, dirxml });
  return () => {
    // Who has put methods of their own over these calls them still: then they only show.
    isOver = true;
    for (const restore of restores) restore();
    if (target.dir === dir) target.dir = dirBefore;
    if (target.dirxml === dirxml) target.dirxml = dirxmlBefore;
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
