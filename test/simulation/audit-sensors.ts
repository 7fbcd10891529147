import type { EventData } from "../../src/work/events.ts";
import type { SensorRow } from "../../src/work/sensor/rows.ts";
import type { Audited, Evidence } from "./audit-ledger.ts";
import { runsOfMessage } from "./draw-sensors.ts";
import type { Violations } from "./violations.ts";

type Evaluated = EventData<"SensorEvaluated">;
type Asked = Evaluated["run_requests"][number];

/** A sensor as the auditor follows it through the ledger. */
type AuditedSensor = {
  name: string;
  mode: "push" | "poll";
  specHash: string;
  state: SensorRow["state"];
  version: number;
  cursor: string | null;
  evaluations: number;
  runs: number;
  /** Messages by id: what was in each, and how often it was evaluated. */
  messages: Map<string, { n: number; evaluations: number; runs: number }>;
};

/** Follows sensors through the ledger: cursors, messages, and the runs that came of them. */
export class SensorAudit {
  readonly #violations: Violations;
  readonly #byId = new Map<string, AuditedSensor>();
  /** Run keys that evaluations made, and how often. */
  readonly #made = new Map<string, number>();
  /** What the evaluation before must be followed by. */
  /** The evaluation that keys were added by and that is to follow; null for none. */
  #adding: string | null = null;
  #awaited: { evaluated: Evaluated; asked: Asked }[] = [];

  constructor(violations: Violations) {
    this.#violations = violations;
  }

