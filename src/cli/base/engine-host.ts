import { openPostgresStore } from "../../store/postgres/store.ts";
import { openSqliteStore } from "../../store/sqlite/store.ts";
import type { Store } from "../../store/store.ts";
import { databasePath, type ProjectFiles } from "./project.ts";
import { type Client, createClient } from "../../client/client.ts";
import { Engine } from "../../engine/engine.ts";
import { machineEnvironment } from "../../engine/config.ts";
import { LedgerWatch } from "../../engine/ledger/watch.ts";
import type { SaidLimits } from "../../engine/budgets.ts";
import { verifyTail } from "../../engine/ledger/verify.ts";
import { type App, type AppOptions, createApp } from "../../server/http/app.ts";
import { NotificationSender, outletsOf } from "../../server/webhooks/sender.ts";
import { Sampler } from "../../server/sampler.ts";
import type { ServerLog } from "../../server/start-server.ts";
import { packageVersion } from "../package-version.ts";

/** Opens the store that a project is configured for, and brings its schema up to date. */
export function openStore(
  project: ProjectFiles,
  warn: (sentence: string) => void = () => undefined,
): Promise<Store> {
  const { database_url: url, unsafe } = project.config;
  if (url !== null) return openPostgresStore({ url, unsafe });
  const elapsedMs = (): number => performance.now();
  return openSqliteStore({ path: databasePath(project), clock: Date.now, elapsedMs, warn });
}

/** Where the engine and the server write what an operator should know. */
export interface HostLog extends ServerLog {
  warn(fields: object, message: string): void;
}

/** An engine in this process, on the project's own store. */
export interface EngineHost {
  readonly store: Store;
  readonly engine: Engine;
  /** Tells webhooks of outcomes, once it is started. */
  readonly notifications: NotificationSender;
  /** Keeps by time how much is done and how much waits, once it is started. */
  readonly sampler: Sampler;
  /** Reads the ledger again for damage, once it is started. */
  readonly ledgerWatch: LedgerWatch;
  /** Calls the API in this process, without an address and without a token. */
  readonly client: Client;
  /** The API to be served: the same engine, with the configured demand for tokens and names. */
  createServedApp(auth: AppOptions["auth"]): App;
  close(): Promise<void>;
}

/** The address that requests within the process pretend to go to. */
const OWN_URL = "http://127.0.0.1";

const DAY_MS = 24 * 3_600_000;

/** How much of what tasks say is kept, as configured. */
function saidLimitsOf(config: ProjectFiles["config"]): SaidLimits {
  return {
    checkpointBytesMax: config.checkpoint_bytes_max,
    checkpointBytesRunMax: config.checkpoint_bytes_run_max,
    checkpointsBytesMax: config.checkpoints_bytes_max,
    logBytesRunMax: config.log_bytes_run_max,
    logBytesHourlyMax: config.log_bytes_hourly_max,
    logsBytesMax: config.logs_bytes_max,
    logsKeptMs: config.logs_kept_days * DAY_MS,
  };
}

/** How often it is said how far a refold has got. */
const REFOLD_TOLD_MS = 2_000;

/** Says now and then, and at the end, how far the rows have been made anew after an upgrade. */
function tellOfRefold(log: HostLog): (pos: number, head: number) => void {
  let dueMs = 0;
  return (pos, head) => {
    if (pos < head && performance.now() < dueMs) return;
    dueMs = performance.now() + REFOLD_TOLD_MS;
    log.warn(
      { pos, head },
      "An older version of Pawl wrote this database. Its state is made anew from the ledger, once: " +
        `${pos} of ${head} events.`,
    );
  };
}

/** Opens the project's store and an engine on it, which does not act by itself yet. */
export async function openEngineHost(project: ProjectFiles, log: HostLog): Promise<EngineHost> {
  const { tenant_id, workspace_id, lease_ms } = project.config;
  const store = await openStore(project, (sentence) => log.warn({}, sentence));
  try {
    const workspace = await store.workspace(tenant_id, workspace_id);
    const damage = await verifyTail(store, workspace);
    if (damage !== null) log.error({ ...damage }, "This workspace is served for reading only.");
    const engine = await Engine.open({
      store,
      tenantId: tenant_id,
      workspaceId: workspace_id,
      environment: machineEnvironment((message, details) => log.warn(details, message)),
      leaseMs: lease_ms,
      saidLimits: saidLimitsOf(project.config),
      onRefold: tellOfRefold(log),
    });
    const warn = (fields: object, message: string) => log.warn(fields, message);
    const outlets = outletsOf(project.config);
    const notifications = new NotificationSender({ store, engine, outlets, warn });
    const sampler = new Sampler({ store, engine, warn });
    const ledgerWatch = new LedgerWatch({
      store,
      workspace,
      elapsedMs: () => performance.now(),
      warn,
      error: (fields, message) => log.error(fields, message),
    });
    const createServedApp = (auth: AppOptions["auth"]): App =>
      createApp({
        engines: [engine],
        store,
        auth,
        log,
        version: packageVersion(),
        outlets,
        notifications: [notifications],
        ledgerWatches: [ledgerWatch],
      });
    const own = createServedApp({ required: false });
    let isClosed = false;
    const fetch = async (request: Request): Promise<Response> => {
      // Who still follows something hears that nobody answers any more, as over a socket.
      if (isClosed) throw new Error("it was stopped");
      return own.fetch(request);
    };
    return {
      store,
      engine,
      notifications,
      sampler,
      ledgerWatch,
      createServedApp,
      client: createClient({ url: OWN_URL, fetch }),
      async close() {
        isClosed = true;
        own.stop();
        await engine.stop();
        await sampler.stop();
        await ledgerWatch.stop();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}
