import { setTimeout as pause } from "node:timers/promises";
import { type Client, type ClientOptions, createClient } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type HttpRead, HttpShardClient, type HttpWrite } from "../http/http-shard-client.ts";
import { httpRoutedShard } from "./http-routed-shard.ts";
import { type PostgresPool, postgresRoutedShard } from "./postgres-routed-shard.ts";
import { type Isolation, Refusal, type RoutedShard } from "./routed-shard.ts";
import { type SqliteDatabase, sqliteRoutedShard } from "./sqlite-routed-shard.ts";

/** A shard that `pawl shard serve` serves, as `httpShard()` names it. */
export type HttpShardAddress = {
  readonly type: "http";
  readonly url: string;
  readonly token: string;
};

/** What a router can reach a shard by: a `Pool` of pg, a `Database` of better-sqlite3, `httpShard()`. */
export type ShardConnection = PostgresPool | SqliteDatabase | HttpShardAddress;

/** What work that writes gets: a client of the pool, the database, or a batch of statements. */
export type WriteHandle<Connection> = Connection extends HttpShardAddress
  ? HttpWrite
  : DirectHandle<Connection>;

/** What work that reads gets: a client of the pool, the database, or queries. */
export type ReadHandle<Connection> = Connection extends HttpShardAddress
  ? HttpRead
  : DirectHandle<Connection>;

type DirectHandle<Connection> = Connection extends {
  // The pool of pg has a second form of `connect`, with a callback.
  connect: { (): Promise<infer Lent>; (callback: never): void };
}
  ? Lent
  : Connection extends { connect(): Promise<infer Lent> }
    ? Lent
    : Connection;

/** Whom to ask for routes, how to reach the shards, and how patient to be. */
export type RouterOptions<Shards extends Record<string, ShardConnection>> = (
  | { client: Client }
  | ClientOptions
) & {
  /** Every shard that tenants may be on, under its name in the routing. */
  shards: Shards;
  /** How long a transaction waits in all for a cutover that is under way (default: 5,000). */
  waitMs?: number | undefined;
  /** How old a route may get before it is asked for again, beside the work (default: 30,000). */
  refreshMs?: number | undefined;
  /** How writes in PostgreSQL are kept apart; the database's own default unless given. */
  isolation?: Isolation | undefined;
};

/** What a single write may have otherwise. */
export type WriteOptions = { isolation?: Isolation | undefined };

/** Runs an application's transactions on the shard where a tenant is, also while it moves. */
export interface Router<Shards extends Record<string, ShardConnection>> {
  /**
   * Runs work in one transaction on the tenant's shard and commits it. It is run again only if its
   * transaction was rolled back because the tenant has moved or is moving. What it throws rolls back
   * and passes through. `COMMIT_UNKNOWN` when nobody knows whether it was committed.
   */
  write<Result>(
    tenant: string,
    work: (handle: WriteHandle<Shards[keyof Shards]>) => Result,
    options?: WriteOptions,
  ): Promise<Awaited<Result>>;
  /** Runs work on one snapshot of the shard that the tenant is on; it may be run again. */
  read<Result>(
    tenant: string,
    work: (handle: ReadHandle<Shards[keyof Shards]>) => Result,
  ): Promise<Awaited<Result>>;
  /** Where a tenant is, as far as the router knows. */
  routeOf(tenant: string): Promise<Route>;
  /** Lets what is under way end; pools and databases stay open, as they are the application's. */
  close(): Promise<void>;
}

const WAIT_MS = 5_000;
const REFRESH_MS = 30_000;

