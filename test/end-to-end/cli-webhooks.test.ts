import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CliProject } from "./cli-project.ts";
import { blocksOf } from "./readme-blocks.ts";
import {
  type MailServer,
  startMailServer,
  startReceiver,
  type WebhookReceiver,
} from "./webhook-receiver.ts";

// Every command is a process of its own, and the machine may be busy.
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

async function started(env: Record<string, string> = {}) {
  const allowed = { PAWL_WEBHOOK_HOSTS: receiver.host };
  const server = project.launch(["start", "--port", "0"], { ...allowed, ...env });
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
  expect((await project.pawl(["doctor"], allowed)).stdout).toMatch(
    /^✓ webhooks +1 can be notified/m,
  );
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
  expect(made.stdout).toContain("Webhook pager was created. It is never notified:");
  expect(made.stdout).toMatch(/^Its secret, which is not shown again: whsec_/m);
  const changed = await project.pawl("webhook update pager --to http://10.0.0.8/x".split(" "));
  expect(changed.stdout).toContain("Webhook pager was changed. It is never notified:");
  const doctor = await project.pawl(["doctor"]);
  expect(doctor.code).toBe(2);
  expect(doctor.stdout).toMatch(/^✗ webhooks +pager: The webhook at 10\.0\.0\.8 has/m);
  const allowed = { PAWL_WEBHOOK_HOSTS: "10.0.0.8" };
  expect((await project.pawl(["doctor"], allowed)).stdout).toMatch(
    /^✓ webhooks +1 can be notified/m,
  );
  await project.pawl(["webhook", "update", "pager", "--disabled"]);
  expect((await project.pawl(["doctor"])).stdout).toMatch(/^✓ webhooks +there are none/m);
  server.child.kill("SIGTERM");
  await server.ended;
});

test("messages are written for a chat service, with a template, tested, changed and shown", async () => {
  project.write(
    "pawl.config.ts",
    `
import { asset, definePawl, webhook } from "pawl";

const visits = asset("visits", {
  retry: { maxAttempts: 1 },
  materialize: () => {
    throw new Error("no such table");
  },
});
const team = webhook("team", {
  url: "${receiver.url}",
  on: ["run.failed", "backfill.failed", "backfill.paused"],
  format: "slack",
  digest: "backfill",
});
export const project = definePawl({ assets: [visits], webhooks: [team] });
`,
  );
  receiver.answer = 200;
  const server = await started();
  const to = ["--to", receiver.url];
  const pager = ["webhook", "create", "pager", ...to, "--on", "run.failed"];
  const wrong = await project.pawl([
    ...pager,
    "--template",
    "{{asset_selection}}: {{eror.message}}",
  ]);
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain("(perhaps error.message is meant)");
  const fax = await project.pawl([...pager, "--format", "fax"]);
  expect(fax.code).toBe(2);
  expect(fax.stderr).toContain("Allowed choices are pawl, slack, teams, discord");
  const template = "{{asset_selection}} failed: {{error.message}} {{link}}";
  const message = ["--format", "discord", "--template", template];
  expect((await project.pawl([...pager, ...message])).code).toBe(0);
  const tested = await project.pawl(["webhook", "test", "pager"]);
  expect(tested.stdout).toContain("Webhook pager was notified; the receiver answered 200.");
  expect(tested.stdout).toContain('"content": "‹asset_selection› failed: ‹error.message› ‹link›"');
  const shown = await project.pawl(["webhook", "show", "pager"]);
  expect(shown.stdout).toMatch(/^format +discord$/m);
  expect(shown.stdout).toContain(template);
  expect((await project.pawl(["webhook", "list"])).stdout).toMatch(/^pager .+ discord .+$/m);

  const ran = await project.pawl(["run", "start", "visits", "--wait", "--json"]);
  const { run_id } = JSON.parse(ran.stdout) as { run_id: string };
  await receiver.got(3);
  const contents = receiver.received.slice(1).map(({ text }) => text);
  const discord = contents.find((text) => text.includes('"content"')) ?? "";
  // A server of this machine alone links to itself.
  expect(discord).toMatch(
    new RegExp(
      `"content":"visits failed: no such table http://127\\.0\\.0\\.1:\\d+/runs/${run_id}"`,
    ),
  );
  const slack = contents.find((text) => text.includes('"blocks"')) ?? "";
  expect(slack).toMatch(new RegExp(`<http://127\\.0\\.0\\.1:\\d+/runs/${run_id}\\|Open in Pawl>`));

  const update = ["webhook", "update", "pager"];
  await project.pawl([...update, "--format", "pawl", "--template", "none"]);
  const plain = await project.pawl(["webhook", "test", "pager"]);
  expect(plain.stdout).toContain('"type": "webhook.test"');
  expect(plain.stdout).not.toContain('"text"');
  const digest = await project.pawl([...update, "--digest", "backfill"]);
  expect(digest.stderr).toContain("add backfill.failed to its notifications");
  const both = ["--on", "run.failed,backfill.failed", "--digest", "backfill"];
  expect((await project.pawl([...update, ...both])).code).toBe(0);
  expect((await project.pawl(["webhook", "show", "pager"])).stdout).toMatch(
    /^digest +one message for a backfill$/m,
  );
  expect((await project.pawl([...update, "--digest", "none"])).code).toBe(0);
  server.child.kill("SIGTERM");
  await server.ended;
});

