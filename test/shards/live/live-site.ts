import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Client, createClient } from "../../../src/client/client.ts";
import type { PlanSplitBody } from "../../../src/work/split/api.ts";
import type { AnswerOf } from "../../../src/work/operations.ts";
import type { EventData, EventType } from "../../../src/work/events.ts";
import type { z } from "zod";
import {
  openSite,
  type PawlProcess,
  removeSite,
  runCommand,
  type Site,
  startServer,
  startWorker,
  untilReady,
} from "../../faults/pawl-process.ts";
import { ForkedProcess } from "./forked-process.ts";
import type { FromKillingWorker, ToKillingWorker } from "./killing-worker.ts";
import type { LoadOptions, LoadSaid } from "./live-load.ts";
import type { ToLoad } from "./load-process.ts";
import { type LiveTables, openLiveTables, type Stock } from "./live-tables.ts";
import { type LiveShardName, type LiveShards, LIVE_SETTINGS } from "./project/live-settings.ts";
import { differences } from "./tenant-book.ts";

const CONFIG = fileURLToPath(new URL("./project/pawl.config.ts", import.meta.url));

/** What a killed worker had is free again after this. */
const LEASE_MS = 4_000;

/** A split as the API shows it. */
export type LiveSplit = AnswerOf<"getSplit">;

/** Whether a split is cut over and its way back is open. */
export function isReversible({ phase, wanted, step }: LiveSplit): boolean {
  return phase === "reversible" && wanted === null && step?.step === "reverse";
}

/** What a site has, and where. */
export type LiveSiteOptions = Stock & {
  /** The databases of the shards; SQLite files of the site unless given. */
  databases?: readonly [east: string, west: string];
};

type FromLoad =
  | { type: "started" }
  | { type: "said"; said: LoadSaid }
  | { type: "stopped"; said: LoadSaid };

/** A load that runs in a process of its own. */
export type RunningLoad = ForkedProcess<FromLoad, ToLoad>;

/** Two shards, a server and workers in processes of their own, and a load on the shards. */
export class LiveSite {
  readonly client: Client;
  readonly tables: Readonly<Record<LiveShardName, LiveTables>>;
  readonly shards: LiveShards;
  readonly stock: Stock;
  readonly #site: Site;
  #server: PawlProcess | null = null;
  readonly #workers = new Set<PawlProcess | ForkedProcess<FromKillingWorker, ToKillingWorker>>();
  readonly #started: { name: string; stderr: string }[] = [];
  #load: RunningLoad | null = null;

  private constructor(site: Site, shards: LiveShards, stock: Stock) {
    this.#site = site;
    this.shards = shards;
    this.stock = stock;
    this.tables = { east: openLiveTables(shards.east), west: openLiveTables(shards.west) };
    const retryDelaysMs = Array.from({ length: 240 }, () => 250);
    this.client = createClient({ url: site.url, retryDelaysMs });
  }

  /** Makes a site with tables and tenants; nothing runs there yet. */
  static async open({ databases, ...stock }: LiveSiteOptions): Promise<LiveSite> {
    const site = await openSite({ config: CONFIG, leaseMs: LEASE_MS });
    const addressOf = (name: LiveShardName, at: number): LiveShards["east"] => {
      const connectionString = databases?.[at];
      return connectionString === undefined
        ? { type: "sqlite", file: join(site.directory, `${name}.db`) }
        : { type: "postgres", connectionString };
    };
    const shards = { east: addressOf("east", 0), west: addressOf("west", 1) };
    const env = { ...site.env, [LIVE_SETTINGS]: JSON.stringify(shards) };
    const live = new LiveSite({ ...site, env }, shards, stock);
    await live.tables.east.make(stock);
    await live.tables.west.make(null);
    return live;
  }

  /** Makes a site whose server listens, with everybody routed to the shard `east`. */
  static async start(options: LiveSiteOptions): Promise<LiveSite> {
    const live = await LiveSite.open(options);
    await live.startServer();
    await live.client.call("changeRouting", { body: { default_shard: "east" } });
    return live;
  }

