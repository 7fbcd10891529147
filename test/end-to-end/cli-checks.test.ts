import { afterEach, beforeEach, expect, test } from "vitest";
import { CliProject } from "./cli-project.ts";

// Every command is a process of its own, and the machine may be busy.
let project: CliProject;

beforeEach(() => {
  project = new CliProject();
});

afterEach(() => project.remove());

test("checks are shown with the asset, its partitions and the run", async () => {
  project.write(
    "pawl.config.ts",
    `
import { asset, check, definePawl, staticPartitions } from "pawl";

const partitions = staticPartitions(["a", "b"]);
const orders = asset("orders", {
  partitions,
  materialize: ({ partition }) => ({ metadata: { rows: partition === "a" ? 3 : 0 } }),
  checks: [
    check("not_empty", { blocking: true }, ({ metadata }) => ({
      passed: Number(metadata["rows"]) > 0,
      message: metadata["rows"] + " rows",
    })),
    check("many", { severity: "warn" }, ({ metadata }) => Number(metadata["rows"]) > 5),
  ],
});
const report = asset("report", { partitions, upstream: [orders], materialize: () => undefined });
export const project = definePawl({ assets: [orders, report] });
`,
  );
  const server = project.launch(["start", "--port", "0"]);
  await server.said("listens on");
  const run = ["run", "start", "orders", "report", "--partitions", "a,b", "--json"];
  const { run_id } = await project.json<{ run_id: string }>(...run);
  await expect
    .poll(() => project.json<{ state: string }>("run", "show", run_id), { timeout: 60_000 })
    .toMatchObject({ state: "FAILED" });
  expect(await project.said("asset", "show", "orders")).toMatch(
    /^checks +not_empty \(blocks\), many \(warns\)$/m,
  );
  const list = await project.said("partitions", "list", "orders", "--checks", "failed");
  expect(list).toContain("not_empty failed: 0 rows; many warns");
  expect(list).not.toContain("3 rows");
  const shown = await project.said("partitions", "show", "orders", "b");
  expect(shown).toMatch(/^checks +FAILED$/m);
  expect(shown).toContain("not_empty failed: 0 rows");
  const ran = await project.said("run", "show", run_id);
  expect(ran).toContain("check not_empty passed: 3 rows");
  expect(ran).toContain("checks failed");
  expect(ran).toContain("orders did not pass its check not_empty");
  server.child.kill("SIGTERM");
  await server.ended;
});
