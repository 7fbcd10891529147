import { describe, expect, expectTypeOf, test } from "vitest";
import { asset } from "./asset.ts";
import { definePawl } from "./define-pawl.ts";
import { daily } from "./partitions.ts";
import { type ScheduleOptions, schedule } from "./schedule.ts";
import {
  type FileItem,
  materializationsOf,
  newFiles,
  newObjects,
  newRows,
  runFailures,
  sensor,
  type SensorOptions,
} from "./sensor.ts";
import { webhook, type WebhookOptions } from "./webhook.ts";

const materialize = async (): Promise<void> => {};
const report = asset("report", { materialize });
const visits = asset("visits", { materialize, partitions: daily({ start: "2025-01-01" }) });
const nightly = { cron: "@daily", assets: visits };
const evaluate = (): void => undefined;

describe("schedule", () => {
  test("fills in what is not said", () => {
    const spec = schedule("nightly", { cron: "0 2 * * *", assets: report });

    expect(Object.isFrozen(spec)).toBe(true);
    expect(spec).toEqual({
      kind: "schedule",
      name: "nightly",
      labels: {},
      enabled: true,
      cron: "0 2 * * *",
      timezone: "UTC",
      asset_selection: ["report"],
      selection: { type: "whole" },
      config: null,
      priority: 0,
      overlap: "allow",
      catchup_window_minutes: 1_440,
      max_catchup_ticks: 3,
      catch_up_on_resume: false,
      jitter_ms: 0,
      starts_at: null,
      ends_at: null,
    });
  });

  test("carries every option over to the spec", () => {
    const spec = schedule("nightly", {
      cron: "0 2 * * *",
      assets: ["report", report],
      timezone: "Europe/Berlin",
      config: { full: true },
      priority: 5,
      overlap: "buffer_one",
      catchupWindowMinutes: 60,
      maxCatchupTicks: 1,
      catchUpOnResume: true,
      jitterMs: 500,
      startsAt: "2025-01-01T00:00:00+01:00",
      endsAt: new Date(Date.UTC(2026, 0, 1)),
      enabled: false,
      description: "Every night.",
      labels: { team: "sales" },
    });

    expect(spec).toMatchObject({
      asset_selection: ["report", "report"],
      timezone: "Europe/Berlin",
      config: { full: true },
      priority: 5,
      overlap: "buffer_one",
      catchup_window_minutes: 60,
      max_catchup_ticks: 1,
      catch_up_on_resume: true,
      jitter_ms: 500,
      starts_at: "2024-12-31T23:00:00.000Z",
      ends_at: "2026-01-01T00:00:00.000Z",
      enabled: false,
      description: "Every night.",
      labels: { team: "sales" },
    });
  });

  test.each<[ScheduleOptions["selection"], unknown]>([
    ["current", { type: "tick_time", offset: 0 }],
    ["previous", { type: "tick_time", offset: -1 }],
    [{ offset: -7 }, { type: "tick_time", offset: -7 }],
    ["all", { type: "all" }],
    [{ partitions: ["2025-01-01"] }, { type: "explicit", partition_keys: ["2025-01-01"] }],
    ["stale", { type: "stale", limit: 1_000 }],
    [
      { stale: { limit: 5, reasons: ["CODE_CHANGED"] } },
      { type: "stale", limit: 5, reasons: ["CODE_CHANGED"] },
    ],
  ])("selects %j", (selection, expected) => {
    const given = selection === undefined ? {} : { selection };

    expect(schedule("nightly", { ...nightly, ...given }).selection).toEqual(expected);
  });

  test("does not look for what is stale while it is still being made, unless told", () => {
    expect(schedule("s", { ...nightly, selection: "stale" }).overlap).toBe("skip");
    expect(schedule("s", { ...nightly, selection: "stale", overlap: "allow" }).overlap).toBe(
      "allow",
    );
  });

  test("must say which partitions it means, by object and by key", () => {
    const sentence =
      'The schedule "nightly" is for the asset visits, which has partitions, so it must say which: ' +
      'selection "current"';

    expect(() => schedule("nightly", nightly)).toThrow(sentence);
    const byKey = schedule("nightly", { ...nightly, assets: ["visits"] });
    expect(() => definePawl({ assets: [visits], schedules: [byKey] })).toThrow(sentence);
  });

  test("is refused with the option that was probably meant, or what may be said", () => {
    const refused = (more: object) => () =>
      schedule("s", { cron: "@daily", assets: report, ...more });

    expect(refused({ timeZone: "UTC" })).toThrow("has no option timeZone. Did you mean timezone?");
    expect(refused({ selection: "curent" })).toThrow('has the selection "curent"; it must be');
    expect(refused({ selection: { stale: { limits: 1 } } })).toThrow("Did you mean limit?");
    expect(refused({ selection: { offset: 1 } })).toThrow("selection.offset");
    expect(refused({ startsAt: "2025-01-01T00:00:00" })).toThrow("2025-01-31T08:00:00Z");
    expect(refused({ assets: [] })).toThrow("asset_selection");
    const wrong = schedule("s", { cron: "61 * * * *", assets: report });
    expect(() => definePawl({ assets: [report], schedules: [wrong] })).toThrow(
      "cron expression that is wrong",
    );
  });
});

