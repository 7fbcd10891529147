import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { createRouter } from "../../src/shards/router/create-router.ts";
import { makeShards, SHARD_CONFIG } from "../end-to-end/shard-files.ts";
import { type ServedProject, serveProject } from "./served-project.ts";

/** Serves a project with three shards in its folder, the first of which has fifty rows a table for each tenant. */
export async function serveShards(tenants: readonly string[]): Promise<ServedProject> {
  // The worker is another process, with another folder to start from.
  const here = SHARD_CONFIG.replaceAll('sqliteShard("', 'sqliteShard(import.meta.dirname + "/');
  const site = await serveProject(here);
  makeShards(site.folder, tenants);
  return site;
}

/** Between two writes, so that others have a turn. */
const PAUSE_MS = 25;

/** An application that writes all the while, through a router, and remembers what it was told. */
export class Application {
  readonly #site: ServedProject;
  readonly #tenant: string;
  readonly #dbs: Record<"a" | "b", Database.Database>;
  readonly #end = new AbortController();
  readonly #writing: Promise<void>;
  /** The ids of orders that were acknowledged. */
  readonly acknowledged: number[] = [];

  constructor(site: ServedProject, tenant: string, firstId: number) {
    this.#site = site;
    this.#tenant = tenant;
    const open = (shard: string) =>
      new Database(join(site.folder, `${shard}.db`), { timeout: 5_000 });
    this.#dbs = { a: open("a"), b: open("b") };
    this.#writing = this.#write(firstId);
  }

  async #write(firstId: number): Promise<void> {
    const router = createRouter({ client: this.#site.client, shards: this.#dbs, waitMs: 30_000 });
    for (let id = firstId; !this.#end.signal.aborted; id++) {
      await router.write(this.#tenant, (db) => {
        const insert = "insert into orders (id, tenant, total) values (?, ?, ?)";
        db.prepare(insert).run(id, this.#tenant, id);
      });
      this.acknowledged.push(id);
      await pause(PAUSE_MS);
    }
    await router.close();
  }

  /** Ends when the write under way has; fails when one was refused. */
  async stop(): Promise<void> {
    this.#end.abort();
    await this.#writing;
  }

  /** The ids of the tenant's orders on a shard, in order. */
  orders(shard: "a" | "b"): number[] {
    const query = "select id from orders where tenant = ? order by id";
    return this.#dbs[shard].prepare(query).pluck().all(this.#tenant) as number[];
  }

  close(): void {
    this.#dbs.a.close();
    this.#dbs.b.close();
  }
}
