import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Instant } from "../kernel/instant.ts";
import { BACKFILLS } from "../work/backfill/rows.ts";
import { TASKS } from "../work/run/rows.ts";
import { SCHEDULES } from "../work/schedule/rows.ts";
import { SENSORS, WEBHOOKS } from "../work/sensor/rows.ts";
import type { AnyTable } from "../kernel/table.ts";
import type { Engine } from "../engine/engine.ts";
import type { EngineStatus } from "../engine/config.ts";
import type { LedgerWatch, LedgerWatchStatus } from "../engine/ledger/watch.ts";
import {
  notificationMetrics,
  scheduleMetrics,
  sensorMetrics,
  workMetrics,
} from "./metrics-of-kinds.ts";
import { moveMetrics, splitMetrics } from "./metrics-of-shards.ts";
import type { NotificationSender } from "./webhooks/sender.ts";
import { syncMetrics } from "./metrics-of-kinds.ts";

/** Seconds: from a read in memory to a claim that waited for work. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1, 5, 30];

/**
 * What one workspace can be watched by. Each has a registry of its own, so that a token never
 * counts what another workspace does.
 */
export class WorkspaceMetrics {
  readonly #registry = new Registry();
  readonly #durations: Histogram<"operation" | "status">;
  readonly #children = new Map<string, { observe(seconds: number): void }>();
  /** From a decision's arrival to its durable commit. */
  readonly commitDurations: Histogram;
  readonly claimedTasks: Counter;
  readonly storeErrors: Counter;

