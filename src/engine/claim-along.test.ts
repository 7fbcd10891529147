import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../../test/postgres.ts";
import { openPostgresStore } from "../store/postgres/store.ts";
import { openSqliteStore } from "../store/sqlite/store.ts";
import type { Store, Transaction } from "../store/store.ts";
import { createBackfill } from "../work/backfill/create.ts";
import { publishDefinitions } from "../work/definition/publish.ts";
import { Spec } from "../work/definition/published-spec.ts";
import type { ClaimAnswer } from "../work/run/protocol.ts";
import { machineEnvironment } from "./config.ts";
import { Engine } from "./engine.ts";

const ACTOR = { actor: { principal: "ann", token_id: null }, correlationId: "test" };
const WORKER = { worker_id: "w", code_version: null };

let store: Store;
let engine: Engine;
/** Holds the first look-up of a commit until it is opened. */
let gate: { reached: () => void; opened: Promise<void> } | null;

function gated(real: Store): Store {
  const transact: Store["transact"] = (ws, body, options) => {
    const holding = (transaction: Transaction) => {
      const load = transaction.load.bind(transaction);
      transaction.load = async (table, keys) => {
        const held = gate;
        gate = null;
        held?.reached();
        await held?.opened;
        return load(table, keys);
      };
      return body(transaction);
    };
    return real.transact(ws, holding, options);
  };
  return new Proxy(real, {
    get: (target, name) => {
      if (name === "transact") return transact;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

const stores: [string, () => Promise<Store>][] = [
  ["SQLite", () => openSqliteStore({ path: ":memory:", clock: Date.now })],
  ["PostgreSQL", async () => openPostgresStore({ url: await freshDatabaseUrl(), unsafe: true })],
];

describe.each(stores)("a claim along with a report on %s", (_name, open) => {
  beforeEach(async () => {
    gate = null;
    store = gated(await open());
    const environment = machineEnvironment(() => undefined);
    engine = await Engine.open({ store, tenantId: "t", workspaceId: "w", environment });
    const partitions = { type: "integers", start: 0, end: 100 };
    const specs = [Spec.parse({ kind: "asset", asset_key: "a", partitions })];
    await engine.submit(publishDefinitions({ origin: "code", specs, prune: true }), ACTOR);
    engine.start();
  });
  afterEach(async () => {
    await engine.stop();
    await store.close();
  });

  const wish = (lease_id: string, slots: number) => ({ lease_id, slots, assets: ["a"] });
  const report = ({ lease_id, groups }: ClaimAnswer, claim: ReturnType<typeof wish>) => {
    const results = groups.flatMap(({ run_pos, tasks }) =>
      tasks.map(({ task_key, attempt }) => {
        return { run_pos, task_key, attempt, outcome: "SUCCEEDED" as const };
      }),
    );
    return engine.report({ ...WORKER, results, released_leases: [lease_id], claim });
  };

  test("I97: gets what the report sets free, also when it comes while another commit is decided", async () => {
    await engine.submit(
      createBackfill({
        client_request_id: "one",
        assets: ["a"],
        selector: { type: "all" },
        chunk_size: 1,
        max_concurrent_runs: 2,
        order: "ascending",
        priority: 0,
        allow_overlap: false,
        continue_on_failure: false,
      }),
      ACTOR,
    );
    const claim = (lease: string) =>
      engine.claim({ ...WORKER, ...wish(lease, 1), wait_ms: 10_000 });
    const [one, two] = [await claim("one"), await claim("two")];
    // All that may run does, so there is nothing but what reports set free.
    const { promise: isReached, resolve: reached } = Promise.withResolvers<void>();
    const { promise: opened, resolve: openGate } = Promise.withResolvers<void>();
    gate = { reached, opened };
    const first = report(one, wish("three", 1));
    await isReached;
    const second = report(two, wish("four", 1));
    // Its claim has been heard by then.
    await store.now();
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    openGate();
    const answers = await Promise.all([first, second]);
    expect(answers.map(({ claimed }) => claimed?.groups.length)).toEqual([1, 1]);
  });
});
