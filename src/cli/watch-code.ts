import { type FSWatcher, readdirSync, statSync, watch } from "node:fs";
import { join, relative } from "node:path";

const CODE = /\.[cm]?[jt]s$/;

/** An editor saves in several steps; what comes so close together is one change. */
const QUIET_MS = 150;

/**
 * Calls back after a file with code has changed, once for what changes together, and never while
 * the call before is under way. Installed packages, hidden folders and data are no code.
 */
export function watchCode(
  directory: string,
  dataDirectory: string,
  changed: (path: string) => Promise<void>,
): { close(): void } {
  const watchers = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | null = null;
  let calling: Promise<void> = Promise.resolve();

  function add(folder: string): void {
    if (watchers.has(folder) || folder === dataDirectory) return;
    const watcher = watch(folder, (_event, name) => {
      if (name !== null) touched(join(folder, name));
    });
    watcher.on("error", () => remove(folder));
    watchers.set(folder, watcher);
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory() && isCodeFolder(entry.name)) add(join(folder, entry.name));
    }
  }

  function remove(folder: string): void {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  }

  function touched(path: string): void {
    if (CODE.test(path)) {
      if (timer !== null) clearTimeout(timer);
      timer = setTimeout(() => {
        calling = calling
          .then(() => changed(relative(directory, path)))
          // What could not be started is reported by whoever started it.
          .catch(() => undefined);
      }, QUIET_MS);
      return;
    }
    const name = path.split(/[\\/]/).at(-1) ?? "";
    if (isCodeFolder(name) && isFolder(path)) add(path);
  }

  add(directory);
  return {
    close() {
      if (timer !== null) clearTimeout(timer);
      for (const folder of watchers.keys()) remove(folder);
    },
  };
}

function isCodeFolder(name: string): boolean {
  return name !== "node_modules" && !name.startsWith(".");
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