  constructor(
    engine: Engine,
    now: () => Instant,
    notifications: NotificationSender | null,
    ledgerWatch: LedgerWatch | null,
  ) {
    const registers = [this.#registry];
    this.#durations = new Histogram({
      name: "pawl_http_request_duration_seconds",
      help: "HTTP requests by operation and status",
      labelNames: ["operation", "status"],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.commitDurations = new Histogram({
      name: "pawl_commit_duration_seconds",
      help: "Time from the arrival of a decision to its durable commit",
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.claimedTasks = new Counter({
      name: "pawl_claimed_tasks_total",
      help: "Tasks given to workers",
      registers,
    });
    this.storeErrors = new Counter({
      name: "pawl_store_errors_total",
      help: "Requests that failed because the store did",
      registers,
    });
    countedBy(this.#registry, engine, "pawl_tasks", "Tasks of unfinished runs by state", TASKS);
    countedBy(this.#registry, engine, "pawl_backfills", "Backfills by state", BACKFILLS);
    countedBy(this.#registry, engine, "pawl_schedules", "Schedules by state", SCHEDULES);
    countedBy(this.#registry, engine, "pawl_sensors", "Sensors by state", SENSORS);
    countedBy(this.#registry, engine, "pawl_webhooks", "Webhooks by state", WEBHOOKS);
    scheduleMetrics(this.#registry, engine, now);
    sensorMetrics(this.#registry, engine);
    syncMetrics(this.#registry, engine);
    splitMetrics(this.#registry, engine);
    moveMetrics(this.#registry, engine);
    workMetrics(this.#registry, engine);
    notificationMetrics(this.#registry, engine, notifications, now);
    engineMetrics(this.#registry, engine);
    ledgerMetrics(this.#registry, engine, ledgerWatch);
    logMetrics(this.#registry, engine);
  }

  /** Counts a request; label sets are kept, as looking them up costs more than counting. */
  observe(operation: string, status: number, seconds: number): void {
    const name = `${operation} ${status}`;
    let child = this.#children.get(name);
    if (child === undefined) {
      child = this.#durations.labels({ operation, status: String(status) });
      this.#children.set(name, child);
    }
    child.observe(seconds);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}

/** Rows counted by state when somebody looks. */
function countedBy(
  registry: Registry,
  engine: Engine,
  name: string,
  help: string,
  table: AnyTable,
): void {
  const gauge = new Gauge({
    name,
    help,
    labelNames: ["state"],
    registers: [registry],
    async collect() {
      gauge.reset();
      const groups = await engine.read((reader) => reader.countBy(table, [], ["state"]));
      for (const { values, count } of groups) gauge.set({ state: String(values["state"]) }, count);
    },
  });
}

/** Whether the ledger is in order, and how far that was looked at. */
function ledgerMetrics(registry: Registry, engine: Engine, watch: LedgerWatch | null): void {
  const damaged: Gauge = new Gauge({
    name: "pawl_ledger_damaged",
    help: "1 when the ledger was found damaged: nothing is appended until a person decides",
    registers: [registry],
    async collect() {
      const { damage } = await engine.read((reader) => reader.head());
      damaged.set(damage === null ? 0 : 1);
    },
  });
  if (watch === null) return;
  const gauges: [string, string, (status: LedgerWatchStatus) => number][] = [
    [
      "pawl_ledger_checked_pos",
      "All events up to here were read again",
      (status) => status.checked_pos,
    ],
    [
      "pawl_ledger_walked_pos",
      "How far the walk through the whole ledger is",
      (status) => status.walked_pos,
    ],
    [
      "pawl_ledger_walks",
      "Walks through the whole ledger since the start",
      (status) => status.walks,
    ],
    [
      "pawl_ledger_informational_events",
      "Unknown events that say they are informational, and were passed over",
      (status) => status.informational,
    ],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(valueOf(watch.status())),
    });
  }
}

/** How much of what tasks logged is kept. */
function logMetrics(registry: Registry, engine: Engine): void {
  const gauge: Gauge = new Gauge({
    name: "pawl_log_bytes",
    help: "Bytes of all kept log lines, as they count against logs_bytes_max",
    registers: [registry],
    async collect() {
      gauge.set(await engine.logBytes());
    },
  });
}

/** What the engine knows of itself. */
function engineMetrics(registry: Registry, engine: Engine): void {
  const counters: [string, string, (status: EngineStatus) => number][] = [
    ["pawl_events_total", "Events in the ledger", ({ pos }) => pos],
    ["pawl_commits_total", "Commits, each of one or more decisions", ({ commits }) => commits],
    [
      "pawl_late_results_total",
      "Results refused because their attempt was not the current one",
      ({ results_refused }) => results_refused,
    ],
    [
      "pawl_log_lines_dropped_total",
      "Log lines that were not kept because a quota was reached",
      ({ log_lines_dropped }) => log_lines_dropped,
    ],
    [
      "pawl_log_lines_expired_total",
      "Log lines of ended runs that were dropped as too old, or to make room",
      ({ log_lines_expired }) => log_lines_expired,
    ],
  ];
  for (const [name, help, valueOf] of counters) {
    const counter: Counter = new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        counter.reset();
        counter.inc(valueOf(engine.status()));
      },
    });
  }
  const gauges: [string, string, (status: EngineStatus) => number][] = [
    ["pawl_queued_decisions", "Decisions that wait for a commit", ({ queued_jobs }) => queued_jobs],
    ["pawl_waiting_claims", "Claims that wait for work", ({ waiting_claims }) => waiting_claims],
    [
      "pawl_poisoned_entities",
      "Runs and backfills whose controller failed an assertion",
      ({ poisoned }) => Object.keys(poisoned).length,
    ],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(valueOf(engine.status())),
    });
  }
}

/** What is about the process rather than a workspace: memory, event loop, turned-away requests. */
export class ProcessMetrics {
  readonly #registry = new Registry();
  readonly #denied: Counter<"code">;

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    this.#denied = new Counter({
      name: "pawl_http_denied_total",
      help: "Requests refused before they reached a workspace",
      labelNames: ["code"],
      registers: [this.#registry],
    });
  }

  deny(code: string): void {
    this.#denied.inc({ code });
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
