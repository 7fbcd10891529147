import { instantOf } from "../../src/kernel/instant.ts";
import { collectStale } from "../../src/work/asset/stale.ts";
import { addPartitionKeys, removePartitionKeys } from "../../src/work/definition/partition-keys.ts";
import { cancelRun } from "../../src/work/run/cancel.ts";
import {
  cancelBackfill,
  pauseBackfill,
  resumeBackfill,
  retuneBackfill,
} from "../../src/work/backfill/commands.ts";
import {
  createBackfill,
  type CreateBackfillInput,
  type CreatedBackfills,
  previewBackfill,
  retryBackfill,
} from "../../src/work/backfill/create.ts";
import type { Decide } from "../../src/work/decision.ts";
import { publishDefinitions } from "../../src/work/definition/publish.ts";
import { requestRun, type RunRequestResult } from "../../src/work/run/request.ts";
import type { Selector } from "../../src/kernel/keyspace/selector.ts";
import type { SyncDrawing } from "./draw-syncs.ts";
import { ASSET_GROUPS, drawSpecs, KEYS } from "./project.ts";
import type { AutomationKinds } from "./simulated-automation.ts";
import { type ClientWorld, SimulatedClient } from "./simulated-client.ts";

/** What all users know together. */
export type Knowledge = {
  backfills: string[];
  runs: string[];
  requests: string[];
  versions: Map<string, number>;
};

/** What users need from the simulation around them. */
export type UserWorld = ClientWorld & {
  newId: () => string;
  knowledge: Knowledge;
  has: AutomationKinds;
  /** What syncs are drawn from; null for none. */
  syncs: SyncDrawing | null;
};

const OPERATIONS = {
  create: 30,
  preview: 3,
  pause: 8,
  resume: 12,
  cancel: 4,
  cancelNow: 4,
  retune: 8,
  retry: 12,
  missing: 4,
  request: 14,
  cancelRun: 6,
  addKeys: 6,
  removeKeys: 5,
  stale: 3,
  publish: 5,
  tick: 2,
};

/** A user who creates, changes and repeats, and does not wait for the answer for ever. */
export class SimulatedUser {
  readonly #world: UserWorld;
  readonly #principal: string;
  readonly #client: SimulatedClient;

  constructor(world: UserWorld, principal: string) {
    this.#world = world;
    this.#principal = principal;
    this.#client = new SimulatedClient(world, principal);
  }

  /** Does so many things, with pauses in between. */
  async run(operations: number): Promise<void> {
    const { time, random, isOver } = this.#world;
    for (let done = 0; done < operations && !isOver(); done++) {
      await time.sleep(random.integer(0, 4_000));
      await this.#act();
    }
  }

