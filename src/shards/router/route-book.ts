import { PawlError } from "../../kernel/errors.ts";

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
