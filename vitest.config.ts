import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Where started processes keep what they compiled: they are there in half the time then. */
const COMPILED = fileURLToPath(new URL("node_modules/.cache/pawl-compiled", import.meta.url));

/** Tests within one process: they leave nothing behind that another could see. */
const SHARING = [
  "src/**/*.test.ts",
  "ui/src/**/*.test.ts",
  "test/browser/*.test.ts",
  "test/conformance/*.test.ts",
  "test/end-to-end/api-*.test.ts",
  "test/ledger/*.test.ts",
  "test/properties/*.test.ts",
  // The first seeds of a process are the slowest, so files share one.
  "test/simulation/notable-seeds.test.ts",
  "test/simulation/seeds-*.test.ts",
];

export default defineConfig({
  test: {
    globalSetup: [
      "test/package-setup.ts",
      "test/postgres-setup.ts",
      "test/browser/browser-setup.ts",
    ],
    // Processes, not threads: native modules and killed children stay apart. Files run side by side
    // on all cores, the tests of a file one after the other, so every slow suite is its own file.
    pool: "forks",
    env: { NODE_COMPILE_CACHE: COMPILED },
    // One more than cores: many tests wait for processes most of the time.
    maxWorkers: Math.min(4, 1 + availableParallelism()),
    // Machines may be busy: what is waited for comes late then, and only what never comes is a failure.
    testTimeout: 180_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 60_000 } },
    teardownTimeout: 20_000,
    projects: [
      {
        extends: true,
        test: {
          name: "sharing",
          include: SHARING,
          // Loading the sources once for all of them takes half the time.
          isolate: false,
        },
      },
      { extends: true, test: { name: "alone", include: ["test/**/*.test.ts"], exclude: SHARING } },
    ],
  },
});
