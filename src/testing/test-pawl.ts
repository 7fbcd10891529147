import process from "node:process";
import { packageVersion } from "../cli/package-version.ts";
import { type Client, createClient } from "../client/client.ts";
import { workWithin } from "../client/worker-connection.ts";
import type { Project } from "../define/define-pawl.ts";
import { machineEnvironment } from "../engine/config.ts";
import { Engine } from "../engine/engine.ts";
import type { Json } from "../kernel/canonical.ts";
import { PawlError } from "../kernel/errors.ts";
import { instantOf } from "../kernel/instant.ts";
import { createApp } from "../server/http/app.ts";
import { openSqliteStore } from "../store/sqlite/store.ts";
import { runWorker } from "../worker/run-worker.ts";
import { Recorder } from "./recorder.ts";
import type { TestOptions } from "./records.ts";
import { epochMsFrom, TestTime } from "./test-time.ts";

const LIMIT_MS = 3_600_000;
/** Longer than any function may run: what blocks the thread for a while loses no lease. */
const LEASE_MS = 3_600_000;
const OWN_URL = "http://127.0.0.1";
/** The middle of every jitter, so that delays are always the same. */
const NO_CHANCE = (): number => 0.5;

/** What is tried of a project: all else in it stands still, so that nothing else calls its code. */
export type Tried =
  | { kind: "assets" | "syncs" }
  | { kind: "sensors"; items: readonly Json[] | null }
  | { kind: "schedule"; name: string };

/** Runs the body with Pawl in memory: a ledger, the API, and a worker for what is tried. */
export async function withTestPawl<Answer>(
  project: Project,
  tried: Tried,
  options: TestOptions,
  body: (pawl: TestPawl) => Promise<Answer>,
): Promise<Answer> {
  const { now, limitMs = LIMIT_MS, prepare } = options;
  refuseLimit("limitMs", limitMs);
  refuseLimit("concurrency", options.concurrency ?? 1);
  const startMs = now === undefined ? Date.now() : epochMsFrom("now", now);
  const time = new TestTime(startMs, limitMs);
  const pawl = await TestPawl.open(onlyTried(project, tried), tried, time, options);
  try {
    if (prepare !== undefined) await pawl.during(prepare(pawl.client), "prepare()");
    return await body(pawl);
  } finally {
    await pawl.close();
  }
}

function refuseLimit(option: string, value: number): void {
  if (Number.isFinite(value) && value >= 1) return;
  throw new PawlError("INPUT_INVALID", `${option}: expected a number from 1, got ${value}.`, {
    details: { option },
  });
}

/** The project with the code of what is tried, and with nothing that acts by itself but a schedule. */
function onlyTried(project: Project, tried: Tried): Project {
  const { kind } = tried;
  const specs = project.specs.map((spec) => {
    if (spec.kind === "sensor") return { ...spec, enabled: false };
    const isTried = kind === "schedule" && spec.kind === "schedule" && spec.name === tried.name;
    return spec.kind === "schedule" ? { ...spec, enabled: isTried } : spec;
  });
  return {
    ...project,
    specs,
    functions: kind === "assets" ? project.functions : new Map(),
    sensors: kind === "sensors" ? project.sensors : new Map(),
    syncs: kind === "syncs" ? project.syncs : new Map(),
    shards: new Map(),
  };
}

/** Pawl in memory, with the time of a test: the engine, the API and the worker that servers have. */
export class TestPawl {
  readonly client: Client;
  readonly time: TestTime;
  readonly recorder: Recorder;
  readonly #close: () => Promise<void>;

  private constructor(
    client: Client,
    time: TestTime,
    recorder: Recorder,
    close: () => Promise<void>,
  ) {
    this.client = client;
    this.time = time;
    this.recorder = recorder;
    this.#close = close;
  }

  /** Opens it with the project published and a worker that has its code. */
  static async open(
    project: Project,
    tried: Tried,
    time: TestTime,
    { concurrency = 1, folder }: TestOptions,
  ): Promise<TestPawl> {
    const store = await openSqliteStore({
      path: ":memory:",
      clock: time.wallMs,
      elapsedMs: time.now,
    });
    const environment = {
      ...machineEnvironment(() => undefined),
      random: NO_CHANCE,
      elapsedMs: time.now,
      timer: time.after,
    };
    const ids = { tenantId: "default", workspaceId: "default" };
    const engine = await Engine.open({ store, ...ids, environment, leaseMs: LEASE_MS });
    const app = createApp({
      engines: [engine],
      store,
      auth: { required: false },
      log: { error: () => undefined },
      version: packageVersion(),
      now: () => instantOf(time.wallMs()),
    });
    let isClosed = false;
    const fetch = async (request: Request): Promise<Response> => {
      if (isClosed) throw new Error("the test is over");
      return app.fetch(request);
    };
    const client = createClient({ url: OWN_URL, fetch, retryDelaysMs: [] });
    const recorder = new Recorder(time, tried.kind === "sensors" ? tried.items : null);
    const controller = new AbortController();
    let working: Promise<void> = Promise.resolve();
    const close = async (): Promise<void> => {
      controller.abort();
      await time.during(working, "The worker");
      isClosed = true;
      app.stop();
      await time.during(engine.stop(), "The engine");
      await store.close();
    };
    const pawl = new TestPawl(client, time, recorder, close);
    try {
      const body = { origin: "code" as const, specs: [...project.specs], prune: true };
      await pawl.during(client.call("publishDefinitions", { body }), "Publishing");
      engine.start();
      working = runWorker({
        connection: recorder.listening(workWithin(client)),
        project: recorder.recorded(project),
        workerId: "test",
        codeVersion: null,
        logger: recorder.logger,
        signal: controller.signal,
        concurrency,
        clock: time,
        wallNow: time.wallMs,
        random: NO_CHANCE,
        environment: process.env,
        holding: (news) => recorder.held(news),
        ...(folder === undefined ? {} : { folder }),
      });
      // Looked at when the test is over.
      working.catch(() => undefined);
    } catch (error) {
      await close();
      throw error;
    }
    return pawl;
  }

  /** Lets time pass until the work is done. */
  during<Answer>(work: Promise<Answer>, what: string): Promise<Answer> {
    return this.time.during(work, what);
  }

  async close(): Promise<void> {
    await this.#close();
  }
}
