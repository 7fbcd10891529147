import { randomBytes } from "node:crypto";
import process from "node:process";
import { monotonicFactory } from "ulid";
import type { Hash } from "../core/hash.ts";
import { nodeHash } from "./node-hash.ts";

/** What the engine takes from the outside; the simulation hands in its own. */
export interface Environment {
  readonly hash: Hash;
  /** The version of the time zone database, such as `2026b`. */
  readonly zoneDatabase: string;
  /** A number from 0 up to 1. */
  random(): number;
  /** A fresh id that sorts by time. */
  newId(epochMs: number): string;
  /** A fresh secret that cannot be guessed. */
  newSecret(): string;
  /** Milliseconds of a clock that nobody sets, from whenever. */
  elapsedMs(): number;
  /** Runs the callback soon, after whatever input is waiting. */
  defer(callback: () => void): void;
  /** Runs the callback after so many milliseconds; answers a function that prevents it. */
  timer(ms: number, callback: () => void): () => void;
  /** Something an operator should know. */
  warn(message: string, details: Record<string, unknown>): void;
}

/** The machine's own clock, randomness and event loop. */
export function machineEnvironment(warn: Environment["warn"]): Environment {
  const ulid = monotonicFactory();
  return {
    hash: nodeHash,
    zoneDatabase: process.versions["tz"] ?? "unknown",
    random: Math.random,
    newId: (epochMs) => ulid(epochMs),
    newSecret: () => randomBytes(32).toString("hex"),
    elapsedMs: () => performance.now(),
    defer: (callback) => {
      // Twice: the second time round, requests that came while the first commit was written have been
      // read too, and share the next one.
      setImmediate(() => setImmediate(callback));
    },
    timer: (ms, callback) => {
      const timeout = setTimeout(callback, ms);
      timeout.unref();
      return () => clearTimeout(timeout);
    },
    warn,
  };
}
