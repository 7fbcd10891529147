import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** Where Linux keeps files in memory. */
const MEMORY = "/dev/shm";
/** Several times what the tests have there at once. */
const FREE_BYTES_MIN = 3 * 2 ** 30;

/** The folder of this run; every project of the configuration asks for it. */
let folder: string | undefined;

/**
 * Gives the whole test run one temporary folder, in memory where there is room: databases make and
 * delete many files, and to flush one to a disk takes longer than to write it. Programs do the same
 * there as on a disk, which is all that tests see: none of them cuts the power.
 */
export function setup(): void {
  if (folder !== undefined) return;
  const made = mkdtempSync(join(isRoomy(MEMORY) ? MEMORY : tmpdir(), "pawl-tests-"));
  // As that of the machine: PostgreSQL runs as another user than root.
  chmodSync(made, 0o1777);
  process.env["TMPDIR"] = made;
  folder = made;
  // Not when the tests are done: the processes of some, as Chromium, end after that.
  process.once("exit", () => rmSync(made, { recursive: true, force: true, maxRetries: 5 }));
}

/** Whether files fit into a folder in memory, and programs among them can be run. */
function isRoomy(path: string): boolean {
  try {
    const { bsize, bavail } = statfsSync(path);
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
    const options = mounts.findLast((line) => line.split(" ")[1] === path)?.split(" ")[3];
    const isOpen = options !== undefined && !options.split(",").includes("noexec");
    return isOpen && bsize * bavail >= FREE_BYTES_MIN;
  } catch {
    return false;
  }
}
