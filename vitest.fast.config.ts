import { globSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** Where the tests of `npm run test:fast` are: pure code, the embedded store, simulations. */
const WHERE = [
  "src/**/*.test.ts",
  "ui/src/**/*.test.ts",
  "test/ledger/*.test.ts",
  "test/properties/*.test.ts",
  "test/repo/*.test.ts",
  "test/simulation/notable-seeds.test.ts",
];
/** What a test names that starts a process, or wants PostgreSQL, a browser or the built package. */
const NEEDS_MORE = /child_process|fork-worker|\/postgres(-server)?\.ts"|inject\(|installPackage/;
/** Walks the clock through every zone, which alone takes longer than all others. */
const SLOW = ["test/properties/cron-times.test.ts"];

const needing = globSync(WHERE).filter((file) => NEEDS_MORE.test(readFileSync(file, "utf8")));

export default defineConfig({
  test: {
    include: WHERE,
    exclude: [...needing, ...SLOW],
    setupFiles: ["test/fixed-seeds.ts"],
    pool: "forks",
    // They leave nothing behind that another could see, so the sources are loaded once for all.
    isolate: false,
    maxWorkers: availableParallelism(),
    testTimeout: 900_000,
    hookTimeout: 900_000,
    expect: { poll: { timeout: 180_000 } },
  },
});
