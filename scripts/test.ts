/**
 * `npm test`: the checks, then every test, then one last line `<n> passed, <n> failed`.
 *
 * Arguments go to vitest (`npm test -- test/repo`). What fails without being a test (a check, a file
 * that does not load, a run without tests) counts as one failure more, so the line never says that
 * nothing failed when the command fails.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

type Counts = { passed: number; failed: number };

const checkPassed = run("npm", ["run", "--silent", "check"]);
const { passed, failed } = runTests(process.argv.slice(2));
const failures = failed + (checkPassed ? 0 : 1);

console.log(`${passed} passed, ${failures} failed`);
process.exitCode = failures === 0 ? 0 : 1;

function runTests(args: readonly string[]): Counts {
  const folder = mkdtempSync(join(tmpdir(), "pawl-test-"));
  try {
    const file = join(folder, "results.json");
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
    const succeeded = run("vitest", ["run", ...reporters, ...args]);
    const counts = readCounts(file);
    const isSound = succeeded && counts.passed > 0;
    return { ...counts, failed: counts.failed === 0 && !isSound ? 1 : counts.failed };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Nothing passed and nothing failed when vitest did not live to write its results. */
function readCounts(file: string): Counts {
  try {
    const results = JSON.parse(readFileSync(file, "utf8")) as Record<string, number>;
    return {
      passed: results["numPassedTests"] ?? 0,
      failed: results["numFailedTests"] ?? 0,
    };
  } catch {
    return { passed: 0, failed: 0 };
  }
}

/** Runs a command of this package in the foreground; true when it ends with 0. */
function run(command: string, args: readonly string[]): boolean {
  const { status, error } = spawnSync(command, args, { stdio: "inherit" });
  if (error !== undefined) console.error(`${command} could not be started: ${error.message}`);
  return status === 0;
}
