import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CliProject } from "./cli-project.ts";

// Every command is a process of its own, and the machine may be busy.
let project: CliProject;

beforeEach(() => {
  project = new CliProject();
  project.write(
    "pawl.config.ts",
    `
import { asset, definePawl, staticPartitions } from "pawl";

const rows = asset("rows", {
  partitions: staticPartitions(["eu", "us"]),
  materialize: () => ({ metadata: { key: process.env.SHOP_KEY ?? "none", rows: 3 } }),
});
const sums = asset("sums", {
  upstream: [rows],
  partitions: staticPartitions(["eu", "us"]),
  materialize: () => ({}),
});
export const project = definePawl({ assets: [rows, sums] });
`,
  );
});

afterEach(() => project.remove());

type Shown = { metadata: unknown; upstream_total: number };

test("the code of a project has the variables of its .env, and those around it go first", async () => {
  project.write(".env", "SHOP_KEY='of the file'\n");
  const key = async (): Promise<unknown> =>
    (await project.json<Shown>("partitions", "show", "rows", "eu")).metadata;
  await project.said("run", "start", "rows", "--partitions", "eu", "--wait");
  expect(await key()).toEqual({ key: "of the file", rows: 3 });
  const args = ["run", "start", "rows", "--partitions", "eu", "--wait"];
  expect((await project.pawl(args, { SHOP_KEY: "of the shell" })).code).toBe(0);
  expect(await key()).toEqual({ key: "of the shell", rows: 3 });
  project.write(".env", "SHOP_KEY\n");
  expect(await project.refused(2, "run", "list")).toContain(".env, line 1: expected NAME=value");
});

test("a partition is shown with what made it, why it is stale, and what it is made from", async () => {
  await project.said("run", "start", "rows", "--partitions", "eu", "--wait");
  const rows = await project.said("partitions", "show", "rows", "eu");
  expect(rows).toMatch(/^status +MATERIALIZED$/m);
  expect(rows).toMatch(/^materialized +\S+( ago)? by run run_\w{8}$/m);
  expect(rows).toMatch(/^rows +3$/m);
  expect(rows).toMatch(/^Nothing is upstream of it\.$/m);
  const sums = await project.said("partitions", "show", "sums", "eu");
  expect(sums).toMatch(/^stale +never materialized$/m);
  expect(sums).toMatch(/^rows +eu +MATERIALIZED/m);
  expect(await project.refused(2, "partitions", "show", "sums", "ue")).toContain(
    "PARTITION_INVALID",
  );
  expect(await project.refused(3, "partitions", "show", "sum")).toContain("Did you mean sums?");
});

test("commands in a copy of a folder leave the server of the original alone", async () => {
  const server = project.launch(["start", "--port", "0", "--no-worker"]);
  await server.said("listens on");
  const copy = new CliProject();
  try {
    // With everything that says where the server is, and proves it.
    cpSync(project.folder, copy.folder, { recursive: true, preserveTimestamps: true });
    const file = readFileSync(join(copy.folder, ".pawl", "server.json"), "utf8");
    expect(file).toBe(readFileSync(join(project.folder, ".pawl", "server.json"), "utf8"));
    rmSync(join(copy.folder, ".pawl", "server.lock"), { force: true });
    const created = await copy.said("backfill", "create", "rows", "--all");
    expect(created).toContain("No server is running");
    expect(await copy.said("run", "start", "sums", "--partitions", "eu")).toMatch(
      /^The run .*\nNo server is running/,
    );
    expect((await copy.json<{ items: unknown[] }>("backfill", "list")).items).toHaveLength(1);
    expect((await project.json<{ items: unknown[] }>("backfill", "list")).items).toHaveLength(0);
  } finally {
    await copy.remove();
  }
  server.child.kill("SIGTERM");
  await server.ended;
});
