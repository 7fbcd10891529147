import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type {
  EvaluatedSensor,
  SensorDocument,
  SensorEvalDocument,
  SensorMessageDocument,
} from "../../src/work/sensor/api.ts";
import type { WebhookDocument } from "../../src/work/webhook/api.ts";
import { signWebhook } from "../../src/server/webhooks/signing.ts";
import { CliProject, type Running } from "./cli-project.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

// Many commands have workers, and are run on a busy machine.
const CONFIG = `import { asset, definePawl, dynamicPartitions, sensor } from "pawl";
  const days = asset("days", {
    partitions: dynamicPartitions("days"),
    materialize: async () => undefined,
  });
  const report = asset("report", { materialize: async () => undefined });
  const broken = asset("broken", {
    retry: { maxAttempts: 1 },
    materialize: async () => { throw new Error("It is no good."); },
  });
  const coded = sensor("coded", {
    minIntervalMs: 3_600_000,
    evaluate: async (ctx) => {
      ctx.request({ assets: report, runKey: "one" });
      return { cursor: "c1" };
    },
  });
  export default definePawl({ assets: [days, report, broken], sensors: [coded] });`;

const project = new CliProject();
let receiver: WebhookReceiver;

beforeAll(async () => {
  project.write("pawl.config.ts", CONFIG);
  receiver = await startReceiver();
});
afterAll(async () => {
  await project.remove();
  await receiver.close();
});

const sensor = (...args: string[]) => ["sensor", ...args] as const;
const webhook = (...args: string[]) => ["webhook", ...args] as const;

