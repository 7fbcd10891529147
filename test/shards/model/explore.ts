import { hash } from "node:crypto";
import { PawlError } from "../../../src/kernel/errors.ts";
import { runSplitStep } from "../../../src/worker/steps/split/split-steps.ts";
import { SPLIT_LIMITS, type SplitLimits } from "../../../src/worker/steps/split/work.ts";
import type { Variant } from "../broken-shards.ts";
import { Coordinator, perform } from "./coordinator.ts";
import {
  advanceWriter,
  Broken,
  canAdvance,
  checkWorld,
  claimed,
  ownerOf,
  TENANT,
  type World,
} from "./model-world.ts";

/** What was explored, and the first schedule that broke something. */
export type Explored = {
  runs: number;
  moments: number;
  ends: number;
  broken: { what: string; schedule: string[] } | null;
};

/** Sizes that make small worlds take many turns. */
export const MODEL_LIMITS: SplitLimits = {
  ...SPLIT_LIMITS,
  chunkRows: 1,
  chunkRowsMin: 1,
  chunkRowsMax: 1,
  changesMax: 1,
  recheckMax: 3,
  verifyRows: 1,
  removeRows: 1,
};

/**
 * Runs the shipped steps in every order in which their calls can meet the writers' steps, kills,
 * freezes, fences that run out and answers that are lost.
 *
 * Between steps a coordinator has nothing in its head, so worlds are kept there as data and each is
 * gone on from once. Within a step, schedules are tried one by one from its beginning; a moment with
 * the same world and the same answers so far is gone on from once as well.
 */
export async function explore(
  world: World,
  variant: Variant | null,
  limits: SplitLimits,
): Promise<Explored> {
  const found: Explored = { runs: 0, moments: 0, ends: 0, broken: null };
  const visited = new Set<string>();
  const waiting: { world: string; schedule: string[] }[] = [
    { world: JSON.stringify(world), schedule: [] },
  ];
  for (let from = waiting.pop(); from !== undefined; from = waiting.pop()) {
    if (visited.has(from.world)) continue;
    visited.add(from.world);
    let prefix: number[] | null = [];
    while (prefix !== null) {
      const run = new Run(JSON.parse(from.world) as World, prefix, visited, variant, limits);
      const end = await run.go();
      found.runs += 1;
      found.moments += run.fresh;
      const schedule = [...from.schedule, ...run.taken()];
      if (end instanceof Broken) return { ...found, broken: { what: end.message, schedule } };
      if (end === "done") found.ends += 1;
      if (end === "boundary") waiting.push({ world: JSON.stringify(run.world), schedule });
      prefix = run.nextPrefix();
    }
  }
  return found;
}

/** Calls that only look: whoever makes them late does nothing. */
const HARMLESS = new Set(["digest", "fences", "lag", "loadStream", "position", "read", "survey"]);

/** No step of a small world needs so many calls. */
const CALLS_MAX = 300;

type Choice = { name: string; act: () => void | Promise<void> };

/** One schedule of one step. */
class Run {
  readonly world: World;
  fresh = 0;
  readonly #prefix: readonly number[];
  readonly #visited: Set<string>;
  readonly #variant: Variant | null;
  readonly #limits: SplitLimits;
  readonly #trace: { names: string[]; taken: number }[] = [];
  #end: "boundary" | null = null;

  constructor(
    world: World,
    prefix: readonly number[],
    visited: Set<string>,
    variant: Variant | null,
    limits: SplitLimits,
  ) {
    this.world = world;
    this.#prefix = prefix;
    this.#visited = visited;
    this.#variant = variant;
    this.#limits = limits;
  }

  /** The names of what was chosen. */
  taken(): string[] {
    return this.#trace.map(({ names, taken }) => names[taken] ?? "");
  }

  /** The choices of the next schedule; null when all were tried. */
  nextPrefix(): number[] | null {
    const trace = [...this.#trace];
    for (let last = trace.pop(); last !== undefined; last = trace.pop()) {
      if (last.taken + 1 < last.names.length) {
        return [...trace.map(({ taken }) => taken), last.taken + 1];
      }
    }
    return null;
  }

  async go(): Promise<"boundary" | "done" | "pruned" | Broken> {
    try {
      checkWorld(this.world);
      return this.world.steps.length === 0 ? this.#finish() : await this.#step();
    } catch (error) {
      if (error instanceof Broken) return error;
      throw error;
    }
  }

  /** Lets the writers finish, which they must be able to. */
  #finish(): "done" {
    const { world } = this;
    for (;;) {
      const writer = world.writers.find((each) => canAdvance(world, each));
      if (writer === undefined) break;
      advanceWriter(world, writer);
      checkWorld(world);
    }
    if (world.writers.some(({ left }) => left.length > 0)) {
      throw new Broken(`I57 ${ownerOf(world)} takes no writes`);
    }
    return "done";
  }

