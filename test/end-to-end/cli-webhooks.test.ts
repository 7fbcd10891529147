import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CliProject } from "./cli-project.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

// Every command is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000 });

let project: CliProject;
let receiver: WebhookReceiver;

beforeEach(async () => {
  project = new CliProject();
  receiver = await startReceiver();
});

afterEach(async () => {
  await project.remove();
  await receiver.close();
});

/** Writes a project whose webhook wants to be told of some outcomes. */
function wants(...on: string[]): void {
  project.write(
    "pawl.config.ts",
    `
import { asset, definePawl, webhook } from "pawl";

const report = asset("report", { materialize: () => undefined });
const alerts = webhook("alerts", { url: "${receiver.url}", on: ${JSON.stringify(on)} });
export const project = definePawl({ assets: [report], webhooks: [alerts] });
`,
  );
}

async function started() {
  const server = project.launch(["start", "--port", "0"], { PAWL_WEBHOOK_HOSTS: receiver.host });
  await server.said("listens on");
  return server;
}

async function run(): Promise<string> {
  const { stdout } = await project.pawl(["run", "start", "report", "--wait", "--json"]);
  return (JSON.parse(stdout) as { run_id: string }).run_id;
}

test("new code whose webhook wants more tells nothing of what the old code did", async () => {
  wants("run.failed");
  const { child, ended } = await started();
  await run();
  child.kill("SIGKILL");
  await ended;
  wants("run.failed", "run.succeeded");
  await started();
  const run_id = await run();
  await receiver.got(1);
  expect(receiver.received.map(({ body }) => body.data["run_id"])).toEqual([run_id]);
});

test("a webhook to an address that is not public is told of at the start, and by the doctor", async () => {
  wants("run.failed");
  const refusal = `has an address that is not public`;
  const doctor = await project.pawl(["doctor"]);
  expect(doctor.code).toBe(2);
  expect(doctor.stdout).toMatch(/^✗ webhooks +alerts: .+webhook_hosts/m);
  expect(doctor.stderr).toContain("(WEBHOOK_REFUSED)");
  const server = project.launch(["start", "--port", "0"]);
  await server.said(refusal);
  await server.said('"webhook":"alerts"');
  server.child.kill("SIGTERM");
  await server.ended;

  const allowed = { PAWL_WEBHOOK_HOSTS: receiver.host };
  expect((await project.pawl(["doctor"], allowed)).stdout).toMatch(/^✓ webhooks +1 can be told/m);
  const quiet = project.launch(["start", "--port", "0"], allowed);
  await quiet.said("listens on");
  await run();
  quiet.child.kill("SIGTERM");
  const { stdout, stderr } = await quiet.ended;
  expect(stdout + stderr).not.toContain(refusal);
});

test("a webhook that is made or changed to go to such an address says so at once, and so does the doctor", async () => {
  project.write(
    "pawl.config.ts",
    `import { definePawl } from "pawl"; export default definePawl({});`,
  );
  const server = project.launch(["start", "--port", "0"]);
  await server.said("listens on");
  expect((await project.pawl(["doctor"])).stdout).toMatch(/^✓ webhooks +there are none/m);
  const made = await project.pawl(
    "webhook create pager --to http://10.0.0.7/x --on run.failed".split(" "),
  );
  expect(made.stdout).toContain("Webhook pager was created. It is never told:");
  expect(made.stdout).toMatch(/^Its secret, which is not shown again: whsec_/m);
  const changed = await project.pawl("webhook update pager --to http://10.0.0.8/x".split(" "));
  expect(changed.stdout).toContain("Webhook pager was changed. It is never told:");
  const doctor = await project.pawl(["doctor"]);
  expect(doctor.code).toBe(2);
  expect(doctor.stdout).toMatch(/^✗ webhooks +pager: The webhook at 10\.0\.0\.8 has/m);
  const allowed = { PAWL_WEBHOOK_HOSTS: "10.0.0.8" };
  expect((await project.pawl(["doctor"], allowed)).stdout).toMatch(/^✓ webhooks +1 can be told/m);
  await project.pawl(["webhook", "update", "pager", "--disabled"]);
  expect((await project.pawl(["doctor"])).stdout).toMatch(/^✓ webhooks +there are none/m);
  server.child.kill("SIGTERM");
  await server.ended;
});