describe("pawl sensor", () => {
  test("creates the ready-made ones from flags, and shows them", async () => {
    const files = ["--files", "incoming", "--pattern", "*.csv", "--settle", "0s"];
    const target = ["--asset", "days", "--partition-key", "{stem}", "--run-key", "{path}"];
    const created = await project.said(
      ...sensor("create", "arrivals", ...files, ...target, "--min-interval", "200ms"),
    );
    expect(created).toMatch(/^Created sensor arrivals \(\w{26}\)\.\nNo server is running/);
    const shown = await project.json<SensorDocument>(...sensor("show", "arrivals"));
    expect(shown).toMatchObject({
      mode: "poll",
      watch: { type: "files", folder: "incoming", pattern: "*.csv", settle_ms: 0 },
      target: { asset_selection: ["days"], partition_key: "{stem}", run_key: "{path}" },
      min_interval_ms: 200,
    });
    await project.said(
      ...sensor("create", "orders", "--rows", "orders", "--watermark", "id", "--disabled"),
      "--database-env",
      "SENSOR_SHOP",
      "--asset",
      "report",
    );
    await project.said(
      ...sensor("create", "after", "--materializations", "report", "--asset", "broken"),
    );
    await project.said(
      ...sensor("create", "alarm", "--run-failures", "broken", "--asset", "report"),
    );
    const pushed = await project.said(
      ...sensor("create", "uploads", "--push", "--asset", "report"),
    );
    expect(pushed).toContain("`pawl sensor secret uploads` makes the secret");
    const list = await project.said(...sensor("list"));
    expect(list).toMatch(/^arrivals +ACTIVE +files incoming\/\*\.csv +days @ \{stem\} /m);
    expect(list).toMatch(/^orders +PAUSED +rows of orders by id +report /m);
    expect(list).toMatch(/^alarm +ACTIVE +failures of runs of broken +report /m);
    expect(list).toMatch(/^coded +ACTIVE +its function +what its function decides /m);
    const text = await project.said(...sensor("show", shown.sensor_id.slice(-8)));
    expect(text).toMatch(/^waits for +files incoming\/\*\.csv$/m);
    expect(text).toMatch(/^cursor +the start$/m);
    await project.said(...sensor("delete", "after"));
    await project.said(...sensor("delete", "alarm"));
  });

  test("changes only what is said, pauses, resumes and moves the cursor", async () => {
    const changed = await project.said(...sensor("update", "orders", "--key", "id", "--enabled"));
    expect(changed).toMatch(/^Sensor orders was changed \(version 3\)\./);
    expect(await project.json<SensorDocument>(...sensor("show", "orders"))).toMatchObject({
      state: "ACTIVE",
      watch: { type: "rows", table: "orders", key: "id", database_env: "SENSOR_SHOP" },
    });
    const paused = await project.said(...sensor("pause", "orders", "--reason", "no database yet"));
    expect(paused).toBe("Sensor orders is PAUSED (version 4).\n");
    const moved = await project.said(...sensor("reset-cursor", "orders", "--to", "7"));
    expect(moved).toMatch(/^The cursor of sensor orders was moved \(version 5\)\./);
    const stale = ["--expected-state-version", "1"];
    expect(await project.refused(4, ...sensor("reset-cursor", "orders", ...stale))).toContain(
      "STATE_VERSION_MISMATCH",
    );
    expect(await project.said(...sensor("show", "orders"))).toMatch(/^cursor +7$/m);
    expect(await project.said(...sensor("resume", "orders"))).toContain("is ACTIVE (version 6)");
    expect(await project.said(...sensor("delete", "orders"))).toBe("Sensor orders was deleted.\n");
  });

  test("says what is wrong with a wish", async () => {
    expect(await project.refused(2, ...sensor("create", "x"))).toContain(
      "Expected what to wait for",
    );
    expect(await project.refused(2, ...sensor("create", "x", "--push"))).toContain(
      "--asset: expected",
    );
    expect(
      await project.refused(2, ...sensor("create", "x", "--files", "a", "--rows", "b")),
    ).toContain("--files together with --rows");
    expect(await project.refused(3, ...sensor("show", "nothing"))).toContain("SENSOR_NOT_FOUND");
    expect(await project.refused(2, ...sensor("update", "coded", "--description", "x"))).toContain(
      "is defined by code",
    );
    expect(await project.refused(2, ...sensor("secret", "coded"))).toContain("takes no messages");
  });

  test("evaluates with a worker of its own where no server runs", async () => {
    const dry = await project.json<EvaluatedSensor>(...sensor("evaluate", "coded", "--dry-run"));
    expect(dry).toMatchObject({ dry_run: true, cursor_after: "c1" });
    expect(dry.run_requests).toMatchObject([{ asset_selection: ["report"] }]);
    const text = await project.said(
      ...sensor("evaluate", "uploads", "--payload", '{"n":1}', "--dry-run"),
    );
    expect(text).toMatch(/^Sensor uploads would trigger 1 run: 1 created\.$/m);
    expect(text).toMatch(/^report +- +created +-/m);
  });
});

