import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { BackfillDocument } from "../../src/work/backfill/documents.ts";
import { withoutControls } from "../../src/cli/base/terminal.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { CliProject } from "./cli-project.ts";

// Many commands have workers, and are run on a busy machine.
/** Two partitions go well, one never does, and those of `slow` take as long as the test lets them. */
const CONFIG = `
import { existsSync } from "node:fs";
import { asset, definePawl, doNotRetry, staticPartitions } from "pawl";

const letters = asset("letters", {
  partitions: staticPartitions(["a", "b", "c"]),
  materialize: ({ partition }) => {
    if (partition === "b") throw doNotRetry("b is never any good.");
  },
});
const slow = asset("slow", {
  partitions: staticPartitions(["a", "b"]),
  materialize: async ({ signal }) => {
    while (!existsSync(new URL("./go", import.meta.url)) && !signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    signal.throwIfAborted();
  },
});
export const project = definePawl({ assets: [letters, slow] });
`;

let project: CliProject;

function newProject(): void {
  project = new CliProject();
  project.write("pawl.config.ts", CONFIG);
}

const removeProject = () => project.remove();

async function json<Document>(...args: string[]): Promise<Document> {
  return JSON.parse((await project.pawl([...args, "--json"])).stdout) as Document;
}

async function start(env: Record<string, string> = {}) {
  const server = project.launch(["start", "--port", "0"], env);
  await server.said("listens on");
  return server;
}

// One server for all of them: what each makes does not concern the others.
describe("commands of a project with a server", () => {
  beforeAll(async () => {
    newProject();
    await start();
  });
  afterAll(removeProject);

  test("fails what is waited for when a partition fails, and says which error it was", async () => {
    const create = ["backfill", "create", "letters", "--all", "--wait", "--json"];
    const { code, stdout, stderr } = await project.pawl(create);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      state: "FAILED",
      results: [{ partitions_succeeded: 2, partitions_failed: 1 }],
    });
    expect(JSON.parse(stderr)).toMatchObject({
      code: "WORK_FAILED",
      message: expect.stringContaining("1 of 3 partitions. The first error: b is never any good."),
    });
  });

  test("creates one backfill for one request id, however often it is sent", async () => {
    const create = ["backfill", "create", "letters", "--all", "--request-id", "monday"];
    const first = await json<{ backfill_id: string }>(...create);
    const second = await json<{ backfill_id: string }>(...create);
    expect(second.backfill_id).toBe(first.backfill_id);
  });

  test("pauses, retunes, resumes and cancels", async () => {
    const create = ["backfill", "create", "slow", "--all", "--chunk-size", "1"];
    const { backfill_id: id } = await json<{ backfill_id: string }>(
      ...create,
      "--concurrency",
      "1",
    );
    expect(await json("backfill", "pause", id)).toMatchObject({ state: "PAUSED" });
    const resume = ["backfill", "resume", id, "--expected-state-version", "1"];
    const stale = await project.pawl(resume);
    expect(stale).toMatchObject({ code: 4 });
    expect(stale.stderr).toContain("(STATE_VERSION_MISMATCH)");
    await json("backfill", "retune", id, "--concurrency", "2");
    expect(await json("backfill", "resume", id)).toMatchObject({ state: "RUNNING" });
    await json("backfill", "cancel", id, "--now");
    const watched = await project.pawl(["backfill", "watch", id]);
    expect(watched).toMatchObject({ code: 1 });
    expect(watched.stderr).toContain("was cancelled");
    const document = await json<BackfillDocument>("backfill", "show", id);
    const { partitions_succeeded: made, partitions_cancelled: cancelled } = document;
    expect(cancelled).toBeGreaterThan(0);
    const listed = (await project.pawl(["backfill", "list"])).stdout;
    const [line = ""] = listed.split("\n").filter((each) => each.includes("slow"));
    expect(line).toContain(` ${made}/${made + cancelled} `);
    expect(line).toMatch(/ (now|\d+[sm] ago) +(now|\d+[sm] ago)$/);
  });
});

