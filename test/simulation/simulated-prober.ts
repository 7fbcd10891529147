import type {
  ClaimedProbe,
  EvaluationOutcome,
  ProbeReportRequest,
} from "../../src/work/probe-protocol.ts";
import {
  CODE_SENSORS,
  isPoisonMessage,
  mayBeWrong,
  wishesOfMessage,
  wishOfItem,
} from "./draw-sensors.ts";
import type { Random } from "./random.ts";
import type { SimulatedNetwork } from "./simulated-network.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** What evaluators need from the simulation around them. */
export type ProberWorld = {
  time: SimulatedTime;
  random: Random;
  network: SimulatedNetwork;
  newId: () => string;
  /** Whether misfortunes still happen. */
  isCalm: () => boolean;
  isOver: () => boolean;
  /** How many items the list has by now. */
  items: () => number;
};

/** Longer than any evaluation is anybody's. */
const FROZEN_MS = 45_000;
const ITEMS_AT_ONCE = 3;

/** A worker that evaluates sensors, and now and then dies, freezes, fails or repeats itself. */
export class SimulatedProber {
  readonly #world: ProberWorld;
  readonly #workerId: string;

  constructor(world: ProberWorld) {
    this.#world = world;
    this.#workerId = `prober-${world.newId()}`;
  }

  async run(): Promise<void> {
    const { time, random, isOver } = this.#world;
    while (!isOver()) {
      const probes = await this.#claim();
      if (probes.length === 0) await time.sleep(random.integer(50, 1_000));
      else await this.#evaluate(probes);
    }
  }

  async #claim(): Promise<ClaimedProbe[]> {
    const { random, network, isCalm } = this.#world;
    const request = {
      worker_id: this.#workerId,
      sensors: isCalm() || random.chance(0.8) ? [...CODE_SENSORS] : [random.pick(CODE_SENSORS)],
      slots: random.integer(1, 5),
      wait_ms: isCalm() ? 10_000 : random.pick([0, 500, 5_000]),
    };
    try {
      return (await network.ask((engine) => engine.claimProbes(request))).probes;
    } catch {
      return [];
    }
  }

  async #evaluate(probes: readonly ClaimedProbe[]): Promise<void> {
    const { time, random, isCalm } = this.#world;
    // Whatever is read is read at the beginning, and may be old by the time it is reported.
    const results = probes.map(
      ({ probe_id, attempt, cursor, expected_state_version, poll_epoch, ...probe }) => ({
        probe_id,
        attempt,
        cursor,
        expected_state_version,
        poll_epoch,
        outcome: this.#outcomeOf({ ...probe, cursor }),
      }),
    );
    if (!isCalm() && random.chance(0.06)) return;
    const isFrozen = !isCalm() && random.chance(0.04);
    await time.sleep(isFrozen ? FROZEN_MS : this.#duration());
    const request = { worker_id: this.#workerId, results };
    await this.#report(request);
    if (!isCalm() && random.chance(0.1)) await this.#report(request);
  }

  #duration(): number {
    const { random, isCalm } = this.#world;
    return random.pick(isCalm() ? [0, 20, 300] : [0, 20, 300, 2_000, 5_000]);
  }

  #outcomeOf(probe: Pick<ClaimedProbe, "name" | "cursor" | "message">): EvaluationOutcome {
    const { random, isCalm, items } = this.#world;
    if (!isCalm() && random.chance(0.1)) {
      const error = { class: "user", message: random.pick(["no luck", "bad luck"]) };
      return { type: "failed", error };
    }
    if (probe.name === "items") {
      const from = Number(probe.cursor ?? 0);
      const to = Math.min(items(), from + ITEMS_AT_ONCE);
      const found = Array.from({ length: to - from }, (_, index) => {
        const n = from + index + 1;
        return wishOfItem(n, mayBeWrong(n) && !isCalm() && random.chance(0.7));
      });
      const cursor = to === 0 ? null : String(to);
      const added_keys = [
        { definition: "tenants", keys: found.map((_, index) => keyOfItem(from + index)) },
      ];
      const evaluated = { type: "evaluated", cursor, run_requests: found } as const;
      return found.length === 0 ? evaluated : { ...evaluated, added_keys };
    }
    const { n } = (probe.message?.payload ?? { n: 0 }) as { n: number };
    if (isPoisonMessage(n)) {
      return { type: "failed", error: { class: "input", message: `${n} is wrong` } };
    }
    return { type: "evaluated", cursor: null, run_requests: wishesOfMessage(n) };
  }

  async #report(request: ProbeReportRequest): Promise<void> {
    const { time, random, network } = this.#world;
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        await network.ask((engine) => engine.reportProbes(request));
        return;
      } catch {
        await time.sleep(random.integer(10, 2_000));
      }
    }
  }
}

/** The key that an item adds: few, so that some are there already, or were removed. */
function keyOfItem(index: number): string {
  return `t${(index % 9) + 1}`;
}