describe("with a server", () => {
  let server: Running;
  let url = "";

  beforeAll(async () => {
    mkdirSync(join(project.folder, "incoming"), { recursive: true });
    server = project.launch(["start", "--port", "0", "--webhook-hosts", receiver.host]);
    await server.said("http://127.0.0.1:");
  });

  afterAll(async () => {
    server.child.kill("SIGTERM");
    await server.ended;
  });

  async function push(secret: string, id: string, body: string): Promise<number> {
    const { sensor_id } = await project.json<SensorDocument>(...sensor("show", "uploads"));
    const timestampSeconds = Math.floor(Date.now() / 1_000);
    const bytes = new TextEncoder().encode(body);
    const answer = await fetch(`${url}/api/v1/orchestration/sensors/${sensor_id}/messages`, {
      method: "POST",
      body,
      headers: {
        "webhook-id": id,
        "webhook-timestamp": `${timestampSeconds}`,
        "webhook-signature": signWebhook({ id, timestampSeconds, body: bytes, secret }),
      },
    });
    return answer.status;
  }

  test("a signed message becomes a run, which is listed with its evaluation", async () => {
    const { code, stdout, stderr } = await project.pawl([...sensor("secret", "uploads")]);
    expect(code).toBe(0);
    const secret = stdout.trim();
    expect(secret).toMatch(/^whsec_/);
    url = /POST (http:\S+)\/api/.exec(stderr)?.[1] ?? "";
    expect(await push(secret, "m1", '{"n":1}')).toBe(202);
    expect(await push(secret, "m1", '{"n":1}')).toBe(200);
    expect(await push(`${secret.slice(0, -5)}AAAA=`, "m2", "{}")).toBe(401);
    const evals = async () =>
      (await project.json<{ items: SensorEvalDocument[] }>(...sensor("evals", "uploads"))).items;
    await expect.poll(async () => (await evals())[0]?.run_requests[0]?.run_state).toBe("SUCCEEDED");
    expect(await project.said(...sensor("evals", "uploads"))).toMatch(
      /triggered +message m1 +- +run_\w{8} SUCCEEDED$/m,
    );
    const { items } = await project.json<{ items: SensorMessageDocument[] }>(
      ...sensor("messages", "uploads", "--status", "evaluated"),
    );
    expect(items).toMatchObject([{ message_id: "m1", payload: null }]);
    expect(await project.said(...sensor("messages", "uploads"))).toMatch(
      /^m1 +EVALUATED +webhook /m,
    );
    expect(await project.said("run", "list")).toContain("sensor uploads");
  });

  test("files that arrive become runs", async () => {
    await project.said("partitions", "add", "days", "monday");
    project.write("incoming/monday.csv", "1,2,3");
    const evals = async () =>
      (await project.json<{ items: SensorEvalDocument[] }>(...sensor("evals", "arrivals"))).items;
    await expect.poll(async () => (await evals()).at(0)?.run_requests[0]?.outcome).toBe("created");
    const made = await project.json<EvaluatedSensor>(...sensor("evaluate", "coded"));
    expect(made.status).toMatch(/triggered|no_new_data/);
  });

  test("a webhook is made, tested, told, and has its secret replaced", async () => {
    const to = ["--to", receiver.url, "--on", "run.failed,backfill.failed"];
    const created = await project.said(...webhook("create", "alerts", ...to, "--asset", "broken"));
    const secret = /whsec_\S+/.exec(created)?.[0] ?? "";
    expect(await project.said(...webhook("test", "alerts"))).toMatch(/answered 204/);
    await project.pawl(["run", "start", "broken", "--wait"]);
    const got = (await receiver.got(2))[1];
    expect(got?.body).toMatchObject({ type: "run.failed", data: { outcome: "FAILED" } });
    expect(got !== undefined && receiver.isSigned(got, [secret], Date.now())).toBe(true);
    expect(await project.said(...webhook("list"))).toMatch(
      /^alerts +ACTIVE +run\.failed, backfill\.failed +broken +pawl +127\.0\.0\.1:\d+ +0 +0 /m,
    );
    const next = await project.said(...webhook("secret", "alerts", "--overlap", "0s"));
    expect(next.trim()).not.toBe(secret);
    expect(await project.said(...webhook("update", "alerts", "--on", "all"))).toContain(
      "was changed",
    );
    expect(await project.json<WebhookDocument>(...webhook("show", "alerts"))).toMatchObject({
      assets: ["broken"],
      has_secret: true,
    });
    receiver.answer = 500;
    expect(await project.refused(5, ...webhook("test", "alerts"))).toContain("WEBHOOK_FAILED");
    await project.pawl(["run", "start", "broken", "--wait"]);
    await expect
      .poll(() => project.said(...webhook("deliveries", "alerts")))
      .toMatch(/run\.failed +pending +1 +.*The receiver answered 500\./);
    expect(
      await project.refused(2, ...webhook("create", "x", "--to", "x", "--on", "run.won")),
    ).toContain("--on: expected all");
    expect(await project.said(...webhook("delete", "alerts"))).toBe(
      "Webhook alerts was deleted.\n",
    );
  });
});
