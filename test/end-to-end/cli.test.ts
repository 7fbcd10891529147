import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BackfillDocument } from "../../src/work/backfill/documents.ts";
import { CliProject, type Ended } from "./cli-project.ts";

// Many commands have workers, and are run on a busy machine.
/** The key of the day so many days before today, which the new project has. */
function dayBefore(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}

/** What every refusal looks like: one sentence with its code, and no trace of where it was thrown. */
function expectRefusal({ stdout, stderr }: Ended, code: string): void {
  expect(stderr).toMatch(new RegExp(`^pawl: [^\\n]+ \\(${code}\\)\\n$`));
  expect(stderr + stdout).not.toMatch(/^\s+at /m);
}

test("what user code prints stays out of the document that a command writes", async () => {
  const project = new CliProject();
  project.write(
    "pawl.config.ts",
    `import { asset, definePawl } from "pawl";
     console.log("loaded");
     const note = asset("note", { materialize: async () => console.log("made") });
     export default definePawl({ assets: [note] });`,
  );

  const make = ["run", "start", "note", "--wait", "--json"];
  const { code, stdout, stderr } = await project.launch(make).ended;

  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ result: { state: "SUCCEEDED" } });
  expect(stderr).toContain("loaded");
  expect(stderr).toContain("made");
  await project.remove();
});

test("I32: what failed so far is listed, and retried once while the backfill is paused", async () => {
  const project = new CliProject();
  project.write(
    "pawl.config.ts",
    `import { asset, definePawl, doNotRetry, staticPartitions } from "pawl";
     const letters = asset("letters", {
       partitions: staticPartitions(["a", "b", "c"]),
       materialize: async ({ partition }) => {
         if (partition === "b") throw doNotRetry("b is no good");
       },
     });
     export default definePawl({ assets: [letters] });`,
  );
  const small = ["--chunk-size", "1", "--concurrency", "1", "--failure-limit", "1"];
  const own = ["--backfill-id", "all-letters"];
  await project.pawl(["backfill", "create", "letters", "--all", ...small, ...own, "--wait"]);
  const { items } = await project.json<{ items: BackfillDocument[] }>("backfill", "list");
  expect(items).toMatchObject([{ state: "PAUSED", partitions_failed: 1, partitions_pending: 1 }]);
  const id = "all-letters";
  expect(items[0]?.backfill_id).toBe(id);
  expect(await project.said("backfill", "list")).toMatch(/^all-letters +PAUSED/m);
  const chunks = await project.said("backfill", "chunks", id, "--status", "failed");
  expect(chunks).toMatch(new RegExp(`^ *1 +FAILED +b +b +backfill:${id}:chunk:1$`, "m"));
  const failed = ["--chunk", "1", "--outcome", "failed"];
  expect(await project.said("backfill", "chunks", id, ...failed)).toMatch(/^b +letters +- +-$/m);
  const retry = ["backfill", "retry-failed", id];
  const made = await project.json<{ backfill_id: string }>(...retry);
  expect(made).toMatchObject({ total_partitions: 1 });
  expect(await project.refused(2, ...retry)).toContain(made.backfill_id);
  expect(await project.refused(4, ...retry, "--missing")).toContain("(STATE_ILLEGAL)");
  await project.remove();
});

test("says how to go to a new project, whatever it is called", async () => {
  const project = new CliProject();
  for (const name of ["my shop", "-shop", "größe/x", "it's $HOME"]) {
    const made = await project.pawl(["init", "--json", "--", name]);
    const { next } = JSON.parse(made.stdout) as { next: string[] };
    const there = execFileSync("sh", ["-c", `${next[0]} && ls`], { cwd: project.folder });
    expect(there.toString()).toContain("pawl.config.ts");
  }
  await project.remove();
});

