import { type Instant, msBetween } from "../core/instant.ts";
import type { SensorMessageRow } from "../core/rows/sensor-rows.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import type { EvaluationCounts } from "./probe-reports.ts";
import { type SensorView, takesMessages } from "./sensor-view.ts";

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
        : ((await reader.find({
            table: TABLES.sensorMessages,
            where: [
              { cell: "state", is: "=", value: "PENDING" },
              { cell: "sensor_id", is: "in", values: behind.map(({ row }) => row.sensor_id) },
            ],
            order: [{ cell: "received_pos" }],
            limit: 1,
          })) as SensorMessageRow[]);
    return {
      evaluations,
      last_look_at,
      poll_lag_ms: overdue === undefined ? 0 : msBetween(overdue.due_at, now),
      message_lag_ms: oldest === undefined ? 0 : msBetween(oldest.received_at, now),
      messages_pending,
    };
  });
}