  /** Publishes the project, until an answer comes. */
  async publish(): Promise<void> {
    const { random, time, has, syncs } = this.#world;
    const specs = drawSpecs(random, has, syncs);
    const decide = publishDefinitions({ origin: "code", specs, prune: true });
    for (let attempt = 0; attempt < 10; attempt++) {
      if ((await this.#client.submit("publish", decide, null)) !== null) return;
      await time.sleep(random.integer(100, 3_000));
    }
  }

  async #act(): Promise<void> {
    const { random, knowledge } = this.#world;
    const operation = random.weighted(OPERATIONS);
    const backfill_id = knowledge.backfills.length > 0 ? random.pick(knowledge.backfills) : "none";
    const version = knowledge.versions.get(backfill_id);
    const expected =
      version !== undefined && random.chance(0.4) ? version + random.pick([0, 0, 0, 1]) : null;
    const command = {
      backfill_id,
      ...(expected === null ? {} : { expected_state_version: expected }),
    };
    switch (operation) {
      case "create":
        return this.#create(this.#draftBackfill());
      case "preview":
        return this.#previewAndCreate();
      case "pause":
        return this.#change(operation, pauseBackfill(command), expected);
      case "resume":
        return this.#change(operation, resumeBackfill(command), expected);
      case "cancel":
        return this.#change(operation, cancelBackfill(command), expected);
      case "cancelNow":
        return this.#change(operation, cancelBackfill({ ...command, now: true }), expected);
      case "retune": {
        const max_concurrent_runs = random.integer(1, 5);
        const tuned = { ...command, max_concurrent_runs, priority: random.integer(-2, 2) };
        return this.#change(operation, retuneBackfill(tuned), expected);
      }
      case "retry":
      case "missing":
        return this.#retry(backfill_id, operation === "missing");
      case "request":
        return this.#requestRun();
      case "cancelRun": {
        const run_id = knowledge.runs.length > 0 ? random.pick(knowledge.runs) : "none";
        await this.#client.submit(operation, cancelRun({ run_id }), null);
        return;
      }
      case "addKeys":
        return this.#addKeys();
      case "removeKeys":
        return this.#removeKeys();
      case "stale":
        return this.#lookForStale();
      case "publish":
        return this.publish();
      case "tick":
        await this.#world.network
          .ask((engine) => engine.tick())
          .catch((error: unknown) => this.#client.checkError(error));
        return;
      default:
        return operation satisfies never;
    }
  }

  #draftBackfill(): CreateBackfillInput {
    const { random, knowledge, time } = this.#world;
    const group = random.pick(Object.keys(ASSET_GROUPS));
    const assets = ASSET_GROUPS[group] ?? [];
    const limit = random.weighted({ none: 6, count: 2, percent: 1 });
    return {
      client_request_id: this.#requestId(),
      assets: random.shuffled(assets),
      selector: this.#drawSelector(assets[0] ?? ""),
      chunk_size: random.pick([1, 2, 3, 4, 10]),
      max_concurrent_runs: random.integer(1, 4),
      order: random.pick(["ascending", "descending"]),
      priority: random.integer(-1, 1),
      allow_overlap: random.chance(0.5),
      continue_on_failure: random.chance(0.3),
      config: random.pick([null, { mode: "full" }]),
      ...(limit === "count" ? { failure_limit: { count: random.integer(1, 4) } } : {}),
      ...(limit === "percent" ? { failure_limit: { percent: 40 } } : {}),
      ...(knowledge.backfills.length > 0 && random.chance(0.08)
        ? { after_backfill_id: random.pick(knowledge.backfills) }
        : {}),
      ...(random.chance(0.3)
        ? { retry: { max_attempts: 2, delay_ms: 50, factor: 1, max_delay_ms: 50, jitter: 0 } }
        : {}),
      ...(random.chance(0.1)
        ? { start_at: instantOf(time.wallMs() + random.integer(-1_000, 10_000)) }
        : {}),
    };
  }

  #drawSelector(asset: string): Selector {
    const { random, knowledge } = this.#world;
    const keys = KEYS[asset] ?? ["x"];
    const kinds = { all: 6, range: 4, explicit: 4, filter: 3, outcome: 2, missing: 1, wrong: 1 };
    const kind = random.weighted(kinds);
    switch (kind) {
      case "all":
        return { type: "all" };
      case "range": {
        const [start = "", end = ""] = [random.integer(0, keys.length - 1), keys.length - 1]
          .toSorted((a, b) => a - b)
          .map((index) => keys[index]);
        return { type: "range", start, end };
      }
      case "explicit":
        return { type: "explicit", partition_keys: random.shuffled(random.some(keys)) };
      case "filter": {
        const region = random.pick(["us-*", "eu", "*", ["eu", "us-west"]]);
        if (asset === "grid") return { type: "filter", dimensions: { region } };
        return {
          type: "filter",
          dimensions: { partition: random.pick(["2026-01-*", "*", keys]) },
        } as Selector;
      }
      case "outcome":
      case "missing": {
        if (knowledge.backfills.length === 0) return { type: "all" };
        const backfill_id = random.pick(knowledge.backfills);
        if (kind === "missing") return { type: "missing", backfill_id };
        const outcomes = random.some(["FAILED", "CANCELLED", "SKIPPED"] as const);
        return { type: "outcome", backfill_id, outcomes };
      }
      default:
        return { type: "explicit", partition_keys: ["no such key"] };
    }
  }

