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
