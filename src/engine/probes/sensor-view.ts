import { readInTurn } from "../asking.ts";
import { type Instant, msBetween } from "../../kernel/instant.ts";
import type { Condition } from "../../kernel/table.ts";
import type { NewProbe, Reader, Store, WorkspaceId } from "../../store/store.ts";
import type { RecordedEvent } from "../../work/envelope.ts";
import type { EventData, EventType } from "../../work/events.ts";
import {
  asSensorSpec,
  isActing,
  isManualOver,
  messageProbeId,
  type PolledSensor,
  polledSensor,
  pollProbeId,
  takesMessages,
} from "../../work/sensor/poll.ts";
import type { SensorMessageRow, SensorRow } from "../../work/sensor/rows.ts";
import { TABLES } from "../../work/tables.ts";
import type { PollChange } from "./polls.ts";
import { PROBES_READ_MAX, type ProbeTable, SpecCache } from "./probe-table.ts";
import type { EvaluationCounts } from "./sensor-polls.ts";

/** Most sensors that are looked at. */
const SENSORS_MAX = 10_000;

/** Reads sensors with their specs. */
export class SensorView {
  readonly #specs = new SpecCache(asSensorSpec, 2 * SENSORS_MAX);
  readonly #isFollowing: () => boolean;
  #known: PolledSensor[] | null = null;
  /** Grows whenever what is known may have become old. */
  #age = 0;

  /** What was read is kept while somebody says when sensors change. */
  constructor(isFollowing: () => boolean) {
    this.#isFollowing = isFollowing;
  }

  /** Sensors came, went, or were paused, resumed or published again. */
  forget(): void {
    this.#known = null;
    this.#age += 1;
  }

