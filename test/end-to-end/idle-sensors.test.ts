import { expect, test } from "vitest";
import { SensorSpec } from "../../src/work/definition/spec.ts";
import type { ProbeResult } from "../../src/work/probe-protocol.ts";
import { type Api, publish, startApi } from "./api-server.ts";

const SENSORS = 1_000;
const HOUR_MS = 3_600_000;

/** Looks for every sensor that is due, as a worker does that finds nothing new; answers how many were. */
async function lookForAll({ client }: Api): Promise<number> {
  let looks = 0;
  for (;;) {
    const { probes } = await client.call("claimProbes", {
      body: { worker_id: "worker", sensors: [], slots: 100, wait_ms: 0 },
    });
    if (probes.length === 0) return looks;
    const results = probes.map((probe): ProbeResult => {
      const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
      const outcome = { type: "evaluated" as const, cursor, run_requests: [] };
      return { probe_id, attempt, cursor, expected_state_version, poll_epoch, outcome };
    });
    await client.call("reportProbes", { body: { worker_id: "worker", results } });
    looks += results.length;
  }
}

test("I71: a day of a thousand poll sensors that find nothing adds no event", async () => {
  const api = await startApi({ clockAt: "2026-03-01T00:00:00.000Z", actsByItself: false });
  try {
    await publish(api.client);
    const specs = Array.from({ length: SENSORS }, (_, index) =>
      SensorSpec.parse({
        kind: "sensor",
        name: `s${index}`,
        mode: "poll",
        watch: { type: "files", folder: "inbox" },
        target: { asset_selection: ["report"] },
        min_interval_ms: HOUR_MS,
      }),
    );
    const { accepted_pos } = await api.client.call("publishDefinitions", { body: { specs } });
    for (let hour = 0; hour < 24; hour++) {
      await api.client.call("tick");
      expect(await lookForAll(api)).toBe(SENSORS);
      api.jump(HOUR_MS);
    }
    expect((await api.client.call("tick")).pos).toBe(accepted_pos);
  } finally {
    await api.close();
  }
});
