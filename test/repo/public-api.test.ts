import { expect, test } from "vitest";
import * as pawl from "../../src/index.ts";
import { readSource } from "./source-files.ts";

const NAMES = Object.keys(pawl).toSorted();

test("the package exports exactly these names", () => {
  expect(NAMES).toEqual([
    "PawlError",
    "RangeTooLarge",
    "SourceLagging",
    "SourceUnavailable",
    "Throttled",
    "allPartitions",
    "asset",
    "byHash",
    "byRange",
    "byTenant",
    "createClient",
    "createRouter",
    "cron",
    "daily",
    "definePawl",
    "dimension",
    "doNotRetry",
    "dynamicPartitions",
    "hourly",
    "httpShard",
    "identity",
    "integers",
    "materializationsOf",
    "monthly",
    "move",
    "multi",
    "newFiles",
    "newObjects",
    "newRows",
    "offset",
    "pool",
    "postgresShard",
    "rangeTooLarge",
    "retryAfter",
    "runFailures",
    "schedule",
    "sensor",
    "shards",
    "skip",
    "sourceLagging",
    "sourceUnavailable",
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

test("the package lists its exports one by one", () => {
  expect(readSource("src/index.ts")).not.toMatch(/export \*/);
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
