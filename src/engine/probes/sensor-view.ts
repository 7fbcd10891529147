import { type Instant, msBetween } from "../../kernel/instant.ts";
import type { Reader, Store, WorkspaceId } from "../../store/store.ts";
import {
  asSensorSpec,
  type PolledSensor,
  polledSensor,
  takesMessages,
} from "../../work/sensor/poll.ts";
import type { SensorRow } from "../../work/sensor/rows.ts";
import { TABLES } from "../../work/tables.ts";
import { SpecCache } from "./probe-table.ts";
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
  return store.read(ws, async (reader) => {
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
