import { setTimeout as pause } from "node:timers/promises";
import type { PawlError } from "../../kernel/errors.ts";
import type { Route, RouteBook } from "./route-book.ts";
import { Refusal } from "./routed-shard.ts";

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
