import { test } from "vitest";
import { publish, startApi } from "../end-to-end/api-server.ts";
test("refusals", async () => {
  const api = await startApi();
  await publish(api.client);
  const base = {
    name: "n",
    cron: "0 6 * * *",
    timezone: "UTC",
    asset_selection: ["report"],
    selection: { type: "whole" },
  };
  const cases: Record<string, object> = {
    cron: { cron: "0 6 * *" },
    cron2: { cron: "99 * * * *" },
    zone: { timezone: "Nowhere/x" },
    asset: { asset_selection: ["reprt"] },
    none: { asset_selection: [] },
    name: { name: "" },
    name2: { name: "a b" },
    bounds: { starts_at: "2026-01-02T00:00:00Z", ends_at: "2026-01-01T00:00:00Z" },
    prio: { priority: 101 },
    jitter: { jitter_ms: 9e9 },
    keys: { selection: { type: "explicit", partition_keys: [] } },
    time: { selection: { type: "tick_time", offset: 0 } },
    limit: { selection: { type: "stale", limit: 0 } },
    half: { max_catchup_ticks: 1.5 },
    offset: { selection: { type: "tick_time", offset: Number.NaN } },
    labels: { labels: { "": "x" } },
    never: { cron: "0 0 31 2 *" },
    whole: { asset_selection: ["sales/orders"] },
    explicit: {
      asset_selection: ["sales/orders"],
      selection: { type: "explicit", partition_keys: ["x"] },
    },
  };
  for (const [name, change] of Object.entries(cases)) {
    const r = await api.send("POST", "/api/v1/orchestration/schedules", {
      body: { ...base, ...change },
      headers: { "idempotency-key": name },
    });
    const j = await r.json();
    console.log(
      name,
      r.status,
      JSON.stringify({ code: j.code, detail: j.detail, errors: j.errors, details: j.details }),
    );
  }
  for (const t of [".", "..", "a/b", "a%20b", "é"]) {
    const r = await api.send("GET", `/api/v1/routing/routes/${encodeURIComponent(t)}`);
    console.log(t, r.status, (await r.text()).slice(0, 200));
  }
  await api.close();
});
