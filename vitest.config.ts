import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: ["test/postgres-setup.ts", "test/browser/browser-setup.ts"],
    // Processes, not threads: native modules and killed children stay apart. Files run side by side
    // on two cores, the tests of a file one after the other, so every slow suite is its own file.
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
    projects: [
      {
        extends: true,
        test: {
          name: "parts",
          include: ["src/**/*.test.ts", "ui/src/**/*.test.ts"],
          // They leave nothing behind that another could see, and loading the sources once for all
          // of them takes half the time.
          isolate: false,
        },
      },
      { extends: true, test: { name: "whole", include: ["test/**/*.test.ts"] } },
    ],
  },
});
