import { planMove } from "../../src/work/move/commands.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { MovePlan } from "../../src/work/move/spec.ts";
import type { MoveRow, MoveSegmentRow } from "../../src/work/move/rows.ts";
import { shardWorkNames } from "../../src/work/shard/spec.ts";
import type { ClaimedMove, MoveReport } from "../../src/work/shard/step-protocol.ts";
import type { Shard } from "../../src/shards/shard.ts";
import { runMoveStep } from "../../src/worker/steps/move/move-steps.ts";
import { SPLIT_LIMITS } from "../../src/worker/steps/split/work.ts";
import { LedgerWorld } from "../properties/ledger-world.ts";
import { Random } from "../simulation/random.ts";
import { type FaultRates, FaultyAttempt, Killed, NO_FAULTS } from "./moves-faults.ts";
import { ShardFiles, TABLES } from "./moves-tables.ts";

/** Few rows at once, so that small tables take many turns. */
const LIMITS = { ...SPLIT_LIMITS, chunkRows: 3, chunkRowsMin: 1, chunkRowsMax: 5, removeRows: 4 };

type Claimed = { ref: { run_pos: number; task_key: number; attempt: number }; step: ClaimedMove };

/** A ledger, workers that may die at any call, and shards in files. */
export class MoveWorld extends LedgerWorld {
  readonly shards: ReadonlyMap<string, Shard>;
  readonly names: readonly string[];
  readonly #files: ShardFiles | null;
  readonly random: Random;
  faults: FaultRates = NO_FAULTS;
  /** Rows written for a segment that was finished under that generation: there must be none. */
  readonly repeated: string[] = [];
  /** How many writes of rows each stream had. */
  readonly writes = new Map<string, number>();
  readonly #frozen: { attempt: FaultyAttempt; end: Promise<unknown> }[] = [];
  /** Milliseconds that workers have seen pass. */
  clock = 0;

  constructor(shards: ReadonlyMap<string, Shard>, files: ShardFiles | null, seed: number) {
    super();
    this.#files = files;
    this.shards = shards;
    this.names = [...shards.keys()];
    this.random = new Random(seed);
    const specs = [...shards].map(([shard, { engine }]) => ({ shard, engine }));
    this.publish({ kind: "shards", name: "shards", shards: specs, tables: TABLES });
  }

  /** A world whose shards are fresh SQLite files. */
  static async create(names: readonly string[], seed = 1): Promise<MoveWorld> {
    const files = await ShardFiles.create(names);
    return new MoveWorld(files.shards, files, seed);
  }

  get files(): ShardFiles {
    if (this.#files === null) throw new Error("The shards are no files.");
    return this.#files;
  }

  /** Plans a move. */
  plan(plan: object, dryRun = false): string {
    const { move_id } = this.submit(planMove({ plan: MovePlan.parse(plan) }, dryRun));
    this.settle();
    return move_id;
  }

  move(moveId: string): MoveRow {
    const move = this.moves().find(({ move_id }) => move_id === moveId);
    if (move === undefined) throw new Error(`There is no move ${moveId}.`);
    return move;
  }

  /** One round of all workers: claims what there is, does it, and says how it ended. */
  async round(slots = 100): Promise<number> {
    this.pass(60_000);
    this.settle();
    const groups = this.claim(shardWorkNames(this.names), slots);
    const claimed = groups.flatMap(({ run_pos, tasks, step }): Claimed[] =>
      tasks.map(({ task_key, attempt }) => {
        if (step?.work !== "move") throw new Error("Only moves are worked on here.");
        return { ref: { run_pos, task_key, attempt }, step };
      }),
    );
    await Promise.all(claimed.map((each) => this.#attempt(each)));
    this.settle();
    return claimed.length;
  }

  /** Works until there is nothing left to do. */
  async work(rounds = 2_000): Promise<void> {
    for (let round = 0; round < rounds; round++) if ((await this.round()) === 0) return;
    throw new Error("The work does not come to an end.");
  }

  /** Lets frozen workers go on, who know nothing of what has happened since. */
  async thaw(): Promise<void> {
    for (const { attempt, end } of this.#frozen.splice(0)) {
      attempt.thaw?.();
      await end;
    }
  }

  async close(): Promise<void> {
    await this.thaw();
    await this.#files?.close();
  }

  /** Answers when the attempt has ended, or has been given up. */
  async #attempt({ ref, step }: Claimed): Promise<void> {
    let giveUp: () => void = () => undefined;
    const isFrozen = new Promise<"frozen">((resolve) => {
      giveUp = () => resolve("frozen");
    });
    const attempt = new FaultyAttempt(this.random, this.faults, giveUp);
    const end = this.#run(attempt, step, ref).then(
      (report) => ({ report, error: null }),
      (error: unknown) => ({ report: null, error }),
    );
    const ended = await Promise.race([end, isFrozen]);
    if (ended === "frozen") {
      this.#frozen.push({ attempt, end });
      this.report({ ...ref, outcome: "FAILED", error: { class: "lease-lost", message: "gone" } });
      return;
    }
    if (ended.error === null) {
      const report = { work: "move" as const, ...ended.report };
      this.report({ ...ref, outcome: "SUCCEEDED", step: report });
      return;
    }
    this.report({ ...ref, outcome: "FAILED", ...failureOf(ended.error) });
  }

  #run(
    attempt: FaultyAttempt,
    step: ClaimedMove,
    { run_pos, attempt: number }: Claimed["ref"],
  ): Promise<MoveReport> {
    const host = {
      shard: async (name: string) => {
        const shard = this.shards.get(name);
        if (shard === undefined) throw new PawlError("SHARD_NOT_FOUND", `There is no ${name}.`);
        return attempt.around(shard, (method, given) => this.#note(method, given));
      },
      token: run_pos * 1_000_000 + number,
      signal: new AbortController().signal,
      now: () => (this.clock += 10),
      pause: async (ms: number) => {
        this.clock += ms;
      },
      say: async () => ({ status: "current" as const, stop: false, routing_version: null }),
    };
    return runMoveStep(step, host, LIMITS);
  }

  /** Looks at what was written: nothing for what the ledger calls finished, not even by who was frozen. */
  #note(method: string, given: unknown): void {
    if (method !== "apply") return;
    const [request] = given as [{ stream: string; chunk: unknown }];
    if (request.chunk === null) return;
    const { stream } = request;
    this.writes.set(stream, (this.writes.get(stream) ?? 0) + 1);
    const segment = this.#segmentOf(stream);
    // One that was quarantined may be gone on with by whoever was frozen: its state is on the shard.
    const isDone = segment?.state === "COPIED" || segment?.state === "REMOVED";
    if (isDone) this.repeated.push(stream);
  }

  #segmentOf(stream: string): MoveSegmentRow | null {
    const [moveId = "", index, generation] = stream.split(":");
    const segment = this.read((rows) => rows.moveSegments.get(moveId, Number(index)));
    return segment?.generation === Number(generation) ? segment : null;
  }
}

function failureOf(error: unknown): {
  error: { class: string; message: string };
  final?: true;
} {
  if (error instanceof Killed) return { error: { class: "lease-lost", message: "killed" } };
  const message = error instanceof Error ? error.message : String(error);
  const passing = ["COORDINATOR_STALE", "LEASE_LOST", "STREAM_MOVED"];
  const isFinal = error instanceof PawlError && !error.retryable && !passing.includes(error.code);
  return { error: { class: "user", message }, ...(isFinal ? { final: true } : {}) };
}