describe("sensor", () => {
  test("fills in what is not said, and keeps its function to itself", () => {
    const { spec, code } = sensor("inbox", { evaluate });

    expect(spec).toEqual({
      kind: "sensor",
      name: "inbox",
      labels: {},
      enabled: true,
      mode: "poll",
      watch: null,
      target: null,
      min_interval_ms: 30_000,
      timeout_ms: 60_000,
      max_run_requests: 100,
    });
    expect(code).toEqual({ evaluate, list: null, database: null });
  });

  test("carries every option over to the spec", () => {
    const { spec } = sensor("inbox", {
      watch: newFiles({ folder: "in", pattern: "*.csv", settleMs: 5 }),
      target: { assets: visits, partition: "{stem}", runKey: "{name}", config: { at: "{path}" } },
      minIntervalMs: 1_000,
      timeoutMs: 2_000,
      maxRunRequests: 10,
      enabled: false,
      description: "Files.",
      labels: { team: "sales" },
    });

    expect(spec).toMatchObject({
      mode: "poll",
      watch: { type: "files", folder: "in", pattern: "*.csv", recursive: false, settle_ms: 5 },
      target: {
        asset_selection: ["visits"],
        partition_key: "{stem}",
        run_key: "{name}",
        config: { at: "{path}" },
      },
      min_interval_ms: 1_000,
      timeout_ms: 2_000,
      max_run_requests: 10,
      enabled: false,
      description: "Files.",
      labels: { team: "sales" },
    });
  });

  test("gives its function items of the watch's type", () => {
    sensor("inbox", {
      watch: newFiles({ folder: "in" }),
      evaluate({ items, request }) {
        expectTypeOf(items).toEqualTypeOf<readonly FileItem[]>();
        for (const { stem } of items) request({ assets: visits, partition: stem });
      },
    });
    sensor("orders", {
      watch: newRows<{ id: number }>({ database: "a.db", table: "orders", watermark: "id" }),
      evaluate({ items }) {
        expectTypeOf(items).toEqualTypeOf<readonly { id: number }[]>();
      },
    });
    sensor("poll", {
      evaluate({ items }) {
        expectTypeOf(items).toEqualTypeOf<readonly never[]>();
      },
    });
  });

  test("is refused in words when it cannot be meant", () => {
    const watch = newFiles({ folder: "in" });
    const target = { assets: report };
    const refused = (options: object) => () => sensor("s", options as SensorOptions);

    expect(refused({})).toThrow("needs a function evaluate, or a target");
    expect(refused({ evaluate, target, watch })).toThrow("both evaluate and target");
    expect(refused({ target })).toThrow("nothing to look at");
    expect(refused({ evaluate, push: true, watch })).toThrow("leave out push or watch");
    expect(refused({ evaluate, watch: "in" })).toThrow("has a watch that is none");
    expect(refused({ evaluate: 1 })).toThrow("needs a function evaluate, not 1");
    expect(refused({ evaluate, intervalMs: 5 })).toThrow("Did you mean minIntervalMs?");
    expect(refused({ watch, target: { ...target, run_key: "a" } })).toThrow("Did you mean runKey?");
    expect(refused({ evaluate, timeoutMs: 1 })).toThrow(/timeout_ms: .* \(it is 1\)/);
  });
});

