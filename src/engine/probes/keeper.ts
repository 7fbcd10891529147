import { z } from "zod";
import type { EvaluationResult } from "../../work/sensor/evaluate.ts";
import type { Json } from "../../kernel/canonical.ts";
import {
  type Actor,
  holderOf,
  Count,
  FailureField,
  InstantText,
  type RecordedEvent,
} from "../../work/envelope.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { SensorMessage } from "../../work/probe-protocol.ts";
import type { Probe, NewProbe, ProbeKind, Reader, Store, WorkspaceId } from "../../store/store.ts";
import { ENGINE_CAUSE } from "../commit.ts";
import type { EventData } from "../../work/events.ts";
import type { Condition } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";
import { isActing, type Sensor, type SensorView, takesMessages } from "./sensor-view.ts";

/** How often the evaluation of a message is tried before it is recorded as failed. */
export const MESSAGE_ATTEMPTS_MAX = 5;
/** Longest pause between two tries, unless the sensor's own interval is longer. */
const BACKOFF_MS_MAX = 300_000;
const MESSAGE_BACKOFF_MS = 1_000;

/** How far the ledger was looked through without a hit; void once the sensor is another. */
export const Scanned = z.object({
  cursor: z.string().nullable(),
  spec_hash: z.string(),
  through: Count,
});
export type Scanned = z.infer<typeof Scanned>;

/** What the probe of a poll sensor or of a message remembers. */
export const ProbeMemory = z.object({
  /** Evaluations in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
  /** Evaluations of which nothing came, since something last did. */
  unchanged: Count.default(0),
  looked_at: InstantText.nullable().default(null),
  scanned: Scanned.nullable().default(null),
});
export type ProbeMemory = z.infer<typeof ProbeMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function memoryOf(value: Json): ProbeMemory {
  return ProbeMemory.safeParse(value ?? {}).data ?? ProbeMemory.parse({});
}

/** What a person asked to be evaluated. */
export const ManualRequest = z.object({
  request_id: z.string(),
  dry_run: z.boolean(),
  message: SensorMessage.nullable(),
  requested_at: InstantText,
});
export type ManualRequest = z.infer<typeof ManualRequest>;

/** The probe of a person's evaluation: what was asked, and what came of it once that is known. */
export type ManualValue = { request: ManualRequest; result: EvaluationResult | null };

/** The value of a person's probe; null when it is none. */
export function manualOf(value: Json): ManualValue | null {
  const parsed = z.object({ request: ManualRequest, result: z.json() }).safeParse(value);
  return parsed.success ? (parsed.data as unknown as ManualValue) : null;
}

/** How long the probe of a person's evaluation is kept. */
export const MANUAL_KEPT_MS = 600_000;

/** Whether nobody will ask for a person's evaluation any more. */
export function isOver(value: Json, now: Instant): boolean {
  const manual = manualOf(value);
  return manual === null || addMs(manual.request.requested_at, MANUAL_KEPT_MS) <= now;
}

/** When a poll sensor is looked at again: after its interval, and later the more often it failed. */
export function nextLookAt(now: Instant, minIntervalMs: number, failures: number): Instant {
  const longest = Math.max(minIntervalMs, BACKOFF_MS_MAX);
  return addMs(now, Math.min(minIntervalMs * 2 ** Math.min(failures, 30), longest));
}

/** When the evaluation of a message is tried again. */
export function nextTryAt(now: Instant, failures: number): Instant {
  return addMs(now, Math.min(MESSAGE_BACKOFF_MS * 2 ** failures, BACKOFF_MS_MAX));
}

/** The probe of a poll sensor. */
export function pollProbeId(sensorId: string): string {
  return `sensor:${sensorId}`;
}

/** The probe of a message. */
export function messageProbeId(sensorId: string, messageId: string): string {
  return `message:${sensorId}:${messageId}`;
}

/** The id of the message that a probe is about. */
export function messageIdOf(probe: { probe_id: string; subject: string }): string {
  return probe.probe_id.slice(messageProbeId(probe.subject, "").length);
}

/** The probe of a person's evaluation. */
export function manualProbeId(sensorId: string, requestId: string): string {
  return `manual:${sensorId}:${requestId}`;
}

/** Whether the actor may say what came of a probe: it leased it, or is the server itself. */
export function isLeasedBy({ leased_by }: Pick<Probe, "leased_by">, actor: Actor): boolean {
  return actor === ENGINE_CAUSE.actor || leased_by === holderOf(actor);
}

/** Pending messages that one look compares with their probes, and those that one read brings. */
const MESSAGES_MAX = 10_000;
const PAGE = 1_000;
/** Most probes that a look goes through for those that nobody needs any more. */
const PROBES_MAX = 10_000;

