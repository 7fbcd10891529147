import { type Environment, nodeHash } from "../../src/engine/config.ts";
import { instantOf } from "../../src/kernel/instant.ts";
import type { Store, Transaction } from "../../src/store/store.ts";

/** An environment in which nothing is left to chance: the same calls give the same ids and numbers. */
export function steadyEnvironment(seed: number): Environment {
  let state = seed >>> 0;
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  let ids = 0;
  return {
    hash: nodeHash,
    zoneDatabase: "2026a",
    checksEvents: true,
    random,
    newId: () => {
      ids += 1;
      return `01${String(ids).padStart(24, "0")}`;
    },
    newSecret: () => "a steady secret",
    elapsedMs: () => 0,
    defer: (callback) => {
      setImmediate(callback);
    },
    timer: () => () => undefined,
    warn: (message, details) => {
      throw new Error(`${message}: ${JSON.stringify(details)}`);
    },
  };
}

/** The same store under a clock that moves only when it is told to. */
export function underSteadyClock(store: Store): { store: Store; advance: (ms: number) => void } {
  let ms = Date.parse("2026-01-01T00:00:00.000Z");
  const change = <Target extends object>(target: Target, own: Record<string, unknown>): Target =>
    new Proxy(target, {
      get: (_, name) => {
        if (typeof name === "string" && Object.hasOwn(own, name)) return own[name];
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  const steady: Partial<Store> = {
    now: async () => instantOf(ms),
    transact: (ws, body) =>
      store.transact(ws, (transaction: Transaction) => {
        return body(change(transaction, { now: instantOf(ms) }));
      }),
  };
  const advance = (by: number): void => {
    ms += by;
  };
  return { store: change(store, steady), advance };
}