  #requestId(): string {
    const { random, knowledge, newId } = this.#world;
    if (knowledge.requests.length > 0 && random.chance(0.15))
      return random.pick(knowledge.requests);
    const id = newId();
    knowledge.requests.push(id);
    return id;
  }

  async #create(input: CreateBackfillInput): Promise<void> {
    const made = await this.#client.idempotent(
      "create",
      input.client_request_id,
      input,
      createBackfill(input),
    );
    this.#learn(made as CreatedBackfills | null);
  }

  async #previewAndCreate(): Promise<void> {
    const input = this.#draftBackfill();
    const { network } = this.#world;
    const preview = await network
      .ask((engine) => engine.evaluate(previewBackfill(input)))
      .catch((error: unknown) => this.#client.checkError(error));
    if (preview === null) return;
    const { plan_hash, total_partitions } = preview.result;
    const planned = { ...input, plan_hash };
    const made = (await this.#client.idempotent(
      "create",
      input.client_request_id,
      planned,
      createBackfill(planned),
    )) as CreatedBackfills | null;
    this.#learn(made);
    if (
      made !== null &&
      made.total_partitions !== total_partitions &&
      made.asset_selection.length === preview.result.asset_selection.length
    ) {
      this.#world.broken("I28", "a backfill is not what its preview said under the same plan hash");
    }
  }

  async #retry(backfill_id: string, missing: boolean): Promise<void> {
    const { random } = this.#world;
    const outcomes = random.pick([
      undefined,
      undefined,
      ["FAILED"],
      ["CANCELLED"],
      ["FAILED", "CANCELLED"],
      ["SKIPPED"],
    ] as const);
    // These are one for all users of a backfill, so another's may be taken.
    const retry_request_id = `${this.#principal}-${this.#requestId()}`;
    const input = { backfill_id, retry_request_id, missing, outcomes };
    const made = await this.#client.idempotent(
      `retry ${backfill_id}`,
      input.retry_request_id,
      input,
      retryBackfill(input),
    );
    this.#learn(made as CreatedBackfills | null);
  }

  #learn(made: CreatedBackfills | null): void {
    const { knowledge } = this.#world;
    for (const { backfill_id } of made?.backfills ?? []) {
      if (!knowledge.backfills.includes(backfill_id)) knowledge.backfills.push(backfill_id);
    }
  }

  async #requestRun(): Promise<void> {
    const { random, knowledge } = this.#world;
    const assets =
      ASSET_GROUPS[
        random.pick([
          "single",
          "diamond",
          "half",
          "mixed",
          "pooled",
          "lones",
          "grid",
          "shifted",
          "crossing",
          "lagging",
        ])
      ] ?? [];
    const keys = KEYS[assets[0] ?? ""];
    const request_id = this.#requestId();
    const input = {
      request_id,
      assets: random.chance(0.6) ? assets : [random.pick(assets)],
      ...(random.chance(0.5) ? { run_key: `nightly-${random.integer(1, 4)}` } : {}),
      ...(keys === undefined ? {} : { partition_keys: random.some(keys) }),
      ...(random.chance(0.3) ? { config: { seed: random.integer(1, 2) } } : {}),
    };
    const answer = await this.#client.idempotent("request", request_id, input, requestRun(input));
    const run_id = (answer as RunRequestResult | null)?.run_id;
    if (run_id !== undefined && !knowledge.runs.includes(run_id)) knowledge.runs.push(run_id);
  }

  async #addKeys(): Promise<void> {
    const { random } = this.#world;
    const request_id = this.#requestId();
    const keys = random.some(["t1", "t2", "t3", "t4", "t5", "t 6", "t,7"]);
    const input = { asset_key: "tenants", request_id, keys };
    await this.#client.idempotent("keys", request_id, input, addPartitionKeys(input));
  }

  async #removeKeys(): Promise<void> {
    const { random } = this.#world;
    const request_id = this.#requestId();
    const keys = random.some(["t1", "t2", "t3", "t4", "t5", "t 6", "t,7"]);
    const input = { asset_key: "tenants", request_id, keys };
    await this.#client.idempotent("remove keys", request_id, input, removePartitionKeys(input));
  }

  /** What was removed is neither stale nor missing. */
  async #lookForStale(): Promise<void> {
    const { network, broken } = this.#world;
    const looked = await network
      .ask((engine) =>
        engine.evaluate((rows, context) => {
          const { found } = collectStale(rows, ["tenants"], context, { budget: 100, limit: 100 });
          const where = [{ cell: "definition", is: "=", value: "tenants" }] as const;
          const keys = rows.dynamicKeys.find(where, [{ cell: "ordinal" }], 100);
          const removed = rows.dynamicDefinitions.get("tenants")?.removed ?? [];
          const gone = removed.flatMap(([from, to]) => keys.slice(from, to + 1));
          const names = new Set(gone.map(({ partition_key }) => partition_key));
          return { events: [], result: found.filter(({ key }) => names.has(key)) };
        }),
      )
      .catch((error: unknown) => this.#client.checkError(error));
    if (looked === null || looked.result.length === 0) return;
    broken("I90", `removed keys are stale: ${looked.result.map(({ key }) => key).join()}`);
  }

  async #change(
    operation: string,
    decide: Decide<{ backfill_id: string; state_version: number }>,
    expected: number | null,
  ): Promise<void> {
    const result = await this.#client.submit(operation, decide, expected);
    if (result === null) return;
    this.#world.knowledge.versions.set(result.backfill_id, result.state_version);
    if (expected !== null && operation !== "cancelNow" && result.state_version !== expected + 1) {
      this.#world.broken("I31", `${operation} expected version ${expected}`);
    }
  }
}