test("e-mail is sent with the server of the environment, whose password nobody is told", async () => {
  project.write(
    "pawl.config.ts",
    `
import { asset, definePawl, webhook } from "pawl";

const visits = asset("visits", {
  retry: { maxAttempts: 1 },
  materialize: () => {
    throw new Error("no such table");
  },
});
const ops = webhook("ops", { email: { to: "ops@example.com" }, on: ["run.failed"] });
export const project = definePawl({ assets: [visits], webhooks: [ops] });
`,
  );
  const refusal = "Let the operator set smtp_url and email_from.";
  const without = await project.pawl(["doctor"]);
  expect(without.code).toBe(2);
  expect(without.stdout).toMatch(/^✗ webhooks +ops: E-mail cannot be sent/m);
  const lacking = project.launch(["start", "--port", "0"]);
  await lacking.said(refusal);
  lacking.child.kill("SIGTERM");
  await lacking.ended;

  const login = { user: "pawl-user", pass: "s3cret-pass" };
  const mail = await startMailServer({ login });
  const env = mailEnvironment(mail, login);
  expect((await project.pawl(["doctor"], env)).stdout).toMatch(/^✓ webhooks +1 can be notified/m);
  const server = project.launch(["start", "--port", "0"], env);
  await server.said("listens on");
  const shown = await project.pawl(["webhook", "show", "ops"]);
  expect(shown.stdout).toMatch(/^to +ops@example\.com$/m);
  expect(shown.stdout).toMatch(/^format +e-mail$/m);
  expect(shown.stdout).toMatch(/^secret +none: e-mail is not signed$/m);
  await project.pawl(["run", "start", "visits", "--wait"]);
  const [told] = await mail.got(1);
  expect(told).toMatchObject({ subject: "Run failed: visits", user: login.user });
  expect(told?.text).toMatch(/Open in Pawl: http:\/\/127\.0\.0\.1:\d+\/runs\/run_/);

  const create = ["webhook", "create", "pager", "--on", "run.failed"];
  const none = await project.pawl(create);
  expect(none.stderr).toContain("--to or --email");
  const both = await project.pawl([...create, "--to", receiver.url, "--email", "a@example.com"]);
  expect(both.stderr).toContain("Expected --to or --email, got both.");
  const alone = await project.pawl([...create, "--to", receiver.url, "--subject", "x"]);
  expect(alone.stderr).toContain("--subject is the subject of e-mail");
  const wrong = await project.pawl([...create, "--email", "a@example.com,ops@"]);
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('sends e-mail to "ops@", which is not an address');
  const made = await project.pawl([...create, "--email", "a@example.com,b@example.com"]);
  expect(made.stdout).toMatch(/^Webhook pager was created\.\nIts id: \S+\s*$/);
  const update = ["webhook", "update", "pager"];
  expect((await project.pawl([...update, "--subject", "Pawl: {{title}}"])).code).toBe(0);
  const tested = await project.pawl(["webhook", "test", "pager"]);
  expect(tested.stdout).toContain("Webhook pager was notified; the receiver answered 250.");
  expect(tested.stdout).toContain('"subject": "Pawl: Test of the webhook pager"');
  expect((await mail.got(2))[1]?.envelope.to).toEqual(["a@example.com", "b@example.com"]);
  expect((await project.pawl(["webhook", "list"])).stdout).toMatch(
    /^pager .+ e-mail +a@example\.com, b@example\.com .+$/m,
  );
  const slack = ["--to", receiver.url, "--format", "slack"];
  expect((await project.pawl([...update, ...slack])).code).toBe(0);
  expect((await project.pawl([...update, "--email", "c@example.com"])).code).toBe(0);
  const again = (await project.pawl(["webhook", "show", "pager"])).stdout;
  expect(again).toMatch(/^to +c@example\.com$/m);
  expect(again).not.toContain("subject");

  mail.refuse = () => 451;
  expect((await project.pawl(["webhook", "test", "pager"])).code).toBe(5);
  const events = await project.pawl(["events", "--json", "--limit", "200"]);
  server.child.kill("SIGTERM");
  const said = await server.ended;
  for (const text of [said.stdout, said.stderr, events.stdout]) {
    expect(text).not.toContain(login.pass);
    expect(text).not.toContain(login.user);
  }
  expect(events.stdout).toContain("ops@example.com");
  await mail.close();
});

