import {
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "../../src/work/schedule/commands.ts";
import {
  pauseSensor,
  receiveMessages,
  resetCursor,
  resumeSensor,
} from "../../src/work/sensor/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { type Evaluation, evaluateSensor } from "../../src/work/sensor/evaluate.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { createEntity, deleteEntity, updateEntity } from "../../src/work/definition/commands.ts";
import { ScheduleSpec, SensorSpec, WebhookSpec } from "../../src/work/definition/spec.ts";
import type { Json } from "../../src/kernel/canonical.ts";
import type { EvaluatedRequest } from "../../src/work/probe-protocol.ts";
import type { Spec } from "../../src/work/definition/published-spec.ts";
import { nodeHash } from "../../src/engine/config.ts";

/** What decisions are made with. */
export type Deciding = {
  submit: <Result>(decide: Decide<Result>) => Promise<Result>;
  /** Lets so much time pass, then has everything due decided. */
  pass: (ms: number) => Promise<void>;
  work: (most: number) => Promise<void>;
};

const HOUR_MS = 3_600_000;
const schedule = (name: string, rest: object) =>
  ScheduleSpec.parse({ kind: "schedule", name, asset_selection: ["orders"], ...rest });
const sensor = (name: string, rest: object) =>
  SensorSpec.parse({ kind: "sensor", name, max_run_requests: 3, ...rest });

/** Everything of the project that acts by itself. */
const AUTOMATION: readonly Spec[] = [
  schedule("daily", {
    cron: "0 3 * * *",
    timezone: "Europe/Berlin",
    selection: { type: "tick_time", offset: -310 },
    jitter_ms: 60_000,
    labels: { team: "data" },
  }),
  schedule("hourly", {
    cron: "@hourly",
    selection: { type: "explicit", partition_keys: ["2025-01-07"] },
    overlap: "buffer_one",
    max_catchup_ticks: 2,
    config: { mode: "full" },
  }),
  schedule("minutely", {
    cron: "*/5 * * * *",
    asset_selection: ["customers"],
    selection: { type: "all" },
    overlap: "skip",
    max_catchup_ticks: 1,
    catchup_window_minutes: 30,
    catch_up_on_resume: true,
  }),
  schedule("stale", {
    cron: "30 */2 * * *",
    asset_selection: ["orders", "clean"],
    selection: { type: "stale", limit: 3 },
  }),
  sensor("listed", { mode: "poll" }),
  sensor("pushed", { mode: "push" }),
  sensor("forwarded", {
    mode: "push",
    target: {
      asset_selection: ["orders"],
      partition_key: "{payload.day}",
      run_key: "{payload.day}",
      config: "{payload}",
    },
  }),
  WebhookSpec.parse({
    kind: "webhook",
    name: "pager",
    url: "https://example.com/hook",
    notifications: ["run.failed", "schedule.failed"],
  }),
];

const OWN = schedule("own", {
  cron: "15 * * * *",
  asset_selection: ["bulk"],
  selection: { type: "all" },
});

/** Has schedules tick and sensors be evaluated in every way there is, then rests them all. */
export async function decideAutomation(specs: readonly Spec[], deciding: Deciding): Promise<void> {
  const { submit, pass, work } = deciding;
  await submit(
    publishDefinitions({ origin: "code", specs: [...specs, ...AUTOMATION], prune: true }),
  );
  await pass(10 * 60_000);
  await decideSchedules(deciding);
  await decideSensors(deciding);
  for (const name of ["daily", "hourly", "minutely", "stale"]) {
    await submit(pauseSchedule({ schedule: name, reason: "enough" }));
  }
  await work(100);
  // What code defined goes, with all that it has not decided.
  await pass(HOUR_MS);
  const kept = AUTOMATION.filter((spec) => spec.kind !== "schedule" || spec.name !== "minutely");
  await submit(publishDefinitions({ origin: "code", specs: [...specs, ...kept], prune: true }));
}

async function decideSchedules({ submit, pass, work }: Deciding): Promise<void> {
  const { id } = await submit(createEntity(OWN));
  await pass(2 * HOUR_MS);
  await work(10);
  await submit(triggerSchedule({ schedule: "hourly" }));
  await submit(triggerSchedule({ schedule: "hourly" }));
  await submit(pauseSchedule({ schedule: "minutely", expected_state_version: 1 }));
  await pass(3 * HOUR_MS);
  await submit(updateEntity("schedule", { id }, () => ({ ...OWN, cron: "45 * * * *" })));
  await work(10);
  await submit(resumeSchedule({ schedule: "minutely", reason: "go on" }));
  await pass(60_000);
  await submit(pauseSchedule({ schedule: "hourly" }));
  // Long enough for a stretch of skipped times to be one event.
  await pass(26 * HOUR_MS);
  await submit(resumeSchedule({ schedule: "hourly" }));
  await work(20);
  await submit(updateEntity("schedule", { id }, () => ({ ...OWN, enabled: false })));
  await pass(HOUR_MS);
  await submit(deleteEntity("schedule", { id }));
}

async function decideSensors({ submit, pass, work }: Deciding): Promise<void> {
  const ids = await submit(sensorIds);
  const evaluate = (name: string, given: Omit<Evaluation, "sensor_id">) =>
    submit(evaluateSensor({ sensor_id: ids[name] ?? "none", ...given }));
  await submit(receive("pushed", ["1", "2", "3"]));
  await submit(receive("pushed", ["2", "4"]));
  await evaluate("pushed", push("1", [wish("2025-01-08", "k1"), wish("2025-01-08", "k1")]));
  await evaluate("pushed", push("2", [wish("2025-01-09", "k1"), wish("no such day", null)]));
  const failed = { type: "failed", error: { class: "user", message: "no luck" } } as const;
  await evaluate("pushed", { ...push("3", []), outcome: failed });
  await submit(pauseSensor({ sensor: "pushed" }));
  await evaluate("pushed", push("4", [wish("2025-01-10", null)]));
  await submit(resumeSensor({ sensor: "pushed" }));
  await evaluate("pushed", push("4", [wish("2025-01-10", null)]));
  await submit(receive("forwarded", ["a", "b"]));
  await pass(1_000);

  await evaluate("listed", poll(1, null, 1, "10", [wish("2025-01-11", "i1")]));
  await evaluate("listed", poll(2, null, 1, "11", [wish("2025-01-12", "i2")]));
  await evaluate("listed", poll(3, "10", 2, "10", []));
  await evaluate("listed", { ...poll(4, "10", 2, null, []), outcome: failed });
  await evaluate("listed", poll(5, "10", 2, "12", [wish("2025-01-12", "i2")]));
  await submit(resetCursor({ sensor: "listed", cursor: "5", reason: "again" }));
  const request = { type: "manual", request_id: "try" } as const;
  const again = poll(0, "5", 4, "12", [wish("2025-01-11", "i1"), wish("2025-01-13", null)]);
  await evaluate("listed", { ...again, source: request });
  await work(20);
}

const sensorIds: Decide<Record<string, string>> = (rows) => ({
  events: [],
  result: Object.fromEntries(
    rows.sensors
      .find([], [{ cell: "sensor_id" }], 100)
      .map(({ name, sensor_id }) => [name, sensor_id]),
  ),
});

function receive(name: string, ids: readonly string[]) {
  const messages = ids.map((message_id) => {
    const payload: Json = { day: `2025-02-0${message_id.charCodeAt(0) % 9}`, text: "ü" };
    const payload_digest = nodeHash.sha256(JSON.stringify(payload));
    const said = { type: "created", attributes: { region: "eu" }, published_at: null };
    return { message_id, source: "cloudevents" as const, payload, payload_digest, ...said };
  });
  return receiveMessages({ sensor: name, messages });
}

function wish(key: string, run_key: string | null): EvaluatedRequest {
  return {
    asset_selection: ["orders"],
    partition_keys: [key],
    run_key,
    config: null,
    labels: { from: "sensor" },
  };
}

function push(message_id: string, run_requests: EvaluatedRequest[]): Omit<Evaluation, "sensor_id"> {
  return {
    source: { type: "push", message_id },
    cursor: null,
    expected_state_version: null,
    outcome: { type: "evaluated", cursor: null, run_requests },
  };
}

function poll(
  poll_epoch: number,
  cursor: string | null,
  expected_state_version: number,
  after: string | null,
  run_requests: EvaluatedRequest[],
): Omit<Evaluation, "sensor_id"> {
  return {
    source: { type: "poll", poll_epoch },
    cursor,
    expected_state_version,
    outcome: { type: "evaluated", cursor: after, run_requests },
  };
}
