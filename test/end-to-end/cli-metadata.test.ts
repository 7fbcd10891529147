import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CliProject } from "./cli-project.ts";

// Every command is a process of its own, and the machine may be busy.
let project: CliProject;

beforeEach(() => {
  project = new CliProject();
});

afterEach(() => project.remove());

/** The block of the guide that shows what metadata can be. */
function shownInGuide(): string {
  const guide = readFileSync(new URL("../../docs/guide.md", import.meta.url), "utf8");
  const blocks = [...guide.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
  return blocks.find((code) => code.includes("md.number")) ?? "";
}

test("metadata is shown as what it says it is, without what cannot be kept", async () => {
  project.write(
    "pawl.config.ts",
    `
import { asset, definePawl, md } from "pawl";

const orders = asset("orders", { materialize: () => { ${shownInGuide()} } });
const odd = asset("odd", {
  materialize: () => ({ metadata: { name: "odd", big: 10n, huge: md.number(10n ** 20n) } }),
});
export const project = definePawl({ assets: [orders, odd] });
`,
  );
  const server = project.launch(["start", "--port", "0"]);
  await server.said("listens on");
  const started = await project.json<{ run_id: string }>("run", "start", "orders", "odd", "--wait");
  const shown = await project.said("run", "show", started.run_id);
  expect(shown).toMatch(/^rows +1,234,567 rows$/m);
  expect(shown).toMatch(/^file +orders\.csv \(https:\/\/files\.example\/orders\.csv\)$/m);
  expect(shown).toMatch(/^ {4}region +rows\n {4}eu +5\n {4}us +7$/m);
  expect(shown).toMatch(/^notes +\*\*2\*\* rows were `null`$/m);
  expect(shown).toMatch(/^schema +\{"id":"int"\}$/m);
  expect(shown).toMatch(/^name +odd$/m);
  expect(shown).toMatch(/^huge +100,000,000,000,000,000,000$/m);
  expect(shown).not.toMatch(/^big /m);
  server.child.kill("SIGTERM");
  await server.ended;
});

test("what partitions said over time is listed, as facts or one number of them", async () => {
  project.write(
    "pawl.config.ts",
    `
import { asset, daily, definePawl, md } from "pawl";

let rows = 1_000;
const orders = asset("orders", {
  partitions: daily({ start: "2026-01-01", end: "2026-01-04" }),
  materialize: () => ({ metadata: { rows: md.number(rows++, { unit: "rows" }), file: "a.csv" } }),
});
const whole = asset("whole", { materialize: () => ({ metadata: { rows: 7 } }) });
export const project = definePawl({ assets: [orders, whole] });
`,
  );
  const server = project.launch(["start", "--port", "0", "--concurrency", "1"]);
  await server.said("listens on");
  for (const key of ["2026-01-01", "2026-01-01", "2026-01-02"]) {
    await project.said("run", "start", "orders", "--partitions", key, "--wait");
  }
  await project.said("run", "start", "whole", "--wait");

  const history = await project.said("partitions", "metadata", "orders", "2026-01-01");
  expect(history).toMatch(/^MATERIALIZED +BY +CODE +file +rows$/m);
  expect(history.match(/a\.csv +1,00\d rows$/gm)).toEqual([
    "a.csv  1,001 rows",
    "a.csv  1,000 rows",
  ]);
  const named = await project.json<{ items: { metadata: object }[] }>(
    "partitions",
    "metadata",
    "orders",
    "2026-01-01",
    "--name",
    "file",
  );
  expect(named.items.map(({ metadata }) => metadata)).toEqual([
    { file: "a.csv" },
    { file: "a.csv" },
  ]);
  const numbers = await project.said("partitions", "metadata", "orders", "--limit", "3");
  expect(numbers).toMatch(/^PARTITION +MATERIALIZED +rows$/m);
  expect(numbers).toMatch(/^2026-01-01 .* 1,001 rows\n2026-01-02 .* 1,002 rows$/m);
  expect(await project.said("partitions", "metadata", "whole")).toMatch(/ 7$/m);
  const none = await project.said("partitions", "metadata", "orders", "--name", "cols");
  expect(none).toBe("None of 3 partitions has numbers in its metadata (3 in all).\n");
  server.child.kill("SIGTERM");
  await server.ended;
});
