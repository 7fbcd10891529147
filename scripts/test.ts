/**
 * `npm test`: every test, with the checks beside them, then one last line `<n> passed, <n> failed`.
 *
 * Arguments go to vitest (`npm test -- test/repo`). What fails without being a test (a check, a file
 * that does not load, a run without tests) counts as one failure more, so the line never says that
 * nothing failed when the command fails.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

type Counts = { passed: number; failed: number };

const checks = runChecks();
const { passed, failed } = await runTests(process.argv.slice(2));
const complaints = await checks;
console.log(complaints === null ? "The checks passed." : `npm run check failed:\n${complaints}`);
const failures = failed + (complaints === null ? 0 : 1);

console.log(`${passed} passed, ${failures} failed`);
process.exitCode = failures === 0 ? 0 : 1;

/** Runs the checks while tests wait for something; answers what they complain of, or null. */
async function runChecks(): Promise<string | null> {
  // At the same priority as the tests: with a lower one they stand still on a busy machine.
  const child = spawn("npm", ["run", "--silent", "check"], { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  child.stdout.on("data", (part: Buffer) => (printed += part.toString()));
  child.stderr.on("data", (part: Buffer) => (printed += part.toString()));
  return (await endsWell(child)) ? null : printed;
}

async function runTests(args: readonly string[]): Promise<Counts> {
  const folder = mkdtempSync(join(tmpdir(), "pawl-test-"));
  try {
    const file = join(folder, "results.json");
    const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
    const child = spawn("vitest", ["run", ...reporters, ...args], { stdio: "inherit" });
    const succeeded = await endsWell(child);
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

/** Waits for a command of this package; true when it ends with 0. */
function endsWell(child: ChildProcess): Promise<boolean> {
  return new Promise((resolve) => {
    child.once("error", (error) => {
      console.error(`${child.spawnfile} could not be started: ${error.message}`);
      resolve(false);
    });
    child.once("close", (code) => resolve(code === 0));
  });
}
