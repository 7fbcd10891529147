import {
  addSync,
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
} from "../../src/work/sync/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import {
  excludeSyncSegment,
  repairSync,
  retrySegment,
  verifySync,
} from "../../src/work/sync/repair.ts";
import { TABLES } from "../../src/work/tables.ts";
import { targetKeyOf } from "../../src/work/sync/spec.ts";
import { SYNCS, TARGETS } from "./draw-syncs.ts";
import { type ClientWorld, SimulatedClient } from "./simulated-client.ts";

/** What the operators of syncs need from the simulation around them. */
export type SyncOperatorWorld = ClientWorld & {
  newId: () => string;
  /** A block that every chain has and keeps. */
  fixedTo: number;
  /** Ids of syncs that have stored something. */
  known: () => readonly string[];
  /** Publishes the project with other settings. */
  publish: () => Promise<void>;
};

const OPERATIONS = {
  add: 6,
  remove: 1,
  pause: 4,
  resume: 8,
  retune: 5,
  repair: 8,
  verify: 8,
  retry: 3,
  exclude: 2,
  publish: 3,
};

/** Somebody who adds, stops, repairs and verifies syncs, also by versions that have passed. */
export class SimulatedSyncOperator {
  readonly #world: SyncOperatorWorld;
  readonly #client: SimulatedClient;
  /** Versions that some answer named. */
  readonly #versions = new Map<string, number>();
  readonly #ids: string[] = [];

  constructor(world: SyncOperatorWorld, principal: string) {
    this.#world = world;
    this.#client = new SimulatedClient(world, principal);
  }

  /** Does so many things, with pauses in between. */
  async run(operations: number): Promise<void> {
    const { time, random, isOver } = this.#world;
    for (let done = 0; done < operations && !isOver(); done++) {
      await time.sleep(random.integer(0, 5_000));
      await this.#act();
    }
  }

  /** Asks again and again until a quarantined segment is tried once more. */
  async retry(sync: string, segment_index: number): Promise<void> {
    const decide = retrySegment({ sync, segment_index });
    await this.#client.submit("retry segment", decide, null);
  }

  async #act(): Promise<void> {
    const { random, fixedTo, publish } = this.#world;
    const operation = random.weighted(OPERATIONS);
    if (operation === "add") return this.#add();
    if (operation === "publish") return publish();
    if (operation === "retry" || operation === "exclude") return this.#settle(operation);
    const sync = this.#drawSync();
    const known = this.#versions.get(sync);
    const expected =
      known !== undefined && random.chance(0.4) ? known + random.pick([0, 0, 0, 1]) : null;
    const command = { sync, ...(expected === null ? {} : { expected_state_version: expected }) };
    const from_block = random.integer(0, fixedTo + 20);
    const to_block = from_block + random.pick([0, 5, 40, 500]);
    switch (operation) {
      case "remove":
        return this.#change(operation, removeSync(command), expected);
      case "pause":
        return this.#change(operation, pauseSync(command), expected);
      case "resume":
        return this.#change(operation, resumeSync(command), expected);
      case "retune": {
        const max_parallel = random.integer(1, 4);
        const tuned = { ...command, max_parallel, priority: random.integer(-2, 2) };
        return this.#change(operation, retuneSync(tuned), expected);
      }
      case "repair":
        return this.#change(operation, repairSync({ ...command, from_block, to_block }), null);
      case "verify": {
        const repair = random.chance(0.6);
        const range = random.chance(0.5) ? { from_block, to_block } : {};
        return this.#change(operation, verifySync({ ...command, ...range, repair }), null);
      }
      default:
        return operation satisfies never;
    }
  }

  /** Does something about a quarantined segment, if there is one, or about any other. */
  async #settle(operation: "retry" | "exclude"): Promise<void> {
    const { random, network } = this.#world;
    const where = [{ cell: "status", is: "=", value: "QUARANTINED" }] as const;
    const find = { table: TABLES.segments, where, order: [], limit: 100 };
    const found = await network
      .ask((engine) => engine.read((reader) => reader.find(find)))
      .catch((error: unknown) => this.#client.checkError(error));
    const aside = found ?? [];
    const { sync_id: sync, segment_index } =
      aside.length > 0
        ? random.pick(aside)
        : { sync_id: this.#drawSync(), segment_index: random.integer(0, 9) };
    const decide =
      operation === "retry"
        ? retrySegment({ sync, segment_index })
        : excludeSyncSegment({ sync, segment_index, reason: "not needed" });
    return this.#change(operation, decide, null);
  }

  /** By name and target, or by an id that may be of a sync that is gone. */
  #drawSync(): string {
    const { random, known } = this.#world;
    const ids = [...known(), ...this.#ids];
    if (ids.length > 0 && random.chance(0.7)) return random.pick(ids);
    const name = random.pick(["logs", "logs", ...SYNCS]);
    return `${name}@${targetKeyOf(random.pick(TARGETS))}`;
  }

  async #add(): Promise<void> {
    const { random, newId, fixedTo } = this.#world;
    const input = {
      name: random.pick(SYNCS),
      target: random.pick(TARGETS),
      ...(random.chance(0.3) ? { from_block: random.integer(0, 12) } : {}),
      ...(random.chance(0.3) ? { to_block: random.integer(0, fixedTo) } : {}),
      ...(random.chance(0.3) ? { max_parallel: random.integer(1, 4) } : {}),
    };
    const made = await this.#client.idempotent("add sync", newId(), input, addSync(input));
    this.#learn(made as Changed | null);
  }

  async #change(
    operation: string,
    decide: Decide<Changed>,
    expected: number | null,
  ): Promise<void> {
    const result = await this.#client.submit(operation, decide, expected);
    this.#learn(result);
    if (result === null || expected === null) return;
    if (result.state_version !== expected + 1) {
      this.#world.broken("I7", `${operation} of ${result.sync_id} expected version ${expected}`);
    }
  }

  #learn(changed: Changed | null): void {
    if (changed === null) return;
    const { sync_id, state_version } = changed;
    this.#versions.set(sync_id, state_version);
    if (!this.#ids.includes(sync_id)) this.#ids.push(sync_id);
  }
}

type Changed = { sync_id: string; state_version: number };