  /** An evaluation is followed by the runs it made, in order, and no such run comes otherwise. */
  expectNext(event: Audited): void {
    this.#expectEvaluation(event);
    const awaited = this.#awaited.shift();
    if (awaited === undefined) {
      const isOurs =
        event.type === "RunRequested" && event.data.trigger_source_ref.type === "sensor";
      this.#violations.check(!isOurs, "I70", `the run at ${event.pos} has no evaluation before it`);
      return;
    }
    const { evaluated, asked } = awaited;
    this.#violations.check(
      isRequestOf(evaluated, asked, event),
      "I70",
      `evaluation ${evaluated.eval_id} and the ${event.type} at ${event.pos} do not belong together`,
    );
  }

  published({ data, pos }: Audited<"DefinitionsPublished">): void {
    for (const { body, spec_hash, entity } of data.specs) {
      if (body.kind !== "sensor") continue;
      const id = entity?.id ?? "";
      const before = this.#byId.get(id);
      this.#check(before?.state !== "DELETED", "I26", body.name, pos, "is defined after its end");
      if (before !== undefined) {
        before.version += 1;
        before.specHash = spec_hash;
        continue;
      }
      this.#byId.set(id, {
        name: body.name,
        mode: body.mode,
        specHash: spec_hash,
        state: body.enabled ? "ACTIVE" : "PAUSED",
        version: 1,
        cursor: null,
        evaluations: 0,
        runs: 0,
        messages: new Map(),
      });
    }
    for (const { kind, id } of data.removed) {
      if (kind !== "sensor") continue;
      const sensor = this.#get(id ?? "");
      sensor.state = "DELETED";
      sensor.version += 1;
    }
  }

  received({ data, pos }: Audited<"SensorMessageReceived">): void {
    const sensor = this.#get(data.sensor_id);
    const { name, mode, state, messages } = sensor;
    const isTaken = mode === "push" && state !== "DELETED";
    this.#check(isTaken, "I25", name, pos, `takes a message as ${mode}, ${state}`);
    const isNew = !messages.has(data.message_id);
    this.#check(isNew, "I25", name, pos, `receives ${data.message_id} a second time`);
    const { n } = data.payload as { n: number };
    messages.set(data.message_id, { n, evaluations: 0, runs: 0 });
  }

  #expectEvaluation({ type, data, pos }: Audited): void {
    const adding = this.#adding;
    if (adding === null) return;
    const isMore = type === "PartitionKeysAdded" || type === "PartitionKeysRestored";
    if (isMore && data.request_id === adding) return;
    const isEvaluation =
      type === "SensorEvaluated" && data.eval_id === adding && data.status === "triggered";
    const what = `keys of the evaluation ${adding} and the ${type} at ${pos} do not belong together`;
    this.#violations.check(isEvaluation, "I89", what);
    this.#adding = null;
  }

  /** Keys that an evaluation added stand directly before it. */
  keysAdded({ data }: Audited<"PartitionKeysAdded" | "PartitionKeysRestored">): void {
    const isOfSensor = /:(?:poll|msg|manual):/.test(data.request_id);
    if (isOfSensor) this.#adding = data.request_id;
  }

  evaluated({ data, pos }: Audited<"SensorEvaluated">): void {
    const sensor = this.#get(data.sensor_id);
    const check = (condition: boolean, promise: string, what: string): void =>
      this.#check(condition, promise, sensor.name, pos, `${data.eval_id} ${what}`);
    sensor.evaluations += 1;
    check(sensor.state !== "DELETED", "I26", "comes after its end");
    check(data.spec_hash === sensor.specHash, "I26", "names another definition");
    check((data.status === "error") === (data.error !== null) || isStale(data), "I26", "and error");
    if (data.trigger_source.type === "push") this.#push(sensor, data, check);
    else this.#move(sensor, data, check);
    if (!isStale(data)) {
      check(
        data.recovered === (sensor.state === "ERROR" && data.status !== "error"),
        "I26",
        "ends",
      );
      if (sensor.state !== "PAUSED") sensor.state = data.status === "error" ? "ERROR" : "ACTIVE";
    }
    for (const asked of data.run_requests) this.#ask(sensor, data, asked, check);
  }

  /** A message is evaluated once, while its sensor acts, and moves nothing. */
  #push(sensor: AuditedSensor, data: Evaluated, check: Check): void {
    const source = data.trigger_source;
    const id = source.type === "push" ? source.message_id : "";
    const message = sensor.messages.get(id);
    check(message !== undefined, "I25", "is of a message that was never received");
    if (message === undefined) return;
    message.evaluations += 1;
    check(message.evaluations === 1, "I25", `is number ${message.evaluations} of its message`);
    check(sensor.state !== "PAUSED", "I25", "comes while the sensor is paused");
    check(data.state_version === null && data.cursor_after === id, "I25", "moves the sensor");
    check(!isStale(data), "I25", "of a message is stale");
  }

  /** A cursor moves from where it is, by what was read there; what is stale moves nothing. */
  #move(sensor: AuditedSensor, data: Evaluated, check: Check): void {
    const isCurrent =
      data.expected_state_version === sensor.version && data.cursor_before === sensor.cursor;
    if (isStale(data)) {
      check(!isCurrent, "I26", "is recorded as stale and is not");
      const isVoid = data.run_requests.every(({ outcome }) => outcome === "void");
      check(isVoid && data.state_version === null, "I26", "has an effect although it is stale");
      return;
    }
    const read = `${data.expected_state_version} ${data.cursor_before}`;
    check(isCurrent, "I26", `read ${read}, not ${sensor.version} ${sensor.cursor}`);
    if (data.status === "error") {
      const isStill = data.state_version === null && data.cursor_after === data.cursor_before;
      check(isStill, "I26", "failed, and moves the sensor nevertheless");
      return;
    }
    check(data.state_version === sensor.version + 1, "I26", `makes version ${data.state_version}`);
    sensor.version = data.state_version ?? sensor.version;
    sensor.cursor = data.cursor_after;
  }

  #ask(sensor: AuditedSensor, data: Evaluated, asked: Asked, check: Check): void {
    const { run_key, outcome } = asked;
    const isNamed = run_key.startsWith(`sensor:${data.sensor_id}:`);
    check(isNamed, "I19", `asks for a run under ${run_key}`);
    // Beside what is refused waits what has no name of its own.
    const isFailed = data.status === "error";
    check(isFailed || (outcome === "void") === isStale(data), "I26", `asks for ${outcome}`);
    check(isFailed || outcome !== "refused", "I26", "moves on past what is refused");
    check((outcome === "refused") === (asked.error !== null), "I26", `is ${outcome}`);
    if (outcome === "existing") check(this.#made.has(run_key), "I70", `knows no run ${run_key}`);
    if (outcome !== "created") return;
    sensor.runs += 1;
    this.#made.set(run_key, (this.#made.get(run_key) ?? 0) + 1);
    this.#awaited.push({ evaluated: data, asked });
    const source = data.trigger_source;
    const message = source.type === "push" ? sensor.messages.get(source.message_id) : undefined;
    if (message !== undefined) message.runs += 1;
  }

  paused({ data, pos }: Audited<"SensorPaused">): void {
    const sensor = this.#changed(data, pos);
    const isActing = sensor.state === "ACTIVE" || sensor.state === "ERROR";
    this.#check(isActing, "I26", sensor.name, pos, `is paused while ${sensor.state}`);
    sensor.state = "PAUSED";
  }

  resumed({ data, pos }: Audited<"SensorResumed">): void {
    const sensor = this.#changed(data, pos);
    const what = `is resumed while ${sensor.state}`;
    this.#check(sensor.state === "PAUSED", "I26", sensor.name, pos, what);
    sensor.state = "ACTIVE";
  }

  reset({ data, pos }: Audited<"SensorCursorReset">): void {
    const sensor = this.#changed(data, pos);
    const what = `moves from ${data.cursor_before}, not ${sensor.cursor}`;
    this.#check(data.cursor_before === sensor.cursor, "I26", sensor.name, pos, what);
    sensor.cursor = data.cursor;
  }

  requested({ data, pos }: Audited<"RunRequested">): void {
    const source = data.trigger_source_ref;
    if (source.type !== "sensor") return;
    const times = this.#made.get(data.run_key);
    this.#violations.check(
      times === 1,
      "I26",
      `run ${data.run_key} at ${pos} is made ${times} times`,
    );
  }

  #changed(data: { sensor_id: string; state_version: number }, pos: number): AuditedSensor {
    const sensor = this.#get(data.sensor_id);
    const isNext = data.state_version === sensor.version + 1;
    const what = `version ${data.state_version} follows ${sensor.version}`;
    this.#check(isNext, "I26", sensor.name, pos, what);
    sensor.version = data.state_version;
    return sensor;
  }

  /** Everything that came in has come to what it asks for, and the rows say so. */
  auditEnd({ kept, items, live }: Evidence): void {
    this.#violations.check(this.#awaited.length === 0, "I70", "the last evaluation has no run");
    const byName = new Map([...this.#byId.values()].map((sensor) => [sensor.name, sensor]));
    for (const { sensor, message_id } of kept) {
      const isThere = byName.get(sensor)?.messages.has(message_id) ?? false;
      this.#violations.check(
        isThere,
        "I25",
        `message ${message_id} of ${sensor} was kept, and is gone`,
      );
    }
    for (const sensor of this.#byId.values()) this.#auditMessages(sensor);
    for (const [id, sensor] of this.#byId) if (sensor.name === "items") this.#auditItems(id, items);
    this.#auditRows(live);
  }

  #auditMessages(sensor: AuditedSensor): void {
    for (const [id, { n, evaluations, runs }] of sensor.messages) {
      const name = `message ${id} of ${sensor.name}`;
      this.#violations.check(evaluations === 1, "I25", `${name} has ${evaluations} evaluations`);
      const expected = runsOfMessage(sensor.name, n);
      // What failed again and again while things went wrong was given up, and says so.
      const isRight = runs === expected || runs === 0;
      this.#violations.check(isRight, "I25", `${name} has ${runs} runs, not ${expected}`);
    }
  }

  #auditItems(id: string, items: number): void {
    for (let n = 1; n <= items; n++) {
      const runs = this.#made.get(`sensor:${id}:key:item-${n}`) ?? 0;
      this.#violations.check(runs === 1, "I26", `item ${n} has ${runs} runs`);
    }
  }

  #auditRows(live: Evidence["live"]): void {
    for (const text of live.tables.sensors.values()) {
      const row = JSON.parse(text) as SensorRow;
      const sensor = this.#get(row.sensor_id);
      const pending = [...sensor.messages.values()].filter(({ evaluations }) => evaluations === 0);
      const expected: Record<string, string | number | null> = {
        state: sensor.state,
        state_version: sensor.version,
        cursor: sensor.cursor,
        evaluations: sensor.evaluations,
        runs_requested: sensor.runs,
        messages_received: sensor.messages.size,
        messages_pending: pending.length,
      };
      for (const [cell, value] of Object.entries(expected)) {
        const found = row[cell as keyof SensorRow];
        const what = `${cell} of ${row.name} is ${JSON.stringify(found)}, not ${value}`;
        this.#violations.check(found === value, sensor.mode === "push" ? "I25" : "I26", what);
      }
    }
  }

  #get(id: string): AuditedSensor {
    const sensor = this.#byId.get(id);
    if (sensor === undefined) throw new Error(`There is no sensor ${id}.`);
    return sensor;
  }

  #check(condition: boolean, promise: string, name: string, pos: number, what: string): void {
    this.#violations.check(condition, promise, `sensor ${name} at ${pos}: ${what}`);
  }
}

type Check = (condition: boolean, promise: string, what: string) => void;

function isStale({ status }: Evaluated): boolean {
  return status === "skipped_stale_cursor";
}

/** Whether an event is the run that an evaluation says it made. */
function isRequestOf(evaluated: Evaluated, asked: Asked, { type, data }: Audited): boolean {
  if (type !== "RunRequested") return false;
  const source = data.trigger_source_ref;
  return (
    source.type === "sensor" &&
    source.sensor_id === evaluated.sensor_id &&
    source.eval_id === evaluated.eval_id &&
    data.run_key === asked.run_key &&
    data.run_id === asked.run_id &&
    data.request_fingerprint === asked.request_fingerprint
  );
}
