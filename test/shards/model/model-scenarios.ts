import type { SplitStep } from "../../../src/work/shard/step-protocol.ts";
import { type ModelRow, modelData } from "./model-data.ts";
import { TABLE, TENANT, type Transaction, type World, type Writer } from "./model-world.ts";

/** Nothing goes wrong. */
const QUIET: World["left"] = { kills: 0, freezes: 0, expiries: 0, losses: 0, timeouts: 0 };

/** A world before its split: rows of the tenant, writers, the steps to do, and what may go wrong. */
export function worldOf(given: {
  keys: readonly string[];
  writers: readonly (readonly Transaction[])[];
  /** Transactions of another tenant, each by a writer of its own. */
  others?: readonly (readonly Transaction[])[];
  steps: readonly SplitStep[];
  left?: Partial<World["left"]>;
}): World {
  const rows = given.keys.map((key): ModelRow => ({ key, tenant: TENANT, n: "1" }));
  const tables = (held: ModelRow[]) => ({ [TABLE]: { key: ["key"], rows: held } });
  return {
    source: modelData("source", tables(rows)),
    target: modelData("target", tables([])),
    ledger: { attempt: 0, version: 1, cutover: null, rollback: null },
    caughtUp: false,
    writers: [
      ...given.writers.map((left) => writer(TENANT, left)),
      ...(given.others ?? []).map((left) => writer("other", left)),
    ],
    truth: Object.fromEntries(given.keys.map((key) => [`${TABLE} ${key}`, "1"])),
    steps: [...given.steps],
    left: { ...QUIET, ...given.left },
    frozen: null,
    notes: {},
  };
}

function writer(tenant: string, left: readonly Transaction[]): Writer {
  return {
    tenant,
    route: { shard: "source", epoch: 1 },
    left: structuredClone([...left]),
    at: null,
  };
}

/** A transaction that adds one to rows. */
export const add = (...keys: string[]): Transaction => ({
  ops: keys.map((key) => ({ op: "add", key })),
});
/** A transaction that inserts a row. */
export const insert = (key: string): Transaction => ({ ops: [{ op: "insert", key }] });
/** A transaction that deletes a row. */
export const remove = (key: string): Transaction => ({ ops: [{ op: "delete", key }] });
/** A transaction that is taken back. */
export const takenBack = (key: string): Transaction => ({ ...add(key), isTakenBack: true });
