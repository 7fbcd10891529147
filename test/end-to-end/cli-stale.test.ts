import { afterAll, describe, expect, test } from "vitest";
import type { PartitionSummary } from "../../src/work/asset/api.ts";
import type { CreatedBackfill } from "../../src/work/backfill/api.ts";
import { CliProject } from "./cli-project.ts";

// Many commands have workers, and are run on a busy machine.
function configOf(version: string): string {
  return `import { asset, definePawl, staticPartitions } from "pawl";
    const partitions = staticPartitions(["eu", "us", "jp"]);
    const codeVersion = ${JSON.stringify(version)};
    const raw = asset("raw", { partitions, materialize: async () => undefined });
    const report = asset("report", {
      partitions,
      codeVersion,
      labels: { team: "growth" },
      upstream: [raw],
      materialize: async () => undefined,
    });
    export default definePawl({ assets: [raw, report] });`;
}

describe("pawl and what is stale", () => {
  const project = new CliProject();
  afterAll(() => project.remove());

  async function said(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await project.pawl(args);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return stdout + stderr;
  }

  async function refused(...args: string[]): Promise<string> {
    const { code, stderr } = await project.pawl(args);
    expect(code).not.toBe(0);
    return stderr;
  }

  test("I46: names the reasons, fills exactly that, and then finds nothing", async () => {
    project.write("pawl.config.ts", configOf("1"));
    const none = await said("backfill", "preview", "raw", "report", "--stale");
    expect(none).toMatch(/^stale {2,}6 never materialized$/m);

    await said("backfill", "create", "raw", "report", "--partitions", "eu,us", "--wait");
    await said("backfill", "create", "raw", "--partitions", "us", "--wait");
    project.write("pawl.config.ts", configOf("2"));
    await said("deploy");
    const stale = await said("partitions", "stale", "report");
    expect(stale).toMatch(/^report {2}eu +CODE_CHANGED /m);
    expect(stale).toMatch(/^report {2}jp +NEVER_MATERIALIZED /m);
    const summary = await said("partitions", "summary", "report");
    expect(summary).toMatch(/^stale +3: 1 never materialized, 2 code changed$/m);
    const { stdout } = await project.pawl(["partitions", "summary", "report", "--json"]);
    expect(JSON.parse(stdout) as PartitionSummary).toMatchObject({ stale_complete: true });

    const reason = ["--reason", "code-changed,upstream_changed"];
    const preview = await said("backfill", "preview", "report", "--stale", "--limit", "1");
    expect(preview).toMatch(/^stale +1 code changed \(as many as --limit allows; .+\)$/m);
    const filled = await said("backfill", "create", "report", "--stale", ...reason, "--wait");
    expect(filled).toMatch(/2 partitions in 1 chunk\.\nStale: 2 code changed\.\n/);
    const [, id = ""] = /Backfill (\w+) SUCCEEDED/.exec(filled) ?? [];
    expect(await said("backfill", "show", id)).toMatch(/^stale were +2 code changed$/m);

    const rest = await project.pawl(["backfill", "create", "report", "--stale", "--json"]);
    expect(JSON.parse(rest.stdout) as CreatedBackfill).toMatchObject({
      total_partitions: 1,
      stale_reasons: { NEVER_MATERIALIZED: 1 },
    });
    const empty = await refused("backfill", "create", "report", "--stale", ...reason);
    expect(empty).toMatch(/^pawl: Nothing of report is stale .+ \(SELECTION_EMPTY\)\n$/);
  });

  test("takes assets by how they hang together, and by labels, for backfills and runs", async () => {
    const keys = ["--partitions", "eu", "--allow-overlap"];
    expect(await said("backfill", "preview", "+report", ...keys)).toMatch(/^assets +raw, report$/m);
    const missing = ["--partitions", "jp", "--only", "missing"];
    expect(await said("backfill", "preview", "raw+", ...missing)).toMatch(/^assets +raw/m);
    expect(await said("backfill", "preview", "label:team=growth", ...keys)).toMatch(
      /^assets +report$/m,
    );
    const made = await project.pawl(["backfill", "create", "raw+", ...keys, "--wait", "--json"]);
    expect(made.code).toBe(0);
    expect(made.stdout).toMatch(/"asset_selection":\s*\[\s*"raw",\s*"report"\s*\]/);
    const run = await project.pawl(["run", "start", "+report", "--partitions", "eu", "--json"]);
    expect(run.code).toBe(0);
    expect(await refused("backfill", "create", "group:raw", ...keys)).toContain(
      "No asset has the label group=raw: none has a label group.",
    );
    expect(await refused("backfill", "create", "+rapport", ...keys)).toContain(
      'no asset "rapport"',
    );
    expect(await refused("backfill", "create", "+", ...keys)).toContain(
      "must be the key of an asset",
    );
  });

  test("takes only what is missing of a selection, and shows of how many", async () => {
    const only = ["--partitions", "eu,us,jp", "--only", "missing-or-failed"];
    project.write("pawl.config.ts", configOf("3"));
    await said("backfill", "create", "raw", "--partitions", "eu,us", "--wait", "--allow-overlap");
    expect(await said("backfill", "preview", "raw", ...only)).toMatch(
      /^partitions +1\nselected +3, of which 2 are there already, or being made$/m,
    );
    const made = await said("backfill", "create", "raw", ...only, "--wait");
    expect(made).toContain("1 partition in 1 chunk.");
    expect(await refused("backfill", "create", "raw", ...only)).toBe(
      "pawl: None of the 3 selected partitions of raw is missing or failed, so there is nothing to " +
        "fill. What a task works on right now is not counted. (SELECTION_EMPTY)\n",
    );
  });

  test.each([
    [
      ["--stale", "--start", "eu"],
      "got --start and --end together with --stale. For what is stale of a range, give --start,",
    ],
    [["--stale", "--only", "failed"], "got --only failed with --stale."],
    [["--all", "--limit", "3"], "--limit: expected only together with --stale"],
    [["--stale", "--reason", "old"], "--reason: expected some of never_materialized,"],
    [["--stale", "--limit", "0"], "--limit: expected a whole number between 1 and 1000000"],
  ])("refuses %j with a sentence", async (flags, sentence) => {
    const stderr = await refused("backfill", "create", "report", ...flags);
    expect(stderr).toContain(sentence);
    expect(stderr).toMatch(/\(INPUT_INVALID\)\n$/);
  });
});
