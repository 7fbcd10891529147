import { join } from "node:path";
import Database from "better-sqlite3";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../postgres.ts";
import { CliProject } from "./cli-project.ts";

// Commands without a server start one of their own, also on a busy machine.
const CONFIG = `import { asset, daily, definePawl, externalAsset } from "pawl";
  const partitions = daily({ start: "2025-01-01", end: "2025-01-08" });
  const orders = externalAsset("orders", { partitions, description: "made by the shop" });
  const report = asset("report", { partitions, upstream: [orders], materialize: async () => undefined });
  export default definePawl({ assets: [orders, report] });`;

describe("pawl partitions report", () => {
  const project = new CliProject();
  project.write("pawl.config.ts", CONFIG);
  afterAll(() => project.remove());

  async function said(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await project.pawl(args);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return stdout;
  }

  async function refused(...args: string[]): Promise<string> {
    const { code, stderr } = await project.pawl(args);
    expect(code).toBe(2);
    return stderr;
  }

  test("records a range, shows it as reported, and takes it back", async () => {
    const range = ["--start", "2025-01-01", "--end", "2025-01-03"];
    expect(await said("partitions", "report", "orders", ...range, "--at", "2025-02-01")).toBe(
      "Recorded 3 partitions of orders as materialized.\n",
    );
    expect(await said("partitions", "list", "orders")).toMatch(
      /^orders +2025-01-01 +MATERIALIZED .*reported$/m,
    );
    expect(await said("partitions", "report", "orders", "--all", "--forget")).toBe(
      "Took the reports of 3 partitions of orders back. 4 partitions had no report, and stay as they are.\n",
    );
    expect(
      await said("partitions", "report", "orders", "--partitions", "2025-01-07", "--forget"),
    ).toBe(
      "Took the reports of 0 partitions of orders back. 1 partition had no report, and stays as it is.\n",
    );
    expect(await said("partitions", "summary", "orders")).toMatch(/^never materialized +7$/m);
  });

  test("reads keys and objects from a file", async () => {
    const object = { partition_key: "2025-01-02", code_version: "v1", metadata: { rows: 17 } };
    project.write("made.txt", `2025-01-01\n\n${JSON.stringify(object)}\n`);
    const file = ["--file", join(project.folder, "made.txt")];
    expect(await said("partitions", "report", "orders", ...file)).toContain(
      "Recorded 2 partitions",
    );
    const { stdout } = await project.pawl(["partitions", "list", "orders", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      items: [
        { metadata: null, last_materialization_code_version: null },
        { metadata: { rows: 17 }, last_materialization_code_version: "v1" },
        { status: "NEVER_MATERIALIZED" },
        {},
        {},
        {},
        {},
      ],
    });
    project.write("wrong.txt", `2025-01-01\n{"key": 3}\n`);
    expect(
      await refused("partitions", "report", "orders", "--file", join(project.folder, "wrong.txt")),
    ).toMatch(/line 2 of .*wrong\.txt has no text as its partition_key\. Expected a key/);
    expect(await refused("partitions", "report", "orders", "--file", "none.txt")).toContain(
      "none.txt cannot be read",
    );
  });

  test("takes the rows of a query, from SQLite and PostgreSQL", async () => {
    const file = join(project.folder, "shop.sqlite");
    const db = new Database(file);
    db.exec("create table made (day text, at text, rows int)");
    db.exec("insert into made values ('2025-01-04', '2025-01-05T06:00:00Z', 4)");
    db.close();
    const sql = "select day, at as materialized_at, rows from made";
    const lite = ["--sql", sql, "--database", file];
    expect(await said("partitions", "report", "orders", ...lite)).toContain(
      "Recorded 1 partition ",
    );
    const url = await freshDatabaseUrl();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("create table reported_days (day date, at timestamptz, rows bigint)");
    await client.query(
      "insert into reported_days values ('2025-01-05', '2025-01-06T06:00:00Z', 5), ('2025-01-06', null, 6)",
    );
    await client.end();
    const query = "select day, at as materialized_at, rows from reported_days order by day";
    const post = ["--sql", query, "--database", url];
    expect(await said("partitions", "report", "orders", ...post)).toContain(
      "Recorded 2 partitions",
    );
    const { stdout } = await project.pawl(["partitions", "list", "orders", "--json"]);
    expect(JSON.parse(stdout).items.slice(3, 6)).toMatchObject([
      { last_materialization_at: "2025-01-05T06:00:00.000Z", metadata: { rows: 4 } },
      { last_materialization_at: "2025-01-06T06:00:00.000Z", metadata: { rows: "5" } },
      { status: "MATERIALIZED", metadata: { rows: "6" } },
    ]);
    expect(
      await refused("partitions", "report", "orders", "--sql", "selec", "--database", file),
    ).toContain("--sql: the query failed");
    const several = ["--sql", "select '2025-01-01'; select '2025-01-02'", "--database", url];
    expect(await refused("partitions", "report", "orders", ...several)).toContain(
      "--sql: the query failed: cannot insert multiple commands",
    );
    const nowhere = ["--sql", "select 1", "--database", "postgres://pawl@:99999/shop"];
    expect(await refused("partitions", "report", "orders", ...nowhere)).toContain(
      "--sql: the query failed: Invalid URL",
    );
  });

  test.each([
    [
      [],
      "expected one of --start and --end, --partitions, --filter, --all, --file and --sql, got none",
    ],
    [["--all", "--file", "x"], "got several"],
    [["--sql", "select 1"], "--sql needs --database"],
    [["--all", "--forget", "--at", "2025-01-01"], "leave --at, --code-version and --metadata out"],
  ])("refuses %j with a sentence", async (flags, sentence) => {
    expect(await refused("partitions", "report", "orders", ...flags)).toContain(sentence);
  });

  test("an external asset is not run, and shown as such", async () => {
    expect(await refused("backfill", "create", "orders", "--all")).toContain(
      "orders is external: it is made elsewhere and never run here.",
    );
    expect(await said("asset", "show", "orders")).toMatch(/^made +elsewhere, and reported$/m);
  });
});