  /** All sensors that are not deleted; their counters, cursors and versions may be old. */
  async known(reader: Reader): Promise<readonly PolledSensor[]> {
    if (this.#known !== null) return this.#known;
    const age = this.#age;
    const sensors = await this.living(reader);
    if (this.#isFollowing() && age === this.#age) this.#known = sensors;
    return sensors;
  }

  /** All sensors that are not deleted. */
  async living(reader: Reader): Promise<PolledSensor[]> {
    const rows = await reader.find({
      table: TABLES.sensors,
      where: [{ cell: "state", is: "<>", value: "DELETED" }],
      order: [{ cell: "sensor_id" }],
      limit: SENSORS_MAX,
    });
    return this.#withSpecs(reader, rows);
  }

  /** Those of these sensors that are not deleted, by id. */
  async byId(reader: Reader, ids: readonly string[]): Promise<Map<string, PolledSensor>> {
    const keys = [...new Set(ids)].map((id) => [id]);
    const rows = await reader.load(TABLES.sensors, keys);
    const living = rows.filter(({ state }) => state !== "DELETED");
    const sensors = await this.#withSpecs(reader, living);
    return new Map(sensors.map((sensor) => [sensor.row.sensor_id, sensor]));
  }

  async #withSpecs(reader: Reader, rows: readonly SensorRow[]): Promise<PolledSensor[]> {
    const specs = await this.#specs.of(reader, rows);
    return rows.flatMap((row) => {
      const spec = specs.get(row.spec_hash);
      return spec === undefined ? [] : [polledSensor(row, spec)];
    });
  }
}

/** Probes that are looked at for the oldest one that waits. */
const LOOKED_AT_MAX = 100;

/** How sensors are doing. */
export type SensorStatus = {
  /** Evaluations by what came of them, since this server started. */
  evaluations: EvaluationCounts;
  /** When an evaluation was last reported here. */
  last_look_at: Instant | null;
  /** How long the poll sensor that waits longest is overdue. */
  poll_lag_ms: number;
  /** How old the oldest message is that waits for a sensor which acts. */
  message_lag_ms: number;
  messages_pending: number;
};

/** Reads how far sensors are behind. */
export async function sensorStatus(
  store: Store,
  ws: WorkspaceId,
  view: SensorView,
  evaluations: EvaluationCounts,
  last_look_at: Instant | null,
): Promise<SensorStatus> {
  const now = await store.now();
  return readInTurn(store, ws, async (reader) => {
    const sensors = await view.living(reader);
    const ofLedger = new Set(
      sensors.filter(({ isOfLedger }) => isOfLedger).map(({ row }) => row.sensor_id),
    );
    const probes = await reader.probesOf("poll", null, LOOKED_AT_MAX);
    // What watches the ledger is due all the time, and looked at when there is something.
    const overdue = probes.find(
      ({ due_at, leased_until, subject }) =>
        due_at <= now && (leased_until === null || leased_until <= now) && !ofLedger.has(subject),
    );
    const messages_pending = sensors.reduce((sum, { row }) => sum + row.messages_pending, 0);
    const behind = sensors
      .filter((sensor) => sensor.row.messages_pending > 0)
      .filter(takesMessages);
    const [oldest] =
      behind.length === 0
        ? []
        : await reader.find({
            table: TABLES.sensorMessages,
            where: [
              { cell: "state", is: "=", value: "PENDING" },
              { cell: "sensor_id", is: "in", values: behind.map(({ row }) => row.sensor_id) },
            ],
            order: [{ cell: "received_pos" }],
            limit: 1,
          });
    return {
      evaluations,
      last_look_at,
      poll_lag_ms: overdue === undefined ? 0 : msBetween(overdue.due_at, now),
      message_lag_ms: oldest === undefined ? 0 : msBetween(oldest.received_at, now),
      messages_pending,
    };
  });
}

/** Pending messages that one look compares with their probes, and those that one read brings. */
const MESSAGES_MAX = 10_000;
const PAGE = 1_000;
/** How long it may take to forget what is over. */
const LEASE_MS = 30_000;

/** Events after which probes may be missing, or be too many. */
export const SENSOR_PROBE_EVENTS = [
  "SensorMessageReceived",
  "SensorPaused",
  "SensorResumed",
  "SensorCursorReset",
  "DefinitionsPublished",
] as const satisfies readonly EventType[];

type Message = Pick<SensorMessageRow, "sensor_id" | "message_id" | "received_at">;

/**
 * The probes of sensors: one for each poll sensor that acts, and one for each message that waits for a
 * sensor that acts. Writes only what differs.
 */
export class SensorProbes {
  readonly #probes: ProbeTable;
  readonly #view: SensorView;
  /** Where the next look at pending messages goes on; 0 for the beginning. */
  #messagesFrom = 0;
  readonly #changed = new Set<string>();
  readonly #hurried = new Set<string>();
  readonly #messages: Message[] = [];

  constructor(probes: ProbeTable, view: SensorView) {
    this.#probes = probes;
    this.#view = view;
  }

  /** Notes what an event may mean for probes. */
  note(event: RecordedEvent): PollChange | null {
    switch (event.type) {
      case "SensorMessageReceived": {
        const { sensor_id, message_id } = JSON.parse(event.data) as EventData<typeof event.type>;
        this.#messages.push({ sensor_id, message_id, received_at: event.occurred_at });
        return "some";
      }
      case "SensorPaused":
      case "SensorResumed":
      case "SensorCursorReset": {
        const { sensor_id } = JSON.parse(event.data) as { sensor_id: string };
        this.#view.forget();
        this.#changed.add(sensor_id);
        this.#hurried.add(sensor_id);
        return "some";
      }
      case "DefinitionsPublished": {
        const { specs } = JSON.parse(event.data) as EventData<typeof event.type>;
        for (const { entity } of specs) if (entity) this.#hurried.add(entity.id);
        this.#view.forget();
        return "all";
      }
      default:
        return null;
    }
  }