  async #step(): Promise<"boundary" | "pruned"> {
    const { world } = this;
    const [step] = world.steps;
    if (step === undefined) return "boundary";
    world.ledger.attempt += 1;
    const coordinator = new Coordinator(world, step, this.#variant);
    const done = runSplitStep(claimed(world, step), coordinator.host, this.#limits).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    coordinator.watch(done);
    for (;;) {
      const arrived = await coordinator.arrival();
      if (arrived === "failed") throwUnexpected(coordinator.failure);
      if (this.#trace.length > CALLS_MAX) throw new Broken(`I57 ${step} goes on for ever`);
      const choices =
        arrived === "call" ? this.#choices(coordinator) : this.#endChoices(arrived === "ended");
      if (choices.length === 0) throw new Broken(`I57 ${step} waits for ever`);
      const chosen = this.#choose(
        choices,
        () => `${coordinator.history}${arrived}${JSON.stringify(world)}`,
      );
      if (chosen === null) return "pruned";
      await chosen.act();
      // What led here was checked when it was new.
      if (this.#trace.length >= this.#prefix.length) checkWorld(world);
      if (this.#end !== null) return this.#end;
    }
  }

  #choose(choices: readonly Choice[], keyOf: () => string): Choice | null {
    const depth = this.#trace.length;
    const taken = this.#prefix[depth] ?? 0;
    if (depth >= this.#prefix.length) {
      const key = hash("sha1", keyOf(), "base64");
      if (this.#visited.has(key)) return null;
      this.#visited.add(key);
      this.fresh += 1;
    }
    this.#trace.push({ names: choices.map(({ name }) => name), taken });
    return choices[taken] ?? null;
  }

  #choices(coordinator: Coordinator): Choice[] {
    const { world } = this;
    const { left } = world;
    const call = coordinator.pending();
    const name = `${call.side}.${call.method}`;
    const choices: Choice[] = [];
    if (!call.isBlocked) choices.push({ name, act: () => coordinator.proceed() });
    if (call.isBlocked && call.method === "closeFences" && left.timeouts > 0) {
      choices.push({
        name: `${name} gives up`,
        act: () => {
          left.timeouts -= 1;
          coordinator.refuse(new PawlError("FENCE_BUSY", "Writes are under way."));
        },
      });
    }
    if (call.method === "say" && left.losses > 0) {
      const lose = (isHeard: boolean) => async () => {
        left.losses -= 1;
        if (isHeard) await coordinator.performOnly();
        coordinator.refuse(new PawlError("SERVER_UNREACHABLE", "No answer."));
      };
      choices.push({ name: `${name} is heard, not answered`, act: lose(true) });
      choices.push({ name: `${name} is lost`, act: lose(false) });
    }
    if (left.freezes > 0 && world.frozen === null && !HARMLESS.has(call.method)) {
      const act = (): void => {
        left.freezes -= 1;
        const { side, method, args } = call;
        // Whoever follows has a copy of what was said; arguments are plain data.
        world.frozen = structuredClone({ side, method, args, attempt: world.ledger.attempt });
        this.#end = "boundary";
      };
      choices.push({ name: `frozen before ${name}`, act });
    }
    return [...choices, ...this.#always()];
  }

  /** What can happen when a step has ended, well or not. */
  #endChoices(isDone: boolean): Choice[] {
    const { world } = this;
    const step = world.steps[0];
    const go = {
      name: isDone ? `${step} ends` : `${step} falls back`,
      act: () => {
        if (isDone) this.#checkStep();
        if (isDone) world.steps.shift();
        this.#end = "boundary";
      },
    };
    return [go, ...this.#always()];
  }

  #checkStep(): void {
    const { steps, caughtUp, ledger, target, source } = this.world;
    const [step] = steps;
    if (step === "tail" && !caughtUp)
      throw new Broken("I55 the tail ends without having caught up");
    if (step === "cutover" && ledger.cutover === null) throw new Broken("I55 no commit record");
    if (step === "discard" && Object.values(target.tables).some((table) => hasTenant(table))) {
      throw new Broken("I56 the copy is not discarded");
    }
    if (step === "remove" && Object.values(source.tables).some((table) => hasTenant(table))) {
      throw new Broken("I56 rows are left on the source");
    }
  }

  #always(): Choice[] {
    const { world } = this;
    const { left } = world;
    const choices: Choice[] = world.writers.flatMap((writer, at) =>
      canAdvance(world, writer)
        ? [{ name: `writer ${at}`, act: () => advanceWriter(world, writer) }]
        : [],
    );
    if (left.kills > 0) {
      const act = (): void => {
        left.kills -= 1;
        this.#end = "boundary";
      };
      choices.push({ name: "killed", act });
    }
    for (const side of ["source", "target"] as const) {
      const isClosed = world[side].fences[TENANT]?.state === "closed";
      if (left.expiries === 0 || !isClosed || world[side].expired.includes(TENANT)) continue;
      const act = (): void => {
        left.expiries -= 1;
        world[side].expired.push(TENANT);
      };
      choices.push({ name: `the fence of ${side} runs out`, act });
    }
    const { frozen } = world;
    if (frozen !== null) {
      const act = async (): Promise<void> => {
        world.frozen = null;
        // It is refused, or it throws away what it hears: it has nobody to tell.
        await perform(world, frozen, this.#variant).catch((error: unknown) => {
          if (error instanceof Broken) throw error;
        });
      };
      choices.push({ name: `${frozen.side}.${frozen.method} thaws`, act });
    }
    return choices;
  }
}

function hasTenant(table: World["source"]["tables"][string]): boolean {
  return Object.values(table.rows).some((row) => row["tenant"] === TENANT);
}

function throwUnexpected(error: unknown): never {
  if (error instanceof Broken) throw error;
  const said = error instanceof PawlError ? `${error.code} ${error.message}` : String(error);
  throw new Broken(`I57 a step fails: ${said}`);
}