/** Makes a router; nothing is asked for before the first tenant. Throws `CONFIG_INVALID`. */
export function createRouter<const Shards extends Record<string, ShardConnection>>(
  options: RouterOptions<Shards>,
): Router<Shards> {
  const { waitMs = WAIT_MS, refreshMs = REFRESH_MS, isolation = null } = options;
  const client = "client" in options ? options.client : createClient(options);
  const shards = new Map(
    Object.entries(options.shards).map(([name, shard]) => [name, routedShard(name, shard)]),
  );
  if (shards.size === 0) throw new PawlError("CONFIG_INVALID", "A router needs shards.");
  const book = new RouteBook((tenant) => client.call("getRoute", { query: { tenant } }), refreshMs);
  const underWay = new Set<Promise<unknown>>();
  let isClosed = false;

  async function run(
    tenant: string,
    attempt: (shard: RoutedShard, route: Route) => Promise<unknown>,
  ): Promise<never> {
    if (isClosed) throw new PawlError("STATE_ILLEGAL", "The router is closed.");
    checkTenant(tenant);
    const work = followRoute(book, tenant, waitMs, (route) =>
      attempt(shardOf(shards, route), route),
    );
    underWay.add(work);
    try {
      return (await work) as never;
    } finally {
      underWay.delete(work);
    }
  }

  return {
    write: (tenant, work, own = {}) =>
      run(tenant, (shard, { epoch }) =>
        shard.write({ tenant, epoch, isolation: own.isolation ?? isolation }, work),
      ),
    read: (tenant, work) =>
      run(tenant, (shard, { epoch }) => shard.read({ tenant, epoch, isolation: null }, work)),
    routeOf: (tenant) => book.routeOf(tenant),
    async close() {
      isClosed = true;
      await Promise.allSettled(underWay);
      for (const shard of shards.values()) await shard.close();
    },
  };
}

/** Tells the libraries apart by what they can do, so that none of them is loaded for it. */
function routedShard(name: string, shard: ShardConnection): RoutedShard {
  if ("type" in shard && shard.type === "http") {
    return httpRoutedShard(name, new HttpShardClient(shard));
  }
  if ("prepare" in shard && "inTransaction" in shard) return sqliteRoutedShard(name, shard);
  if ("connect" in shard) return postgresRoutedShard(name, shard);
  throw new PawlError(
    "CONFIG_INVALID",
    `Shard ${name} is nothing that a router knows. Give it a Pool of pg, a Database of ` +
      "better-sqlite3, or httpShard().",
    { details: { shard: name } },
  );
}

function shardOf(shards: ReadonlyMap<string, RoutedShard>, { tenant, shard }: Route): RoutedShard {
  const found = shards.get(shard);
  if (found !== undefined) return found;
  throw new PawlError(
    "SHARD_NOT_FOUND",
    `${JSON.stringify(tenant)} is on shard ${shard}, which this router does not know. It has ` +
      `${[...shards.keys()].join(", ")}: give it every shard that tenants may be on.`,
    { details: { tenant, shard } },
  );
}

function checkTenant(tenant: string): void {
  if (typeof tenant === "string" && tenant !== "") return;
  throw new PawlError(
    "INPUT_INVALID",
    `A tenant is named by a text that is not empty, not by ${JSON.stringify(tenant)}.`,
    { details: { tenant } },
  );
}

/** Where a tenant is, and since which version of the routing. */
export type Route = { readonly tenant: string; readonly shard: string; readonly epoch: number };

/** Most routes that are kept; the one that was learnt first goes first. */
const ROUTES_MAX = 100_000;

type Kept = { route: Route; learntAtMs: number };

/**
 * The routes that a router knows. A route that has become wrong does no harm, as the shard checks
 * its epoch; so it stays until something newer is heard of, also while the server is away.
 */
export class RouteBook {
  readonly #load: (tenant: string) => Promise<Route>;
  readonly #refreshMs: number;
  readonly #kept = new Map<string, Kept>();
  readonly #loading = new Map<string, Promise<Route>>();

  constructor(load: (tenant: string) => Promise<Route>, refreshMs: number) {
    this.#load = load;
    this.#refreshMs = refreshMs;
  }