/** How long it may take to forget what is over. */
const LEASE_MS = 30_000;

/** Events after which probes may be missing, or be too many. */
export const KEEPER_EVENTS = [
  "SensorMessageReceived",
  "SensorPaused",
  "SensorResumed",
  "SensorCursorReset",
  "DefinitionsPublished",
] as const;

/**
 * Keeps the probes of sensors in step with the rows: one for each poll sensor that acts, and one for
 * each message that waits for a sensor that acts. Probes may be lost at any time; all are made again
 * from the rows. Writes only what differs.
 */
export class ProbeKeeper {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #view: SensorView;
  /** Where the next look at pending messages goes on; 0 for the beginning. */
  #messagesFrom = 0;
  readonly #changed = new Set<string>();
  readonly #hurried = new Set<string>();
  readonly #messages: { sensor_id: string; message_id: string; at: Instant }[] = [];
  /** Everything is to be compared at the next step. */
  isSweepDue = true;

  constructor(store: Store, ws: WorkspaceId, view: SensorView) {
    this.#store = store;
    this.#ws = ws;
    this.#view = view;
  }

  /** Notes what an event may mean for probes; answers whether it means anything. */
  note(event: RecordedEvent): boolean {
    switch (event.type) {
      case "SensorMessageReceived": {
        const { sensor_id, message_id } = JSON.parse(event.data) as EventData<typeof event.type>;
        this.#messages.push({ sensor_id, message_id, at: event.occurred_at });
        return true;
      }
      case "SensorPaused":
      case "SensorResumed":
      case "SensorCursorReset": {
        const { sensor_id } = JSON.parse(event.data) as { sensor_id: string };
        this.#view.forget();
        this.#changed.add(sensor_id);
        this.#hurried.add(sensor_id);
        return true;
      }
      case "DefinitionsPublished": {
        const { specs } = JSON.parse(event.data) as EventData<typeof event.type>;
        for (const { entity } of specs) if (entity) this.#hurried.add(entity.id);
        this.#view.forget();
        this.isSweepDue = true;
        return true;
      }
      default:
        return false;
    }
  }

  /** Makes the probes that are missing and forgets those that nobody needs. */
  async step(): Promise<void> {
    const now = await this.#store.now();
    const isSweep = this.isSweepDue;
    this.isSweepDue = false;
    const changed = take(this.#changed);
    const hurried = take(this.#hurried);
    const messages = this.#messages.splice(0);
    try {
      await this.#addMessages(messages);
      if (changed.length > 0) await this.#refresh(changed, now);
      if (isSweep) await this.#sweep(now);
      if (hurried.length > 0) await this.#hurry(hurried, now);
    } catch (error) {
      // What was noted is lost with this step: the next one compares everything.
      this.isSweepDue = true;
      throw error;
    }
  }

  async #addMessages(
    messages: readonly { sensor_id: string; message_id: string; at: Instant }[],
  ): Promise<void> {
    if (messages.length === 0) return;
    const ids = messages.map(({ sensor_id }) => sensor_id);
    const sensors = await this.#read((reader) => this.#view.byId(reader, ids));
    const probes = messages.flatMap(({ sensor_id, message_id, at }) => {
      const sensor = sensors.get(sensor_id);
      const isWanted = sensor !== undefined && takesMessages(sensor);
      return isWanted ? [ofMessage(sensor_id, message_id, at)] : [];
    });
    if (probes.length > 0) await this.#store.addProbes(this.#ws, probes);
  }

  /** Brings the probes of some sensors in step. */
  async #refresh(ids: readonly string[], now: Instant): Promise<void> {
    const sensors = await this.#read((reader) => this.#view.byId(reader, ids));
    for (const id of ids) {
      const sensor = sensors.get(id);
      if (sensor === undefined) await this.#forget(["poll", "message", "manual"], id);
      else if (!isActing(sensor)) await this.#forget(["poll", "message"], id);
      else if (sensor.row.mode === "poll") await this.#addMissing([ofSensor(sensor, now)]);
      else await this.#addPending([{ cell: "sensor_id", is: "=", value: id }], 0);
    }
  }

