import { createHash } from "node:crypto";
import { PawlError } from "../../../src/kernel/errors.ts";
import type { SplitReport, SplitStep, StepAnswer } from "../../../src/work/shard/step-protocol.ts";
import type { Shard } from "../../../src/shards/shard.ts";
import type { StepHost } from "../../../src/worker/steps/run-step.ts";
import type { Variant } from "../broken-shards.ts";
import { ModelShard } from "./model-shard.ts";
import { answerOf, type Frozen, type Side, TENANT, type World } from "./model-world.ts";

/** Calls that neither change anything nor see what a writer does: nothing can happen between them. */
const UNSEEN = new Set([
  "describe",
  "firingTriggers",
  "obstacles",
  "tenantProblem",
  "tryCapture",
  "install",
  "sequences",
  "advanceSequences",
]);
/** Calls that wait until writes under way have ended. */
const WAITING = new Set(["closeFences", "setFences", "dropFences"]);

type Call = Frozen & {
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
};

/** Failures that are part of the plan: everything is as before, and the step is tried again. */
const EXPECTED = new Set(["FENCE_BUSY", "FENCE_EXPIRED"]);

/** One attempt at a step, which stops before every call until it is let on. */
export class Coordinator {
  readonly host: StepHost<SplitReport>;
  failure: unknown = null;
  /** Everything that it has heard so far, which is all it knows. */
  history = "";
  readonly #world: World;
  readonly #variant: Variant | null;
  readonly #attempt: number;
  #now = 0;
  #call: Call | null = null;
  #done: "ended" | "fell back" | "failed" | null = null;
  #wake: () => void = () => undefined;

  constructor(world: World, step: SplitStep, variant: Variant | null) {
    this.#world = world;
    this.#variant = variant;
    this.#attempt = world.ledger.attempt;
    const pair = { source: this.#gated("source"), target: this.#gated("target") };
    const shards = variant?.outside?.(pair, world.notes) ?? pair;
    this.host = {
      shard: async (name) => shards[name as Side],
      token: this.#attempt,
      signal: new AbortController().signal,
      now: () => this.#now,
      pause: async () => {
        // Time passes only where a step waits, so that all else is decided by the schedule.
        this.#now += 1_000;
      },
      say: async (_, record) => (await this.#arrive("ledger", "say", [record, step])) as StepAnswer,
    };
  }

  /** Has the attempt watched: how it ends is an arrival too. */
  watch(done: Promise<{ error: unknown } | null>): void {
    void done.then((failed) => {
      const error = failed?.error;
      const isExpected = error instanceof PawlError && EXPECTED.has(error.code);
      this.failure = error ?? null;
      this.#done = failed === null ? "ended" : isExpected ? "fell back" : "failed";
      this.#wake();
    });
  }

  /** Waits until it makes a call or ends. */
  async arrival(): Promise<"call" | "ended" | "fell back" | "failed"> {
    if (this.#call === null && this.#done === null) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#call === null ? (this.#done ?? "failed") : "call";
  }

  /** The call that it waits for. */
  pending(): Frozen & { isBlocked: boolean } {
    const call = this.#waiting();
    return { ...call, isBlocked: isBlocked(this.#world, call) };
  }

  /** Makes the call and tells what came of it. */
  async proceed(): Promise<void> {
    const call = this.#waiting();
    try {
      const value = await perform(this.#world, call, this.#variant);
      this.#hear(call, structuredClone(value));
      call.resolve(value);
    } catch (error) {
      this.refuse(error);
    }
  }

  /** Makes the call and tells nobody. */
  async performOnly(): Promise<void> {
    await perform(this.#world, this.#waiting(), this.#variant);
  }

  /** Has the call fail. */
  refuse(error: unknown): void {
    const call = this.#waiting();
    this.#hear(call, error instanceof PawlError ? error.code : String(error));
    call.reject(error);
  }

  #waiting(): Call {
    if (this.#call === null) throw new Error("The coordinator waits for nothing.");
    return this.#call;
  }

  #hear({ side, method }: Frozen, answer: unknown): void {
    this.#call = null;
    const said = JSON.stringify([this.history, side, method, answer]);
    this.history = createHash("sha1").update(said).digest("base64");
  }

  async #arrive(side: Frozen["side"], method: string, args: unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#call = { side, method, args, attempt: this.#attempt, resolve, reject };
      this.#wake();
    });
  }

  #gated(side: Side): Shard {
    const shard = shardOf(this.#world, side, this.#variant);
    const call = async (method: string, args: unknown[]): Promise<unknown> => {
      if (!UNSEEN.has(method)) return this.#arrive(side, method, args);
      return perform(this.#world, { side, method, args, attempt: this.#attempt }, this.#variant);
    };
    return new Proxy(shard, {
      get: (on, name) =>
        typeof on[name as keyof Shard] === "function"
          ? async (...args: unknown[]) => call(String(name), args)
          : on[name as keyof Shard],
    });
  }
}

/** Whether a call has to wait for a writer. */
function isBlocked(world: World, { side, method }: Frozen): boolean {
  if (side === "ledger") return false;
  const { open } = world[side];
  if (method === "armCapture") return open.length > 0;
  return WAITING.has(method) && open.some(({ tenant }) => tenant === TENANT);
}

function shardOf(world: World, side: Side, variant: Variant | null): Shard {
  const shard = new ModelShard(world[side]);
  return variant?.inside?.(shard, world.notes) ?? shard;
}

/** Makes a call on the world as it is now. */
export async function perform(
  world: World,
  frozen: Frozen,
  variant: Variant | null,
): Promise<unknown> {
  const { side, method, args, attempt } = frozen;
  if (side === "ledger") {
    const [record, step] = args as ["caught_up" | "commit" | null, SplitStep];
    return answerOf(world, attempt, record, step);
  }
  if (isBlocked(world, frozen)) throw new PawlError("SHARD_BUSY", "Writes are under way.");
  const shard = shardOf(world, side, variant) as unknown as Record<
    string,
    (...given: unknown[]) => Promise<unknown>
  >;
  const called = shard[method];
  if (called === undefined) throw new Error(`A shard has no ${method}.`);
  return called.apply(shard, structuredClone(args));
}
