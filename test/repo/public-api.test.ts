import { expect, test } from "vitest";
import * as embedded from "../../src/embedded/index.ts";
import * as pawl from "../../src/index.ts";
import * as testing from "../../src/testing/index.ts";
import { readSource } from "./source-files.ts";

const NAMES = Object.keys(pawl).toSorted();

test("the package exports exactly these names", () => {
  expect(NAMES).toEqual([
    "DoNotRetry",
    "PawlError",
    "RangeTooLarge",
    "RetryAfter",
    "Skip",
    "SourceLagging",
    "SourceUnavailable",
    "Throttled",
    "allPartitions",
    "asset",
    "byHash",
    "byRange",
    "byTenant",
    "check",
    "createClient",
    "createRouter",
    "cron",
    "daily",
    "dbt",
    "definePawl",
    "dimension",
    "doNotRetry",
    "dynamicPartitions",
    "externalAsset",
    "hourly",
    "httpShard",
    "identity",
    "integers",
    "materializationsOf",
    "md",
    "monthly",
    "move",
    "multi",
    "newFiles",
    "newObjects",
    "newRows",
    "offset",
    "pool",
    "postgresShard",
    "python",
    "rangeTooLarge",
    "retryAfter",
    "runFailures",
    "schedule",
    "sensor",
    "shards",
    "shell",
    "skip",
    "sourceLagging",
    "sourceUnavailable",
    "sql",
    "sqliteShard",
    "staticPartitions",
    "sync",
    "table",
    "throttled",
    "timeWindow",
    "webhook",
    "weekly",
  ]);
});

test("its other parts export exactly these names, and their pages tell of each", () => {
  const parts = { embedding: Object.keys(embedded), testing: Object.keys(testing).toSorted() };
  expect(parts).toEqual({
    embedding: ["startPawl"],
    testing: ["evaluate", "fetchRange", "materialize", "testContext", "tick"],
  });
  for (const [page, names] of Object.entries(parts)) {
    const text = readSource(`docs/guide/${page}.md`);
    expect(names.filter((name) => !text.includes(`${name}(`))).toEqual([]);
  }
});

test("the package lists its exports one by one", () => {
  for (const part of ["index", "embedded/index", "testing/index"]) {
    expect(readSource(`src/${part}.ts`)).not.toMatch(/export \*/);
  }
});

test("each exported name is used in an example that is run", () => {
  const examples = readSource("test/end-to-end/public-api.test.ts");
  const imports = /^import \{[^}]*\} from "\.\.\/\.\.\/src\/index\.ts";$/ms;
  const used = examples.replace(imports, "");
  expect(NAMES.filter((name) => !new RegExp(`\\b${name}\\b`).test(used))).toEqual([]);
});

test("the guide names each exported name", () => {
  const guide = readSource("docs/guide.md");
  expect(NAMES.filter((name) => !new RegExp(`\`(?:throw )?${name}\\b`).test(guide))).toEqual([]);
});
