import type { Handler } from "../call.ts";

/** What the server says about itself. */
export const HEALTH_HANDLERS: { livez: Handler<"livez">; readyz: Handler<"readyz"> } = {
  livez: () => Promise.resolve({ answer: { status: "ok" }, pos: null }),
  readyz({ server }) {
    const reasons = server.engines.flatMap((engine) => engine.status().last_error ?? []);
    if (server.stopping.aborted) reasons.push("The server is stopping.");
    const isReady = reasons.length === 0;
    const answer = {
      status: isReady ? "ok" : "unavailable",
      version: server.version,
      store: server.store.description,
      unsafe: server.store.unsafe,
      reasons,
      uptime_seconds: Math.floor(server.uptimeMs() / 1_000),
    };
    return Promise.resolve({ answer, pos: null, status: isReady ? 200 : 503 });
  },
};