  async #forget(kinds: readonly ProbeKind[], id: string): Promise<void> {
    await this.#store.removeProbes(this.#ws, kinds, id);
  }

  async #sweep(now: Instant): Promise<void> {
    this.#view.forget();
    const sensors = await this.#read((reader) => this.#view.living(reader));
    const polled = sensors.filter((sensor) => sensor.row.mode === "poll" && isActing(sensor));
    await this.#addMissing(polled.map((sensor) => ofSensor(sensor, now)));
    const waiting = sensors.some(({ row }) => row.messages_pending > 0);
    if (waiting) this.#messagesFrom = await this.#addPending([], this.#messagesFrom);
    await this.#forgetNeedless("poll", new Set(polled.map(({ row }) => row.sensor_id)));
    const pushed = sensors.filter(takesMessages);
    await this.#forgetNeedless("message", new Set(pushed.map(({ row }) => row.sensor_id)));
    await this.#forgetNeedless("manual", new Set(sensors.map(({ row }) => row.sensor_id)));
    await this.#forgetOld(now);
  }

  /** Forgets evaluations that somebody asked for long ago, also when no worker ever came for them. */
  async #forgetOld(now: Instant): Promise<void> {
    const probes = await this.#read((reader) => reader.probesOf("manual", null, PROBES_MAX));
    const subjects = new Set(
      probes.filter(({ value }) => isOver(value, now)).map(({ subject }) => subject),
    );
    if (subjects.size === 0) return;
    // Only what is leased can be ended one by one; what is not over yet is given back as it was.
    const terms = { limit: PROBES_MAX, ttlMs: LEASE_MS, holder: null };
    const claim = { kinds: ["manual"], ...terms } as const;
    const leased = await this.#store.leaseProbes(this.#ws, { ...claim, subjects: [...subjects] });
    const ends = leased.map(({ probe_id, attempt, due_at, value }) => {
      return { probe_id, attempt, due_at: isOver(value, now) ? null : due_at, value };
    });
    await this.#store.settleProbes(this.#ws, ends);
  }

  async #forgetNeedless(kind: ProbeKind, needed: ReadonlySet<string>): Promise<void> {
    const probes = await this.#read((reader) => reader.probesOf(kind, null, PROBES_MAX));
    const subjects = new Set(probes.map(({ subject }) => subject));
    for (const subject of subjects) if (!needed.has(subject)) await this.#forget([kind], subject);
  }

  /** Makes probes for messages that wait; answers where the next look goes on. */
  async #addPending(where: readonly Condition[], from: number): Promise<number> {
    let after = from;
    for (let seen = 0; seen < MESSAGES_MAX; seen += PAGE) {
      const { messages, sensors } = await this.#read((reader) =>
        this.#pending(reader, where, after),
      );
      await this.#addMissing(
        messages.flatMap(({ sensor_id, message_id, received_at }) => {
          const sensor = sensors.get(sensor_id);
          const isWanted = sensor !== undefined && takesMessages(sensor);
          return isWanted ? [ofMessage(sensor_id, message_id, received_at)] : [];
        }),
      );
      const last = messages.at(-1);
      if (last === undefined || messages.length < PAGE) return 0;
      after = last.received_pos;
    }
    return after;
  }

  async #pending(reader: Reader, where: readonly Condition[], after: number) {
    const messages = await reader.find({
      table: TABLES.sensorMessages,
      where: [
        { cell: "state", is: "=", value: "PENDING" },
        { cell: "received_pos", is: ">", value: after },
        ...where,
      ],
      order: [{ cell: "received_pos" }],
      limit: PAGE,
    });
    const ids = messages.map(({ sensor_id }) => sensor_id);
    return { messages, sensors: await this.#view.byId(reader, ids) };
  }

  async #addMissing(wanted: readonly NewProbe[]): Promise<void> {
    if (wanted.length === 0) return;
    const ids = wanted.map(({ probe_id }) => probe_id);
    const present = await this.#read((reader) => reader.probes(ids));
    const known = new Set(present.map(({ probe_id }) => probe_id));
    const missing = wanted.filter(({ probe_id }) => !known.has(probe_id));
    if (missing.length > 0) await this.#store.addProbes(this.#ws, missing);
  }

  /** Lets sensors that somebody changed be looked at without waiting for their interval. */
  async #hurry(ids: readonly string[], now: Instant): Promise<void> {
    const probes = ids.map((id) => ({ probe_id: pollProbeId(id), due_at: now }));
    await this.#store.rescheduleProbes(this.#ws, probes);
  }

  #read<Result>(body: (reader: Reader) => Promise<Result>): Promise<Result> {
    return this.#store.read(this.#ws, body);
  }
}

function take<Item>(set: Set<Item>): Item[] {
  const items = [...set];
  set.clear();
  return items;
}

function ofSensor({ row }: Sensor, now: Instant): NewProbe {
  const { sensor_id } = row;
  const probe_id = pollProbeId(sensor_id);
  return { probe_id, kind: "poll", subject: sensor_id, due_at: now, value: null };
}

function ofMessage(sensor_id: string, message_id: string, at: Instant): NewProbe {
  const probe_id = messageProbeId(sensor_id, message_id);
  return { probe_id, kind: "message", subject: sensor_id, due_at: at, value: null };
}
