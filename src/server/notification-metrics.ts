import { Counter, Gauge, type Registry } from "prom-client";
import { type Instant, msBetween } from "../core/instant.ts";
import { deliveryOf } from "../engine/delivery.ts";
import type { Engine } from "../engine/engine.ts";
import type { NotificationSender } from "./notification-sender.ts";

/** Deliveries that are counted at most, those due soonest. */
const COUNTED_MAX = 10_000;

/** What webhooks can be watched by: what was told here, and what waits. */
export function notificationMetrics(
  registry: Registry,
  engine: Engine,
  sender: NotificationSender | null,
  now: () => Instant,
): void {
  const registers = [registry];
  if (sender !== null) {
    const deliveries: Counter<"outcome"> = new Counter({
      name: "pawl_webhook_deliveries_total",
      help: "Attempts of this server to tell a webhook, by outcome",
      labelNames: ["outcome"],
      registers,
      collect() {
        deliveries.reset();
        for (const [outcome, count] of Object.entries(sender.counts)) {
          deliveries.inc({ outcome }, count);
        }
      },
    });
  }
  const waiting: Gauge<"status"> = new Gauge({
    name: "pawl_webhook_deliveries_waiting",
    help: "What webhooks have still to tell, and what they could not",
    labelNames: ["status"],
    registers,
    async collect() {
      const { pending, failed } = await waitingOf(engine);
      waiting.set({ status: "pending" }, pending);
      waiting.set({ status: "failed" }, failed);
    },
  });
  const oldest: Gauge = new Gauge({
    name: "pawl_webhook_oldest_pending_seconds",
    help: "Age of the oldest that a webhook has still to tell",
    registers,
    async collect() {
      const { oldestAt } = await waitingOf(engine);
      oldest.set(oldestAt === null ? 0 : Math.max(0, msBetween(oldestAt, now())) / 1_000);
    },
  });
}

async function waitingOf(engine: Engine) {
  const probes = await engine.read((reader) => reader.probesOf("notification", null, COUNTED_MAX));
  const deliveries = probes.flatMap(({ value }) => deliveryOf(value) ?? []);
  const open = deliveries.filter(({ failed_at }) => failed_at === null);
  const [oldestAt = null] = open.map(({ created_at }) => created_at).toSorted();
  return { pending: open.length, failed: deliveries.length - open.length, oldestAt };
}
