import { monotonicFactory } from "ulid";
import type { Decide } from "../src/work/decision.ts";
import { publishDefinitions } from "../src/work/definition/publish.ts";
import { receiveMessages } from "../src/work/sensor/commands.ts";
import type { Json } from "../src/kernel/canonical.ts";
import type { RecordedEvent } from "../src/work/envelope.ts";
import type {
  ClaimedProbe,
  EvaluatedRequest,
  EvaluationOutcome,
  ProbeResult,
} from "../src/work/probe-protocol.ts";
import { Spec } from "../src/work/definition/published-spec.ts";
import type { RunRow } from "../src/work/run/rows.ts";
import type { SensorRow } from "../src/work/sensor/rows.ts";
import { TABLES } from "../src/work/tables.ts";
import { Engine } from "../src/engine/engine.ts";
import { type Environment, nodeHash } from "../src/engine/config.ts";
import { openSqliteStore } from "../src/store/sqlite/store.ts";
import type { Store } from "../src/store/store.ts";
import { ManualClock } from "./manual-clock.ts";

const START_MS = Date.UTC(2026, 2, 10);
const ACTOR = { principal: "ann", token_id: null };

/** A run that an evaluation asks for, written with what matters only. */
export function ask(given: Partial<EvaluatedRequest> = {}): EvaluatedRequest {
  const nothing = { partition_keys: null, run_key: null, config: null, labels: {} };
  return { asset_selection: ["a"], ...nothing, ...given };
}

/** The outcome of an evaluation that did not fail. */
export function found(cursor: string | null, ...requests: EvaluatedRequest[]): EvaluationOutcome {
  return { type: "evaluated", cursor, run_requests: requests };
}

/** An engine on a real store, under a clock that only moves when a test says so. */
export class SensorServer {
  readonly store: Store;
  readonly clock: ManualClock;
  readonly warnings: string[];
  engine: Engine;

  private constructor(store: Store, clock: ManualClock, engine: Engine, warnings: string[]) {
    this.warnings = warnings;
    this.store = store;
    this.clock = clock;
    this.engine = engine;
  }

  /** Starts a server; an idle one acts only when it is told to. */
  static async start({ isIdle = false } = {}): Promise<SensorServer> {
    const clock = new ManualClock();
    const store = await openSqliteStore({
      path: ":memory:",
      clock: () => START_MS + clock.now(),
    });
    const warnings: string[] = [];
    const engine = await open(store, environmentOf(clock, warnings));
    const server = new SensorServer(store, clock, engine, warnings);
    if (!isIdle) server.engine.start();
    await server.quiet();
    return server;
  }

  /** The server stops, and another takes its place. */
  async restart(): Promise<void> {
    await this.engine.stop();
    this.engine = await open(this.store, environmentOf(this.clock, this.warnings));
    this.engine.start();
    await this.quiet();
  }

  async close(): Promise<void> {
    await this.engine.stop();
    await this.store.close();
  }

  /** Everything that needs no time has happened. */
  async quiet(): Promise<void> {
    for (let turn = 0; turn < 60; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await this.quiet();
  }

  async submit<Result>(decide: Decide<Result>, engine = this.engine): Promise<Result> {
    const { result } = await engine.submit(decide, { actor: ACTOR, correlationId: "test" });
    await this.quiet();
    return result;
  }

  publish(...specs: readonly object[]): Promise<unknown> {
    const parsed = specs.map((spec) =>
      Spec.parse("kind" in spec ? spec : { kind: "asset", partitions: null, ...spec }),
    );
    return this.submit(publishDefinitions({ origin: "code", specs: parsed, prune: false }));
  }

  /** Delivers a message. */
  async receive(sensor: string, message_id: string, payload: Json = 1): Promise<string> {
    const payload_digest = nodeHash.sha256(JSON.stringify(payload));
    const message = { message_id, source: "webhook", type: null, attributes: {} } as const;
    const messages = [{ ...message, payload, published_at: null, payload_digest }];
    const { results } = await this.submit(receiveMessages({ sensor, messages }));
    return results[0] ?? "nothing";
  }

  async claim(sensors: readonly string[], engine = this.engine): Promise<ClaimedProbe[]> {
    const request = { worker_id: "w", sensors: [...sensors], slots: 100, wait_ms: 0 };
    return (await engine.claimProbes(request)).probes;
  }

  /** Takes the one evaluation that is due. */
  async claimOne(sensor: string, engine = this.engine): Promise<ClaimedProbe> {
    const [probe, ...others] = await this.claim([sensor], engine);
    if (probe === undefined || others.length > 0) {
      throw new Error(`${others.length + (probe === undefined ? 0 : 1)} evaluations are due.`);
    }
    return probe;
  }

  async report(
    probe: ClaimedProbe,
    outcome: ProbeResult["outcome"],
    engine = this.engine,
  ): Promise<string> {
    const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
    const read = { probe_id, attempt, cursor, expected_state_version, poll_epoch };
    const request = { worker_id: "w", results: [{ ...read, outcome }] };
    const { results } = await engine.reportProbes(request);
    await this.quiet();
    return results[0] ?? "nothing";
  }

  async runs(): Promise<RunRow[]> {
    const find = { table: TABLES.runs, where: [], order: [{ cell: "run_pos" }], limit: 1_000 };
    return this.engine.read((reader) => reader.find(find));
  }

  async sensor(name: string): Promise<SensorRow> {
    const where = [{ cell: "name", is: "=", value: name }] as const;
    const find = { table: TABLES.sensors, where, order: [], limit: 1 };
    const [row] = await this.engine.read((reader) => reader.find(find));
    if (row === undefined) throw new Error(`There is no sensor ${name}.`);
    return row;
  }

  events(after = 0): Promise<RecordedEvent[]> {
    return this.engine.read((reader) => reader.events({ after, limit: 10_000 }));
  }

  async pos(): Promise<number> {
    return (await this.engine.read((reader) => reader.head())).pos;
  }

  /** Runs every task that is ready, and reports how it went. */
  async work(outcome: "SUCCEEDED" | "FAILED", ...assets: string[]): Promise<void> {
    for (;;) {
      const claim = { worker_id: "w", lease_id: `l${await this.pos()}`, slots: 100, assets };
      const waiting = this.engine.claim({ ...claim, code_version: null, wait_ms: 1 });
      await this.pass(1);
      const answer = await waiting;
      const results = answer.groups.flatMap(({ run_pos, tasks }) =>
        tasks.map(({ task_key, attempt }) => ({
          run_pos,
          task_key,
          attempt,
          outcome,
          ...(outcome === "FAILED"
            ? { final: true, error: { class: "user", message: "it broke" } }
            : {}),
        })),
      );
      if (results.length === 0) return;
      const released_leases = [claim.lease_id];
      await this.engine.report({ worker_id: "w", code_version: null, results, released_leases });
      await this.quiet();
    }
  }
}

function open(store: Store, environment: Environment): Promise<Engine> {
  return Engine.open({ store, tenantId: "t", workspaceId: "w", environment });
}

function environmentOf(clock: ManualClock, warnings: string[]): Environment {
  const ulid = monotonicFactory();
  return {
    hash: nodeHash,
    zoneDatabase: "2026a",
    checksEvents: true,
    random: () => 0.5,
    newId: (epochMs) => ulid(epochMs),
    newSecret: () => "the secret of the tests",
    elapsedMs: () => clock.now(),
    defer: (callback) => void setImmediate(callback),
    timer: (ms, callback) => clock.after(ms, callback),
    warn: (message, details) => warnings.push(`${message} ${JSON.stringify(details)}`),
  };
}