describe("pawl with a server", () => {
  beforeEach(newProject);
  afterEach(removeProject);
  const serverFile = () => join(project.folder, ".pawl", "server.json");

  test("is found by the commands of its project, and stops when it is told to", async () => {
    const server = await start();
    const { url, pid } = JSON.parse(readFileSync(serverFile(), "utf8")) as Record<string, unknown>;
    expect(pid).toBe(server.child.pid);
    const { stdout } = await project.pawl(["doctor"]);
    expect(stdout).toContain(`✓ server         ${String(url)}, version`);

    server.child.kill("SIGTERM");
    expect(await server.ended).toMatchObject({ code: 0 });
    expect(existsSync(serverFile())).toBe(false);
  });

  test("refuses a second server on the same store, and a rebuild", async () => {
    const { child } = await start();
    for (const args of [["start", "--port", "0"], ["rebuild"]]) {
      const second = await project.pawl(args);
      expect(second.code).toBe(5);
      expect(second.stderr).toContain(`(pid ${child.pid}) already works on`);
      expect(second.stderr).toContain("(STORE_LOCKED)");
    }
    expect(await project.pawl(["verify"])).toMatchObject({ code: 0 });
  });

  test("I85: serves a damaged ledger for reading only, until somebody accepts it", async () => {
    const run = (day: string) => ["run", "start", "letters", "--partitions", day];
    await project.said(...run("a"), "--wait");
    // Another workspace beside it, which is in order.
    const other = { PAWL_WORKSPACE_ID: "other" };
    expect(await project.pawl(["deploy"], other)).toMatchObject({ code: 0 });
    const database = new Database(join(project.folder, ".pawl", "pawl.db"));
    database.exec("drop trigger events_refuse_update");
    database.exec("update events set correlation_id = 'x' where pos = 2 and ws = 1");
    database.close();

    const failed = await project.pawl(["verify"]);
    expect(failed.code).toBe(7);
    expect(failed.stderr).toContain("1 of 2 workspaces failed.");
    expect(failed.stderr).toContain("default/default is damaged at position 2");
    expect(failed.stdout).toMatch(/default\/default\s+-\s+FAILED/);
    expect(failed.stdout).toMatch(/default\/other\s+\d+\s+[0-9a-f]{64}/);

    const server = await start();
    await server.said("served for reading only");
    const { url } = JSON.parse(readFileSync(serverFile(), "utf8")) as { url: string };
    const ready = await fetch(`${url}/readyz`);
    expect(ready.status).toBe(503);
    expect(await ready.text()).toContain("is damaged at position 2");
    expect(await project.said("run", "list")).toContain("letters");
    expect(await project.refused(7, ...run("b"))).toContain("is damaged at position 2");
    expect(await (await fetch(`${url}/metrics`)).text()).toMatch(
      /^pawl_ledger_damaged(?:\{.*\})? 1$/m,
    );

    expect(await project.said("verify", "--accept")).toContain(
      "default/default: 1 fault was accepted",
    );
    await project.said(...run("a"));
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  /** Writes behind Pawl's back, past what keeps the ledger append-only. */
  function tamper(...statements: string[]): void {
    const database = new Database(join(project.folder, ".pawl", "pawl.db"));
    database.exec("drop trigger if exists events_refuse_update");
    for (const statement of statements) database.exec(statement);
    database.close();
  }

  test("I85: looks at its ledger at the start, and again while it serves", async () => {
    await project.said("run", "start", "letters", "--partitions", "a", "--wait");
    const change = "update events set correlation_id = 'x' where pos = 2";
    tamper("update heads set verified = null", change);
    const first = await start();
    await first.said("served for reading only");
    first.child.kill("SIGTERM");
    await first.ended;

    tamper("update events set correlation_id = null where pos = 2");
    await project.said("verify", "--accept");
    const second = await start();
    tamper(change.replace("pos = 2", "pos = 3"));
    await second.said("the ledger is damaged");
    const { url } = JSON.parse(readFileSync(serverFile(), "utf8")) as { url: string };
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
  });

  test("is not looked for when it was killed, and another takes its place", async () => {
    const server = await start();
    server.child.kill("SIGKILL");
    await server.ended;
    expect(existsSync(serverFile())).toBe(true);
    expect(await project.pawl(["backfill", "list"])).toMatchObject({ code: 0 });
    await start();
  });

  test("I83: keeps its files to their owner, those from before too, and says so", async () => {
    mkdirSync(join(project.folder, ".pawl"), { mode: 0o755 });
    project.write(".pawl/pawl.db", "");
    chmodSync(join(project.folder, ".pawl"), 0o755);
    chmodSync(join(project.folder, ".pawl", "pawl.db"), 0o644);
    const server = await start();
    await server.said("was open to other users (mode 755)");
    const modeOf = (name: string) =>
      (statSync(join(project.folder, ".pawl", name)).mode & 0o777).toString(8);
    expect(modeOf("")).toBe("700");
    const names = readdirSync(join(project.folder, ".pawl"));
    expect(names).toEqual(expect.arrayContaining(["pawl.db", "pawl.db-wal", "server.json"]));
    expect(names.map(modeOf)).toEqual(names.map(() => "600"));
  });

  test("I83: commands without a server say what was open too, and what has to stay so", async () => {
    const folder = join(project.folder, ".pawl");
    mkdirSync(folder);
    chmodSync(folder, 0o755);
    const closed = await project.pawl(["backfill", "list"]);
    expect(closed.stderr).toContain("was open to other users (mode 755)");
    expect((await project.pawl(["backfill", "list"])).stderr).toBe("");
    project.write(".pawl/notes.txt", "mine");
    chmodSync(folder, 0o755);
    const left = await project.pawl(["backfill", "list"]);
    expect(left.stderr).toContain("stays open to other users");
    expect(left.stderr).toContain("(notes.txt)");
  });

  test("I83: is not looked for at an address that came with the project, whatever that proves", async () => {
    const asked: (string | undefined)[] = [];
    const other = createHttpServer((request, response) => {
      asked.push(request.headers.authorization);
      response.end('{"status":"ok"}');
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    mkdirSync(join(project.folder, ".pawl"), { mode: 0o700 });
    const forged = {
      url: `http://127.0.0.1:${port}`,
      pid: process.pid,
      started_at: "2026-11-16T09:00:00.000Z",
      secret: "0".repeat(64),
    };
    const { dev, ino } = statSync(join(project.folder, ".pawl"), { bigint: true });
    for (const place of [undefined, "1:2", `${dev}:${ino}`]) {
      writeFileSync(serverFile(), JSON.stringify({ ...forged, place }), { mode: 0o600 });
      const listed = await project.pawl(["backfill", "list"], { PAWL_TOKEN: "pawl_secret" });
      expect(listed).toMatchObject({ code: 0 });
    }
    other.close();
    // With the right place it is asked for its proof, and gets no token for giving none.
    expect(asked).toEqual([undefined]);
  });

  test("I83: text that would drive a terminal is shown, not obeyed", async () => {
    project.write("pawl.config.ts", CONFIG.replace("b is never any good.", "\\x1b[2Jb\\r\\x9bm"));
    await start();
    const failed = await project.pawl(["backfill", "create", "letters", "--all", "--wait"]);
    expect(failed).toMatchObject({ code: 1 });
    const { backfill_id } = await json<{ items: BackfillDocument[] }>("backfill", "list").then(
      ({ items }) => items[0] as BackfillDocument,
    );
    const shown = await project.pawl(["backfill", "show", backfill_id]);
    const written = failed.stdout + failed.stderr + shown.stdout + shown.stderr;
    expect(written).toContain("\\u001b[2Jb\\u000d\\u009bm");
    expect(withoutControls(written)).toBe(written);
  });

  test("I83: takes a token from a file, and warns of one that everybody can see", async () => {
    project.write("token", "pawl_none\n");
    const nobody = ["backfill", "list", "--url", "http://127.0.0.1:1"];
    const seen = await project.pawl([...nobody, "--token", "pawl_none"]);
    expect(seen.stderr).toContain("Every user of this machine can see the token after --token.");
    const asJson = await project.pawl([...nobody, "--token", "pawl_none", "--json"]);
    expect(JSON.parse(asJson.stderr.split("\n")[0] ?? "")).toEqual({
      warning: expect.stringContaining("can see the token after --token."),
    });
    const hidden = await project.pawl([...nobody, "--token-file", "token"]);
    expect(hidden.stderr).toMatch(/^pawl: [^\n]*\(SERVER_UNREACHABLE\)\n$/);
    const missing = await project.pawl([...nobody, "--token-file", "nowhere"]);
    expect(missing).toMatchObject({ code: 2 });
    expect(missing.stderr).toContain("nowhere, which cannot be read (ENOENT). (CONFIG_INVALID)");
  });

  test("I68: the token of its own worker ends soon after it was killed", async () => {
    const server = await start({ PAWL_TOKENS_REQUIRED: "true" });
    server.child.kill("SIGKILL");
    await server.ended;
    type Tokens = { items: { principal: string; created_at: string; expires_at: string }[] };
    const { items } = await json<Tokens>("token", "list");
    expect(items).toHaveLength(1);
    const lives = items.map((each) => Date.parse(each.expires_at) - Date.parse(each.created_at));
    expect(lives[0]).toBeLessThanOrEqual(3_600_000);
  });

  test("says so when the port is taken", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    const { code, stderr } = await project.pawl(["start", "--port", String(port)]);
    other.close();
    expect(code).toBe(4);
    expect(stderr).toMatch(new RegExp(`^pawl: [^\\n]*:${port} [^\\n]*\\(PORT_IN_USE\\)\\n$`));
  });

  test("keeps what is finished when a command that works by itself is interrupted", async () => {
    const waiting = project.launch(["backfill", "create", "slow", "--all", "--wait"]);
    await waiting.said("Created backfill");
    waiting.child.kill("SIGINT");
    const { code, stderr } = await waiting.ended;
    expect(code).toBe(130);
    expect(stderr).toContain("Interrupted.");

    project.write("go", "");
    const page = await json<{ items: BackfillDocument[] }>("backfill", "list");
    const id = page.items[0]?.backfill_id ?? "";
    expect(await project.pawl(["backfill", "watch", id])).toMatchObject({ code: 0 });
  });

  // The tasks of a server that was killed are free when their leases have run out.
  const shortLeases = { PAWL_LEASE_MS: "3000" };

  test("goes on for a command that waits when the one that served it has ended", async () => {
    const create = ["backfill", "create", "slow", "--all", "--wait"];
    const first = project.launch(create, shortLeases);
    await first.said("Created backfill");
    const second = project.launch(["backfill", "create", "letters", "--partitions", "a", "--wait"]);
    expect(await second.ended).toMatchObject({ code: 0 });
    const page = await json<{ items: BackfillDocument[] }>("backfill", "list");
    const id = page.items.at(-1)?.backfill_id ?? "";
    const watching = project.launch(["backfill", "watch", id], shortLeases);
    first.child.kill("SIGKILL");
    await first.ended;
    project.write("go", "");
    expect(await watching.ended).toMatchObject({ code: 0 });
  });

  test("goes on for a command that waits for a run, too", async () => {
    const server = await start(shortLeases);
    const run = ["run", "start", "slow", "--partitions", "a", "--wait"];
    const waiting = project.launch(run, shortLeases);
    await waiting.said("Run run_");
    server.child.kill("SIGKILL");
    await server.ended;
    project.write("go", "");
    expect(await waiting.ended).toMatchObject({ code: 0 });
  });

  test("lets in only who has a token, once others can reach it", async () => {
    const made = await project.pawl(["token", "create", "me", "--verbs", "read,write,admin"]);
    const token = made.stdout.trim();
    const server = project.launch(["start", "--port", "0", "--host", "0.0.0.0"]);
    await server.said("listens on");

    const refused = await project.pawl(["backfill", "list"]);
    expect(refused).toMatchObject({ code: 6 });
    expect(refused.stderr).toContain("(UNAUTHORIZED)");
    const create = ["backfill", "create", "letters", "--partitions", "a,c", "--wait"];
    expect(await project.pawl([...create, "--token", token])).toMatchObject({ code: 0 });

    type Token = { token_id: string; principal: string };
    const { items } = await json<{ items: Token[] }>("token", "list");
    const mine = items.find(({ principal }) => principal === "me")?.token_id ?? "";
    expect(await json("token", "revoke", mine)).toMatchObject({ revoked: true });
    expect(await project.pawl(["backfill", "list", "--token", token])).toMatchObject({ code: 6 });
  });
});

describe("pawl on PostgreSQL", () => {
  beforeEach(newProject);
  afterEach(removeProject);

  test("runs a backfill, without a server and with one, and verifies what it kept", async () => {
    const env = { DATABASE_URL: await freshDatabaseUrl() };
    const fill = ["backfill", "create", "letters", "--partitions", "a,c", "--wait"];
    expect(await project.pawl(fill, env)).toMatchObject({ code: 0 });
    const server = project.launch(["start", "--port", "0"], env);
    await server.said("PostgreSQL");
    expect(await project.pawl(fill, env)).toMatchObject({ code: 0 });
    expect(await project.pawl(["rebuild"], env)).toMatchObject({ code: 5 });
    server.child.kill("SIGTERM");
    expect(await server.ended).toMatchObject({ code: 0 });
    expect(await project.pawl(["rebuild"], env)).toMatchObject({ code: 0 });
    const { stdout } = await project.pawl(["verify"], env);
    expect(stdout).toContain("Everything is in order.");
  });
});

describe("pawl dev", () => {
  beforeEach(newProject);
  afterEach(removeProject);

  test("loads the code again when it changes, and keeps the old when it is broken", async () => {
    const dev = project.launch(["dev", "--port", "0"]);
    await dev.said("listens on");
    project.write("pawl.config.ts", CONFIG.replace('"a", "b", "c"', '"a", "b", "c", "d"'));
    await dev.said("pawl.config.ts changed");
    const summary = await project.pawl(["partitions", "summary", "letters", "--json"]);
    expect(JSON.parse(summary.stdout)).toMatchObject({ total: 4 });

    project.write("pawl.config.ts", `${CONFIG}\nconst broken: = 1;\n`);
    await dev.said("The code from before goes on.");
    expect(
      await project.pawl(["run", "start", "letters", "--partitions", "d", "--wait"]),
    ).toMatchObject({ code: 0 });
    dev.child.kill("SIGINT");
    expect(await dev.ended).toMatchObject({ code: 0 });
  });
});

describe("pawl worker", () => {
  beforeEach(newProject);
  afterEach(removeProject);

  test("works for a server that has no worker of its own", async () => {
    const server = project.launch(["start", "--port", "0", "--no-worker"]);
    await server.said("listens on");
    const worker = project.launch(["worker", "--concurrency", "2"]);
    await worker.said("Working for");
    const run = ["run", "start", "letters", "--partitions", "a", "--wait"];
    expect(await project.pawl(run)).toMatchObject({ code: 0 });
    worker.child.kill("SIGTERM");
    expect(await worker.ended).toMatchObject({ code: 0 });
  });
});