describe("watches", () => {
  test("keep functions and addresses out of what is published", () => {
    const list = () => [];
    const database = "postgres://me:secret@db/orders";
    const rows = { table: "orders", watermark: "id" };
    const project = definePawl({
      assets: [report],
      sensors: [
        sensor("objects", { watch: newObjects({ list, prefix: "raw/" }), evaluate }),
        sensor("rows", { watch: newRows({ database, ...rows }), target: { assets: report } }),
        sensor("named", {
          watch: newRows({ databaseEnv: "SENSOR_ORDERS", ...rows, limit: 5 }),
          target: { assets: report },
        }),
        sensor("failed", { watch: runFailures({ assets: report }), evaluate }),
      ],
    });

    expect(JSON.stringify(project.specs)).not.toContain("secret");
    expect(project.specs.flatMap((spec) => (spec.kind === "sensor" ? [spec.watch] : []))).toEqual([
      { type: "objects", prefix: "raw/", pattern: "*" },
      { type: "rows", ...rows, key: null, database_env: null, limit: 100 },
      { type: "rows", ...rows, key: null, database_env: "SENSOR_ORDERS", limit: 5 },
      { type: "run_failures", assets: ["report"] },
    ]);
    expect([...project.sensors]).toEqual([
      ["objects", { evaluate, list, database: null }],
      ["rows", { evaluate: null, list: null, database }],
      ["failed", { evaluate, list: null, database: null }],
    ]);
  });

  test("look into folders below when the pattern names one", () => {
    expect(newFiles({ folder: "in", pattern: "*/a.csv" }).spec).toMatchObject({ recursive: true });
    expect(materializationsOf(visits).spec).toEqual({
      type: "materializations",
      asset_key: "visits",
    });
    expect(runFailures().spec).toEqual({ type: "run_failures", assets: [] });
  });

  test("are refused in words when they cannot be meant", () => {
    expect(() => newFiles({ folder: "in", pattern: "*.{csv,json}" })).toThrow("know * and ? only");
    expect(() => newFiles({ folder: "in", pattern: "../*.csv" })).toThrow("stay within the folder");
    expect(() => newFiles({ folders: "in" } as never)).toThrow("Did you mean folder?");
    expect(() => newObjects({} as never)).toThrow("needs a function list");
    expect(() => newRows({ table: "a", watermark: "id" })).toThrow("needs either database");
    expect(() => newRows({ databaseEnv: "my url", table: "a", watermark: "id" })).toThrow(
      "database_env",
    );
  });
});

describe("webhook", () => {
  test("says where to tell of which outcomes", () => {
    const spec = webhook("alerts", {
      url: "https://example.com/hook",
      on: ["run.failed"],
      assets: [report],
    });

    expect(spec).toEqual({
      kind: "webhook",
      name: "alerts",
      labels: {},
      enabled: true,
      url: "https://example.com/hook",
      notifications: ["run.failed"],
      assets: ["report"],
    });
    const message = { format: "slack", template: "{{title}}", digest: "backfill" } as const;
    const on = ["backfill.failed"] as const;
    expect(webhook("a", { url: "https://example.com", on, ...message })).toMatchObject(message);
    expect(() => webhook("a", { url: "x", on, format: "fax" } as never)).toThrow("format");
    expect(() => webhook("a", { url: "x", on: [] })).toThrow("notifications");
    expect(() => webhook("a", { url: "x", events: [] } as never)).toThrow("has no option events");
    const wrong = webhook("a", { url: "x", on: ["run.failed"] });
    expect(() => definePawl({ assets: [], webhooks: [wrong] })).toThrow("whole http or https URL");
    const mail = webhook("mail", { email: { to: "ops@example.com", subject: "{{title}}" }, on });
    expect(mail.email).toEqual({ to: ["ops@example.com"], subject: "{{title}}" });
    const mailed = (email: unknown) => () =>
      definePawl({ webhooks: [webhook("mail", { email, on } as never)] });
    expect(mailed({ to: [] })).toThrow("email.to");
    expect(mailed("ops@example.com")).toThrow("email: ");
    expect(mailed({ to: ["ops"] })).toThrow('sends e-mail to "ops", which is not an address');
    expect(mailed({ to: "a@b.c", cc: "d@e.f" })).toThrow("email, has no option cc");
    expect(mailed({ to: "a@b.c", subject: "{{titel}}" })).toThrow('names "titel"');
    expect(mailed(undefined)).toThrow("has neither a url nor email");
    const project = (options: Pick<WebhookOptions, "template" | "digest">) =>
      definePawl({
        webhooks: [webhook("a", { url: "https://example.com", on: ["run.failed"], ...options })],
      });
    expect(() => project({ template: "{{eror.message}}" })).toThrow(
      'The webhook a has a template that names "eror.message", which none of its notifications ' +
        "has (perhaps error.message is meant); they have type,",
    );
    expect(() => project({ digest: "backfill" })).toThrow(
      "add backfill.failed to its notifications",
    );
  });
});
