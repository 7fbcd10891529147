import { globSync, readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Where started processes keep what they compiled: they are there in half the time then. */
const COMPILED = fileURLToPath(new URL("node_modules/.cache/pawl-compiled", import.meta.url));

/** Tests that replace modules, or load what Node cannot: for these Vite rewrites every module. */
const REPLACING = globSync(["src/**/*.test.ts", "test/**/*.test.ts"]).filter((file) =>
  /\bvi\.(mock|doMock)\(/.test(readFileSync(file, "utf8")),
);
const OF_PAGE = ["ui/src/**/*.test.ts"];

/** All others load the sources as Node does: code that is not rewritten is an eighth faster. */
const AS_NODE_DOES = { viteModuleRunner: false, nodeLoader: false };

/** Tests within one process: they leave nothing behind that another could see. */
const SHARING = [
  "src/**/*.test.ts",
  "test/browser/*.test.ts",
  "test/conformance/*.test.ts",
  "test/end-to-end/api-*.test.ts",
  "test/ledger/*.test.ts",
  "test/properties/*.test.ts",
  // The first seeds of a process are the slowest, so files share one.
  "test/simulation/notable-seeds.test.ts",
  "test/simulation/seeds-*.test.ts",
];

/** The files that take longest, longest first. */
const LONGEST = [
  "test/shards/splits-seeds-1",
  "test/shards/splits-seeds-2",
  "test/faults/kill-sqlite",
  "test/end-to-end/install",
  "test/end-to-end/wallet-sync",
  "test/end-to-end/wallet-sync-readme",
  "test/end-to-end/cli-server",
  "test/simulation/broken-syncs",
  "test/shards/live-kill-worker",
  "test/shards/live-kill-server",
  "test/shards/live-kill-both",
  "test/shards/postgres-owner",
  "test/shards/postgres",
  "test/faults/crashed-sqlite",
  "test/end-to-end/cli",
  "test/end-to-end/cli-syncs",
  "test/end-to-end/docs-pages",
  "test/end-to-end/docs-commands",
  "test/end-to-end/python-worker",
  "test/end-to-end/cli-moves",
  "test/faults/crashed-postgres",
  "test/faults/kill-postgres",
  "test/faults/frozen-postgres",
  "test/evm/sync-kills",
  "test/evm/sync-budget",
  "test/simulation/notable-seeds",
  "test/simulation/broken-variants",
  "test/shards/moves-seeds",
  "test/shards/model/interleavings",
  "test/shards/live-postgres",
  "test/end-to-end/cli-splits",
  "test/end-to-end/cli-schedules",
  "test/end-to-end/cli-sensors",
  "test/end-to-end/external-commands",
  "test/end-to-end/live-split-readme",
  "test/end-to-end/live-split",
  "test/end-to-end/readme",
  "test/faults/dead-worker",
  "test/end-to-end/idle-sensors",
  "test/conformance/postgres",
  "test/ledger/same-decisions",
  "test/browser/backfills",
  "test/browser/splits",
  "test/properties/cron-times",
  "test/browser/syncs",
  "test/browser/runs",
  "test/browser/every-page",
  "test/browser/assets",
  "test/browser/schedules",
  "test/browser/sensors",
  "test/browser/create-backfill",
  "test/conformance/sqlite",
];

/** Has long files run first, so that none of them runs alone in the end. */
class LongestFirst extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // A process is kept for the next file only if that shares it, too: those come after all others.
    const isShared = ({ project }: TestSpecification): number => (project.config.isolate ? 0 : 1);
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return at === -1 ? LONGEST.length : at;
    };
    const size = ({ moduleId }: TestSpecification): number => statSync(moduleId).size;
    const sorted = files.toSorted(
      (a, b) => isShared(a) - isShared(b) || place(a) - place(b) || size(b) - size(a),
    );
    return Promise.resolve(sorted);
  }
}

export default defineConfig({
  test: {
    globalSetup: [
      "test/temporary-folder.ts",
      "test/package-setup.ts",
      "test/postgres-setup.ts",
      "test/browser/browser-setup.ts",
    ],
    setupFiles: ["test/fixed-seeds.ts"],
    // Processes, not threads: native modules and killed children stay apart. Files run side by side
    // on all cores, the tests of a file one after the other, so every slow suite is its own file.
    pool: "forks",
    sequence: { sequencer: LongestFirst },
    env: { NODE_COMPILE_CACHE: COMPILED },
    // Far more than cores: the long tests, which come first, wait for leases and processes most of the time.
    maxWorkers: Math.min(12, 3 * availableParallelism()),
    // Machines may be busy: what is waited for comes late then, and only what never comes is a failure.
    // No test has a limit of its own.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    expect: { poll: { timeout: 180_000 } },
    teardownTimeout: 20_000,
    projects: [
      {
        extends: true,
        test: {
          name: "sharing",
          include: SHARING,
          exclude: REPLACING,
          // Loading the sources once for all of them takes half the time.
          isolate: false,
          experimental: AS_NODE_DOES,
        },
      },
      {
        extends: true,
        test: {
          name: "alone",
          include: ["test/**/*.test.ts"],
          exclude: [...SHARING, ...REPLACING],
          experimental: AS_NODE_DOES,
        },
      },
      { extends: true, test: { name: "page", include: OF_PAGE, isolate: false } },
      { extends: true, test: { name: "replacing", include: REPLACING } },
    ],
  },
});