describe("pawl without a server", () => {
  const project = new CliProject();
  let backfillId = "";
  afterAll(() => project.remove());

  async function json<Document>(...args: string[]): Promise<Document> {
    const { code, stdout, stderr } = await project.pawl([...args, "--json"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return JSON.parse(stdout) as Document;
  }

  test("makes a project that runs a backfill to its end at once", async () => {
    const made = await project.pawl(["init"]);
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(readdirSync(project.folder).toSorted()).toEqual(
      [
        ".gitignore",
        "README.md",
        "package.json",
        "pawl.config.ts",
        "pawl.test.ts",
        "tsconfig.json",
      ].toSorted(),
    );

    const filled = await project.pawl([
      "backfill",
      "create",
      "visits",
      "report",
      "--all",
      "--wait",
    ]);
    expect(filled.code).toBe(0);
    expect(filled.stdout).toMatch(
      /^Backfill \w+ SUCCEEDED: 60 succeeded of 60 partitions in .+\n$/,
    );
    expect(filled.stderr).toContain("60 partitions (30 keys × 2 assets) in 3 chunks");
    expect(readdirSync(join(project.folder, "data", "report"))).toHaveLength(30);
  });

  test("leaves no server behind", () => {
    expect(existsSync(join(project.folder, ".pawl", "server.json"))).toBe(false);
  });

  test("lists backfills as a table, and as a document", async () => {
    const { stdout } = await project.pawl(["backfill", "list"]);
    const [heading = "", row = ""] = stdout.split("\n");
    expect(heading).toMatch(/^ID +STATE +ASSETS +PARTITIONS +FAILED +CHUNKS +CREATED +DONE$/);
    expect(row).toMatch(
      /^\w{8} +SUCCEEDED +visits, report +60\/60 +0 +3\/3 +(?:now|\d+s ago) +(?:now|\d+s ago)$/,
    );

    const page = await json<{ items: BackfillDocument[] }>("backfill", "list");
    expect(page.items).toMatchObject([{ state: "SUCCEEDED", partitions_succeeded: 60 }]);
    backfillId = page.items[0]?.backfill_id ?? "";
  });

  test("shows a backfill by the short form of its id, now and as it was", async () => {
    const shown = await project.pawl(["backfill", "show", backfillId.slice(-8)]);
    expect(shown.stdout).toContain(`backfill    ${backfillId}\n`);
    expect(shown.stdout).toContain("chunks      3: 3 succeeded\n");

    const early = await json<BackfillDocument>("backfill", "show", backfillId, "--as-of", "2");
    expect(early).toMatchObject({ state: "PENDING", chunks_pending: 3, partitions_succeeded: 0 });
  });

  test("shows assets, partitions, runs and events", async () => {
    expect(await json("asset", "list")).toMatchObject({
      items: [{ asset_key: "report" }, { asset_key: "visits" }],
    });
    expect(await json("partitions", "summary", "report")).toMatchObject({
      total: 30,
      materialized: 30,
      never_materialized: 0,
    });
    expect((await project.pawl(["partitions", "list", "report"])).stdout).toContain("MATERIALIZED");
    expect((await json<{ items: unknown[] }>("run", "list")).items).toHaveLength(3);
    expect(await json("events", "--limit", "1")).toMatchObject({
      items: [{ type: "BackfillStateChanged", data: { to_state: "SUCCEEDED" } }],
    });
    expect(await json("conflicts")).toMatchObject({ items: [] });
    expect(await json("partitions", "stale", "--reason", "code-changed")).toMatchObject({
      items: [],
    });
  });

  test("previews a plan, and refuses to carry out another one", async () => {
    const plan = await json<{ plan_hash: string }>("backfill", "preview", "visits", "--all");
    const create = ["backfill", "create", "visits", "--all", "--plan-hash", plan.plan_hash];
    const changed = await project.pawl([...create, "--chunk-size", "3"]);
    expect(changed.code).toBe(4);
    expectRefusal(changed, "PLAN_CHANGED");
  });

  test("leaves work for later, and does it when it is asked to tick", async () => {
    const created = await project.pawl(["backfill", "create", "visits", "--all"]);
    expect(created.stdout).toContain("No server is running");
    expect(await json("tick", "--for", "60s")).toMatchObject({ idle: true });
    const page = await json<{ items: BackfillDocument[] }>("backfill", "list", "--limit", "1");
    expect(page.items).toMatchObject([{ state: "SUCCEEDED", partitions_succeeded: 30 }]);
  });

  test("runs single partitions and waits for them", async () => {
    const [key = ""] = readdirSync(join(project.folder, "data", "report"));
    const partition = key.replace(".txt", "");
    const ran = await project.pawl(["run", "start", "report", "--partitions", partition, "--wait"]);
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.stdout).toContain("SUCCEEDED: 1 succeeded.");
  });

  test("answers a creation that is waited for with the state and the version at its end", async () => {
    const create = ["backfill", "create", "visits", "--all", "--wait"];
    const { backfill_id, ...made } = await json<BackfillDocument>(...create);
    const { state, state_version } = await json<BackfillDocument>("backfill", "show", backfill_id);
    expect(made).toMatchObject({ state: "SUCCEEDED", state_version });
    expect(state).toBe("SUCCEEDED");
  });

  test("verifies the ledger, folds its rows anew, and finds the same state", async () => {
    const before = await json("verify");
    expect(await project.pawl(["rebuild", "--batch", "7"])).toMatchObject({ code: 0 });
    expect(await json("verify")).toEqual(before);
  });

  test("finds nothing wrong with itself", async () => {
    const { code, stdout } = await project.pawl(["doctor"]);
    expect(stdout).toMatch(/^✓ store .* schema step \d+$/m);
    expect({ code, wrong: stdout.includes("✗") }).toEqual({ code: 0, wrong: false });
  });
});

describe("a process of its own", () => {
  const project = new CliProject();
  beforeAll(() => project.pawl(["init"]));
  afterAll(() => project.remove());

  test.each([
    [["--version"], 0],
    [["asset", "list"], 0],
    [["asset", "list", "--json"], 0],
    [["backfil"], 2],
    [["backfill"], 2],
    [["backfill", "show", "nope"], 3],
    [["backfill", "show", "nope", "--json"], 3],
  ])("ends and says %j as the command line within another does", async (args, code) => {
    const ended = await project.launch(args).ended;
    expect(ended.code).toBe(code);
    expect(ended.stdout + ended.stderr).not.toBe("");
    expect(await project.pawl(args)).toEqual(ended);
  });
});

describe("pawl refuses with one sentence", () => {
  const project = new CliProject();
  beforeAll(() => project.pawl(["init"]));
  afterAll(() => project.remove());

  test.each<[name: string, args: string[], code: string, exit: number, says: string]>([
    ["a command that does not exist", ["backfil"], "INPUT_INVALID", 2, "Did you mean backfill?"],
    ["an option that does not exist", ["run", "list", "--limt"], "INPUT_INVALID", 2, "--limit?"],
    [
      "an option that resembles none",
      ["--url", "http://127.0.0.1:9", "backfill", "create", "visits", "--from", dayBefore(2)],
      "INPUT_INVALID",
      2,
      "Unknown option '--from'. `pawl backfill create --help` lists what there is.",
    ],
    [
      "an option without its value",
      ["backfill", "create", "visits", "--start"],
      "INPUT_INVALID",
      2,
      "`pawl backfill create --help` lists what there is.",
    ],
    [
      "a choice that is misspelt",
      ["backfill", "create", "visits", "--all", "--only", "mising"],
      "INPUT_INVALID",
      2,
      "Did you mean missing? `pawl backfill create --help` lists what there is.",
    ],
    [
      "a time that is none",
      ["backfill", "create", "visits", "--all", "--start-at", "tomorrow"],
      "INPUT_INVALID",
      2,
      "--start-at: expected a time such as 2026-01-31 or 2026-01-31T06:00:00Z, or a duration",
    ],
    ["a command that resembles none", ["xyz"], "INPUT_INVALID", 2, "`pawl --help` lists"],
    ["an unknown asset", ["backfill", "create", "nope", "--all"], "ASSET_NOT_FOUND", 3, '"nope"'],
    [
      "a range that ends before it starts",
      ["backfill", "create", "visits", "--start", dayBefore(2), "--end", dayBefore(4)],
      "INPUT_INVALID",
      2,
      dayBefore(2),
    ],
    [
      "a key outside the definition",
      ["backfill", "create", "visits", "--partitions", "1999-01-01"],
      "PARTITION_INVALID",
      2,
      "1999-01-01",
    ],
    [
      "a chunk of no partitions",
      ["backfill", "create", "visits", "--all", "--chunk-size", "0"],
      "INPUT_INVALID",
      2,
      'expected a whole number between 1 and 10000, got "0"',
    ],
    ["no partitions", ["backfill", "create", "visits"], "INPUT_INVALID", 2, "got nothing"],
    ["an unknown backfill", ["backfill", "show", "nope"], "BACKFILL_NOT_FOUND", 3, "nope"],
    ["an unknown run", ["run", "show", "run_nope"], "RUN_NOT_FOUND", 3, "run_nope"],
    ["an unknown token", ["token", "revoke", "nope"], "TOKEN_NOT_FOUND", 3, '"nope"'],
    [
      "a type that no event has",
      ["events", "--type", "BackfilCreated"],
      "INPUT_INVALID",
      2,
      "Did you mean BackfillCreated?",
    ],
    [
      "an outcome that is none",
      ["backfill", "retry-failed", "nope", "--outcomes", "lost"],
      "INPUT_INVALID",
      2,
      "expected some of failed, cancelled, skipped",
    ],
    [
      "a project over another",
      ["init"],
      "STATE_ILLEGAL",
      4,
      "pawl.config.ts, pawl.test.ts exist already in ",
    ],
    [
      "a template that there is not",
      ["init", "elsewhere", "--template", "asets"],
      "INPUT_INVALID",
      2,
      '--template: expected assets, duckdb, api-sync, evm or shards, got "asets". Did you mean assets?',
    ],
    [
      "a server that is not there",
      ["run", "list", "--url", "http://127.0.0.1:9"],
      "SERVER_UNREACHABLE",
      5,
      // A port that is kept for something else, which no request is sent to.
      ":9 cannot be reached: bad port.",
    ],
    ["a duration without a unit", ["tick", "--for", "5"], "INPUT_INVALID", 2, "50s"],
    ["an address for everybody", ["start", "--host", "0.0.0.0"], "TOKEN_REQUIRED", 6, "0.0.0.0"],
  ])("%s", async (_name, args, code, exit, says) => {
    const ended = await project.pawl(args);
    expectRefusal(ended, code);
    expect(ended.stderr).toContain(says);
    expect(ended.code).toBe(exit);
  });

  test.each<[name: string, env: Record<string, string>, code: string, exit: number]>([
    ["a port that is none", { PAWL_PORT: "many" }, "CONFIG_INVALID", 2],
    ["a variable that nobody reads", { PAWL_PROT: "1" }, "CONFIG_INVALID", 2],
    [
      "a data directory below a file",
      { PAWL_DATA_DIR: "package.json/data" },
      "DATA_DIRECTORY_UNWRITABLE",
      5,
    ],
    [
      "a data directory that cannot exist",
      { PAWL_DATA_DIR: "/proc/pawl" },
      "DATA_DIRECTORY_UNWRITABLE",
      5,
    ],
    [
      "a database that is away",
      { DATABASE_URL: "postgres://127.0.0.1:9/x" },
      "STORE_UNAVAILABLE",
      5,
    ],
  ])("%s", async (_name, env, code, exit) => {
    const commands = [["start"], ["backfill", "list"]];
    for (const ended of await Promise.all(commands.map((args) => project.pawl(args, env)))) {
      expectRefusal(ended, code);
      expect(ended.code).toBe(exit);
    }
  });

  test("a project that is not there", async () => {
    const other = new CliProject();
    try {
      // Also a folder, or nothing, in the place of the file: no store is made beside what was named.
      const folder = join(other.folder, "inner");
      mkdirSync(folder);
      for (const config of ["nowhere/pawl.config.ts", folder, ".", "", "x".repeat(5_000)]) {
        for (const args of [["run", "list"], ["deploy"], ["start"]]) {
          const ended = await other.pawl([...args, "--config", config]);
          expectRefusal(ended, "CONFIG_INVALID");
          expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining("--config") });
        }
      }
      expect(readdirSync(other.folder)).toEqual(["inner"]);
      rmSync(folder, { recursive: true });
      for (const args of [["start"], ["run", "list"]]) {
        const ended = await other.pawl(args);
        expectRefusal(ended, "CONFIG_INVALID");
        expect(ended).toMatchObject({ code: 2 });
        expect(readdirSync(other.folder)).toEqual([]);
      }
    } finally {
      await other.remove();
    }
  });

  test("with the same as a document where machines read", async () => {
    const { code, stdout, stderr } = await project.pawl(["backfill", "show", "nope", "--json"]);
    expect({ code, stdout }).toEqual({ code: 3, stdout: "" });
    expect(JSON.parse(stderr)).toMatchObject({
      code: "BACKFILL_NOT_FOUND",
      message: expect.stringContaining("nope"),
      details: { backfill_id: "nope" },
    });
  });

  test("shows where it was thrown to those who ask", async () => {
    const { stderr } = await project.pawl(["backfill", "show", "nope"], { PAWL_DEBUG: "1" });
    expect(stderr).toMatch(/^\s+at /m);
  });

  test("a database file that is none", async () => {
    writeFileSync(join(project.folder, ".pawl", "pawl.db"), "no database ".repeat(500));
    for (const args of [["start", "--port", "0"], ["backfill", "list"], ["verify"]]) {
      const ended = await project.pawl(args);
      expectRefusal(ended, "STORE_CORRUPT");
      expect(ended.code).toBe(7);
    }
  });

  test("a configuration that is broken, with file and line", async () => {
    const other = new CliProject();
    try {
      other.write("pawl.config.ts", "const one = 1;\nconst two: = 2;\n");
      for (const args of [["start", "--port", "0"], ["deploy"], ["tick", "--for", "1s"]]) {
        const ended = await other.pawl(args);
        expectRefusal(ended, "CONFIG_INVALID");
        expect(ended.stderr).toContain("pawl.config.ts:2");
        expect(ended.code).toBe(2);
      }
    } finally {
      await other.remove();
    }
  });
});