/** What an operator sets for e-mail. */
function mailEnvironment(mail: MailServer, login: { user: string; pass: string } | null) {
  const user = login === null ? "" : `${login.user}:${login.pass}@`;
  return {
    PAWL_SMTP_URL: `smtp://${user}127.0.0.1:${mail.port}`,
    PAWL_EMAIL_FROM: "Pawl <pawl@example.com>",
  };
}

test("what the guide shows can be done as it shows it", async () => {
  const mail = await startMailServer();
  const env = mailEnvironment(mail, null);
  const file = new URL("../../docs/guide/notifications.md", import.meta.url);
  const addresses = /https:\/\/(?:alerts\.example|hooks\.slack\.com)\/[\w/]+/g;
  const guide = readFileSync(file, "utf8").replaceAll(addresses, receiver.url);
  const [whole = "", team = "", people = ""] = [...guide.matchAll(/^```ts\n(.*?)^```$/gms)].map(
    ([, code]) => code,
  );
  expect(team).toContain('format: "slack"');
  expect(people).toContain("email: ");
  const others = [team, people].map((code) => code.replace(/;\s*$/, ","));
  const webhooks = `webhooks: [${others.join("")}`;
  project.write(
    "pawl.config.ts",
    `${whole.replace("webhooks: [", webhooks)}\nfunction loadVisits(): void {}\n`,
  );
  receiver.answer = 200;
  const first = await started(env);
  expect((await project.pawl(["webhook", "show", "mail"])).stdout).toMatch(/^format +e-mail$/m);
  expect((await project.pawl(["webhook", "show", "team"])).stdout).toMatch(/^format +slack$/m);
  first.child.kill("SIGTERM");
  await first.ended;

  // Names are free again for the commands once no code has them.
  project.write(
    "pawl.config.ts",
    `import { definePawl } from "pawl"; export default definePawl({});`,
  );
  const second = await started(env);
  const commands = blocksOf(guide).flatMap(({ commands: lines }) => lines.trim().split("\n"));
  expect(commands.length).toBeGreaterThanOrEqual(8);
  for (const command of commands) {
    const { code, stderr } = await project.pawl(command.split(" ").slice(1));
    expect(code, `${command}: ${stderr}`).toBe(0);
  }
  expect((await project.pawl(["webhook", "show", "team"])).stdout).toMatch(/^digest /m);
  second.child.kill("SIGTERM");
  await second.ended;
  expect(mail.received).toHaveLength(1);
  await mail.close();
});