  /** Starts the server, again if it was killed, and waits until it listens. */
  async startServer({ worker = false } = {}): Promise<void> {
    this.#server = startServer(this.#site, worker ? [] : ["--no-worker"]);
    this.#started.push(this.#server);
    await untilReady(this.#server);
  }

  async killServer(): Promise<void> {
    await this.#server?.kill();
  }

  startWorker(): void {
    const worker = startWorker(this.#site);
    this.#workers.add(worker);
    this.#started.push(worker);
  }

  /** Starts a worker that stands still at points; a broken one reads changes wrongly. */
  startKillingWorker(points: ToKillingWorker["points"], { broken = false } = {}) {
    const env = { ...this.#site.env };
    const worker = new ForkedProcess<FromKillingWorker, ToKillingWorker>("killing-worker.ts", env, [
      this.#site.url,
      CONFIG,
      ...(broken ? ["broken"] : []),
    ]);
    this.#workers.add(worker);
    this.#started.push({
      name: "killing worker",
      get stderr() {
        return worker.stderr;
      },
    });
    worker.tell({ points });
    return worker;
  }

  async killWorkers(): Promise<void> {
    const workers = [...this.#workers];
    this.#workers.clear();
    await Promise.all(workers.map((worker) => worker.kill()));
  }

  /** Has all tenants written to until it is stopped. */
  async startLoad(options: Partial<LoadOptions> = {}): Promise<RunningLoad> {
    const load: RunningLoad = new ForkedProcess("load-process.ts", this.#site.env);
    this.#load = load;
    this.#started.push({
      name: "load",
      get stderr() {
        return load.stderr;
      },
    });
    load.tell({
      type: "start",
      options: {
        ...this.stock,
        url: this.#site.url,
        shards: this.shards,
        writesPerSecond: 200,
        seed: 1,
        waitMs: 5_000,
        underWayMax: 24,
        repeatableRead: 0,
        rolledBack: 0.05,
        long: 0,
        longMs: 0,
        ...options,
      },
    });
    await load.heard("started");
    return load;
  }

  /** Stops the load, and says what it was told and where the shards differ from that. */
  async settle(
    load: RunningLoad,
    ownerOf: (tenant: string) => LiveShardName | Promise<LiveShardName>,
  ): Promise<{ said: LoadSaid; mismatches: string[] }> {
    load.tell({ type: "stop" });
    const { said } = await load.heard("stopped");
    const mismatches: string[] = [];
    for (const book of said.books) {
      const owner = await ownerOf(book.tenant);
      const rows = await this.tables[owner].rowsOf(book.tenant);
      mismatches.push(...differences(book, rows).map((each) => `${owner}: ${each}`));
    }
    return { said, mismatches };
  }

  /** Where the routing has a tenant. */
  async ownerOf(tenant: string): Promise<LiveShardName> {
    const { shard } = await this.client.call("getRoute", { query: { tenant } });
    return shard === "west" ? "west" : "east";
  }

  async plan(
    tenants: readonly string[],
    more: Partial<z.input<typeof PlanSplitBody>> = {},
  ): Promise<string> {
    const body = { source: "east", target: "west", tenants: [...tenants], grace_ms: 0, ...more };
    return (await this.client.call("planSplit", { body })).split_id;
  }

  split(split: string): Promise<LiveSplit> {
    return this.client.call("getSplit", { params: { split } });
  }

  /** What the events of a type say, from the first on. */
  async events<Type extends EventType>(type: Type): Promise<EventData<Type>[]> {
    const found: EventData<Type>[] = [];
    for (let after: number | null = 0; after !== null; ) {
      const query = { type, limit: 200, after };
      const page: AnswerOf<"listEvents"> = await this.client.call("listEvents", { query });
      for (const { data } of page.items) found.push(data as EventData<Type>);
      after = page.next_after;
    }
    return found;
  }

  /** Runs a command of `pawl` in a process of its own. */
  pawl(...args: string[]): ReturnType<typeof runCommand> {
    return runCommand(this.#site, [...args, "--url", this.#site.url]);
  }

  /** What a process complained of that no kill excuses. */
  complaints(): string[] {
    const lines = this.#started.flatMap(({ stderr }) => stderr.split("\n"));
    return lines.filter((line) => /commit failed|assertion|"code":"INTERNAL"/i.test(line));
  }

  /** The last that processes wrote, for a test that failed. */
  output(): string {
    return this.#started.map(({ name, stderr }) => `${name}: ${stderr.slice(-2_000)}`).join("\n");
  }

  async close(): Promise<void> {
    await Promise.all([this.#load?.kill(), this.killWorkers(), this.killServer()]);
    await Promise.all([this.tables.east.close(), this.tables.west.close()]);
    removeSite(this.#site);
  }
}