  /** The route of a tenant, asked for when it is not known. Throws `SERVER_UNREACHABLE`. */
  async routeOf(tenant: string): Promise<Route> {
    const kept = this.#kept.get(tenant);
    if (kept === undefined) return this.reload(tenant);
    if (performance.now() - kept.learntAtMs >= this.#refreshMs) this.#refresh(kept);
    return kept.route;
  }

  /** Asks the server for the route of a tenant, once for all who ask at the same time. */
  async reload(tenant: string): Promise<Route> {
    const loading = this.#loading.get(tenant);
    if (loading !== undefined) return loading;
    const started = this.#load(tenant)
      .then((route) => this.learn(route))
      .finally(() => this.#loading.delete(tenant));
    this.#loading.set(tenant, started);
    return started;
  }

  /** Takes a route to heart, unless a newer one is known, and gives the newer of the two. */
  learn({ tenant, shard, epoch }: Route): Route {
    const known = this.#kept.get(tenant)?.route;
    const route = known !== undefined && known.epoch > epoch ? known : { tenant, shard, epoch };
    this.#kept.delete(tenant);
    this.#kept.set(tenant, { route, learntAtMs: performance.now() });
    if (this.#kept.size > ROUTES_MAX) {
      const [first] = this.#kept.keys();
      if (first !== undefined) this.#kept.delete(first);
    }
    return route;
  }

  /**
   * The route after a refusal with `EPOCH_STALE`: what the shard said when that is newer, else what
   * the server says; the same as before when the server cannot be reached.
   */
  async routeAfter(refused: Route, refusal: PawlError): Promise<Route> {
    const { tenant } = refused;
    const known = this.#kept.get(tenant)?.route;
    if (known !== undefined && known.epoch > refused.epoch) return known;
    const { shard, epoch } = refusal.details;
    if (typeof shard === "string" && typeof epoch === "number" && epoch > refused.epoch) {
      return this.learn({ tenant, shard, epoch });
    }
    try {
      return await this.reload(tenant);
    } catch (error) {
      if (error instanceof PawlError && error.code === "SERVER_UNREACHABLE") return refused;
      throw error;
    }
  }

  /** Nobody waits for it, and a server that is away is asked again with a later use. */
  #refresh(kept: Kept): void {
    kept.learntAtMs = performance.now();
    this.reload(kept.route.tenant).catch(() => undefined);
  }
}

/** The first wait and the longest; a cutover stops writes for some tens of milliseconds. */
const TURN_MS = 2;
const TURN_MS_MAX = 20;

/**
 * Does something where a tenant is, again where it turns out to be, and after a cutover that is
 * under way. Waits for at most `waitMs` in all, in short turns, then throws the last refusal.
 */
export async function followRoute<Result>(
  book: RouteBook,
  tenant: string,
  waitMs: number,
  attempt: (route: Route) => Promise<Result>,
): Promise<Result> {
  const patience = new Patience(waitMs);
  let hasComeBack = false;
  let route = await book.routeOf(tenant);
  for (;;) {
    let refusal: PawlError;
    try {
      return await attempt(route);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refusal = error.refusal;
    }
    if (refusal.code === "EPOCH_STALE") {
      const next = await book.routeAfter(route, refusal);
      // Where everybody agrees on the route, its shard has not opened yet.
      if (next.epoch <= route.epoch) await patience.turn(refusal);
      route = next;
    } else if (refusal.code === "FENCE_CLOSED" || refusal.code === "SHARD_BUSY") {
      await patience.turn(refusal);
      route = await book.routeOf(tenant);
    } else {
      // The shard was armed while the transaction was under way; the next one enters.
      if (refusal.code !== "NOT_ENTERED" || hasComeBack) throw refusal;
      hasComeBack = true;
    }
  }
}

/** Waits in turns that grow, until it has waited enough. */
class Patience {
  readonly #waitMs: number;
  #startedAtMs: number | null = null;
  #turnMs = TURN_MS;

  constructor(waitMs: number) {
    this.#waitMs = waitMs;
  }

  async turn(refusal: PawlError): Promise<void> {
    const now = performance.now();
    this.#startedAtMs ??= now;
    const leftMs = this.#startedAtMs + this.#waitMs - now;
    if (leftMs <= 0) throw refusal;
    await pause(Math.min(this.#turnMs, leftMs));
    this.#turnMs = Math.min(this.#turnMs * 2, TURN_MS_MAX);
  }
}
