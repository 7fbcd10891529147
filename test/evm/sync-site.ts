import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Address } from "viem";
import { type Client, createClient } from "../../src/client/client.ts";
import type { AnswerOf } from "../../src/work/operations.ts";
import type { SyncDocument } from "../../src/work/sync/documents.ts";
import type { EventData, EventType } from "../../src/work/events.ts";
import {
  openSite,
  type PawlProcess,
  removeSite,
  type Site,
  startServer,
  startWorker,
  untilReady,
} from "../faults/pawl-process.ts";
import { SYNC_SETTINGS, type SyncSettings } from "./sync-project/sync-settings.ts";
import { openTransferTable, type TransferTable } from "./transfer-table.ts";

const CONFIG = fileURLToPath(new URL("./sync-project/pawl.config.ts", import.meta.url));

/** The shortest that there is: what a killed worker had is free again after this. */
const LEASE_MS = 6_000;

/** What is synced: transfers of a wallet, from one of the networks. */
export type WalletTarget = { network: string; wallet: Address };

/** How a site's sync is to be. */
export type SyncSiteOptions = Pick<SyncSettings, "token" | "nodes"> &
  Partial<Pick<SyncSettings, "verify" | "requestTimeoutMs" | "options">> & {
    /** Tasks that a worker runs at once. */
    concurrency?: number;
  };

/** A server and workers in processes of their own, that keep transfers in step with nodes. */
export class SyncSite {
  readonly table: TransferTable;
  readonly client: Client;
  readonly #site: Site;
  #server: PawlProcess | null = null;
  readonly #workers = new Set<PawlProcess>();
  readonly #started: PawlProcess[] = [];

  private constructor(site: Site, file: string) {
    this.#site = site;
    this.table = openTransferTable(file);
    // The server may be killed at any time, and is there again soon, unless it is killed again.
    const retryDelaysMs = Array.from({ length: 240 }, () => 250);
    this.client = createClient({ url: site.url, retryDelaysMs });
  }

  /** Makes a site; nothing runs there yet. */
  static async open({ concurrency = 16, ...options }: SyncSiteOptions): Promise<SyncSite> {
    const site = await openSite({ config: CONFIG, leaseMs: LEASE_MS });
    const file = join(site.directory, "transfers.db");
    const settings: SyncSettings = {
      verify: false,
      requestTimeoutMs: 10_000,
      options: {},
      ...options,
      file,
    };
    const env = {
      ...site.env,
      [SYNC_SETTINGS]: JSON.stringify(settings),
      PAWL_CONCURRENCY: String(concurrency),
    };
    return new SyncSite({ ...site, env }, file);
  }

  /** Makes a site with a server that listens and one worker. */
  static async start(options: SyncSiteOptions): Promise<SyncSite> {
    const site = await SyncSite.open(options);
    await site.startServer();
    site.startWorker();
    return site;
  }

  /** Starts the server, again if it was killed, and waits until it listens. */
  async startServer(): Promise<void> {
    this.#server = startServer(this.#site, ["--no-worker"]);
    this.#started.push(this.#server);
    await untilReady(this.#server);
  }

  startWorker(): PawlProcess {
    const worker = startWorker(this.#site);
    this.#workers.add(worker);
    this.#started.push(worker);
    return worker;
  }

  async killServer(): Promise<void> {
    await this.#server?.kill();
  }

  async killWorkers(): Promise<void> {
    const workers = [...this.#workers];
    this.#workers.clear();
    await Promise.all(workers.map((worker) => worker.kill()));
  }

  /** Adds a wallet; answers the id of its sync. */
  async add(target: WalletTarget): Promise<string> {
    const body = { name: "transfers", target };
    return (await this.client.call("addSync", { body })).sync_id;
  }

  sync(syncId: string): Promise<SyncDocument> {
    return this.client.call("getSync", { params: { sync: syncId } });
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
    await Promise.all([this.killWorkers(), this.killServer()]);
    this.table.close();
    removeSite(this.#site);
  }
}