  /** Makes the probes that are missing and removes those that nobody needs. */
  async refresh(isAll: boolean, now: Instant): Promise<void> {
    const changed = [...this.#changed];
    // Whoever changed a sensor need not wait for its interval.
    const hurried = [...this.#hurried].map(pollProbeId);
    const messages = this.#messages.splice(0);
    this.#changed.clear();
    this.#hurried.clear();
    await this.#addMessages(messages);
    if (changed.length > 0) await this.#refreshSome(changed, now);
    if (isAll) await this.#refreshAll(now);
    if (hurried.length > 0) await this.#probes.hurry(hurried, now);
  }

  async #addMessages(messages: readonly Message[]): Promise<void> {
    if (messages.length === 0) return;
    const ids = messages.map(({ sensor_id }) => sensor_id);
    const sensors = await this.#probes.read((reader) => this.#view.byId(reader, ids));
    await this.#probes.add(ofMessages(messages, sensors));
  }

  /** Brings the probes of some sensors in step. */
  async #refreshSome(ids: readonly string[], now: Instant): Promise<void> {
    const sensors = await this.#probes.read((reader) => this.#view.byId(reader, ids));
    for (const id of ids) {
      const sensor = sensors.get(id);
      if (sensor === undefined) await this.#probes.remove(["poll", "message", "manual"], id);
      else if (!isActing(sensor)) await this.#probes.remove(["poll", "message"], id);
      else if (sensor.row.mode === "poll") await this.#probes.addMissing([ofSensor(sensor, now)]);
      else await this.#addPending([{ cell: "sensor_id", is: "=", value: id }], 0);
    }
  }

  async #refreshAll(now: Instant): Promise<void> {
    this.#view.forget();
    const sensors = await this.#probes.read((reader) => this.#view.living(reader));
    const polled = sensors.filter((sensor) => sensor.row.mode === "poll" && isActing(sensor));
    await this.#probes.addMissing(polled.map((sensor) => ofSensor(sensor, now)));
    const waiting = sensors.some(({ row }) => row.messages_pending > 0);
    if (waiting) this.#messagesFrom = await this.#addPending([], this.#messagesFrom);
    await this.#probes.removeNeedless("poll", idsOf(polled));
    await this.#probes.removeNeedless("message", idsOf(sensors.filter(takesMessages)));
    await this.#forgetOld(now, idsOf(sensors));
  }

  /** Forgets evaluations that somebody asked for long ago, also when no worker ever came for them. */
  async #forgetOld(now: Instant, needed: ReadonlySet<string>): Promise<void> {
    const probes = await this.#probes.removeNeedless("manual", needed);
    const subjects = new Set(
      probes.filter(({ value }) => isManualOver(value, now)).map(({ subject }) => subject),
    );
    if (subjects.size === 0) return;
    // Only what is leased can be ended one by one; what is not over yet is given back as it was.
    const terms = { limit: PROBES_READ_MAX, ttlMs: LEASE_MS, holder: null };
    const claim = { kinds: ["manual"], subjects: [...subjects], ...terms } as const;
    const leased = await this.#probes.lease(claim);
    const ends = leased.map(({ probe_id, attempt, due_at, value }) => {
      return { probe_id, attempt, due_at: isManualOver(value, now) ? null : due_at, value };
    });
    await this.#probes.settle(ends);
  }

  /** Makes probes for messages that wait; answers where the next look goes on. */
  async #addPending(where: readonly Condition[], from: number): Promise<number> {
    let after = from;
    for (let seen = 0; seen < MESSAGES_MAX; seen += PAGE) {
      const { messages, sensors } = await this.#probes.read((reader) =>
        this.#pending(reader, where, after),
      );
      await this.#probes.addMissing(ofMessages(messages, sensors));
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
}

function idsOf(sensors: readonly PolledSensor[]): Set<string> {
  return new Set(sensors.map(({ row }) => row.sensor_id));
}

function ofSensor({ row }: PolledSensor, now: Instant): NewProbe {
  const { sensor_id } = row;
  const probe_id = pollProbeId(sensor_id);
  return { probe_id, kind: "poll", subject: sensor_id, due_at: now, value: null };
}

/** The probes of those of the messages that are wanted. */
function ofMessages(
  messages: readonly Message[],
  sensors: ReadonlyMap<string, PolledSensor>,
): NewProbe[] {
  return messages.flatMap(({ sensor_id, message_id, received_at }) => {
    const sensor = sensors.get(sensor_id);
    if (sensor === undefined || !takesMessages(sensor)) return [];
    const probe_id = messageProbeId(sensor_id, message_id);
    return [{ probe_id, kind: "message", subject: sensor_id, due_at: received_at, value: null }];
  });
}
