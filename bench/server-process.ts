import process from "node:process";
import { publishDefinitions } from "../src/work/definition/publish.ts";
import { Engine } from "../src/engine/engine.ts";
import { machineEnvironment } from "../src/engine/config.ts";
import { verifyTail } from "../src/engine/ledger/verify.ts";
import { LedgerWatch } from "../src/engine/ledger/watch.ts";
import { createApp } from "../src/server/http/app.ts";
import { startServer } from "../src/server/start-server.ts";
import { openBenchStore, type StorePlace } from "./open-bench-store.ts";
import { project } from "./project.ts";

/*
 * A server in a process of its own, put together as `pawl start` does it, without a worker. Says
 * its address when it listens, answers `usage`, and ends with `stop` or with its parent.
 */

/** What a server is started with. */
export type ServerOptions = StorePlace & {
  port: number;
  /** Reads its ledger again while it is served, as `pawl start` does: a start checks only what came since. */
  isWatched?: boolean;
};

/** What a server says to its parent. */
export type FromServer =
  | { type: "listening"; url: string }
  | { type: "usage"; rssPeakBytes: number; cpuMs: number; commits: number };

const options = JSON.parse(process.argv[2] ?? "{}") as ServerOptions;
const store = await openBenchStore(options);
const workspace = await store.workspace("default", "default");
await verifyTail(store, workspace);
const log = { error: (fields: object, message: string) => console.error(message, fields) };
const engine = await Engine.open({
  store,
  tenantId: "default",
  workspaceId: "default",
  environment: machineEnvironment((message, details) => console.error(message, details)),
});
const app = createApp({ engines: [engine], store, auth: { required: false }, log, version: "0" });
const server = await startServer({ app, host: "127.0.0.1", port: options.port });
await engine.submit(
  publishDefinitions({ origin: "code", specs: [...project.specs], prune: true }),
  { actor: { principal: "bench", token_id: null }, correlationId: "bench" },
);
engine.start();
const watch = new LedgerWatch({
  store,
  workspace,
  elapsedMs: () => performance.now(),
  warn: log.error,
  error: log.error,
});
if (options.isWatched === true) watch.start();
say({ type: "listening", url: server.url });

process.on("disconnect", () => process.exit(0));
process.on("message", (message) => {
  if (message === "usage") {
    const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
    const cpuMs = (userCPUTime + systemCPUTime) / 1_000;
    const { commits } = engine.status();
    say({ type: "usage", rssPeakBytes: maxRSS * 1_024, cpuMs, commits });
  } else if (message === "stop") void stop();
});

async function stop(): Promise<void> {
  await server.stop(1_000);
  await watch.stop();
  await engine.stop();
  await store.close();
  process.exit(0);
}

function say(message: FromServer): void {
  process.send?.(message);
}
