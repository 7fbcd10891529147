import { Counter, Gauge, type Registry } from "prom-client";
import type { Engine } from "../engine/engine.ts";
import type { SensorStatus } from "../engine/sensor-status.ts";

/** What sensors can be watched by: what came of evaluations here, and how far they are behind. */
export function sensorMetrics(registry: Registry, engine: Engine): void {
  const registers = [registry];
  const evaluations: Counter<"result"> = new Counter({
    name: "pawl_sensor_evaluations_total",
    help: "Evaluations of sensors that this server took in, by what came of them",
    labelNames: ["result"],
    registers,
    async collect() {
      evaluations.reset();
      const { evaluations: counts } = await engine.sensorStatus();
      for (const [result, count] of Object.entries(counts)) evaluations.inc({ result }, count);
    },
  });
  const gauges: [string, string, (status: SensorStatus) => number][] = [
    [
      "pawl_sensor_poll_lag_seconds",
      "How long the poll sensor that waits longest is overdue",
      ({ poll_lag_ms }) => poll_lag_ms / 1_000,
    ],
    [
      "pawl_sensor_message_lag_seconds",
      "Age of the oldest message that waits for a sensor which acts",
      ({ message_lag_ms }) => message_lag_ms / 1_000,
    ],
    [
      "pawl_sensor_messages_pending",
      "Messages that wait to be evaluated",
      ({ messages_pending }) => messages_pending,
    ],
  ];
  for (const [name, help, valueOf] of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: async () => gauge.set(valueOf(await engine.sensorStatus())),
    });
  }
}
