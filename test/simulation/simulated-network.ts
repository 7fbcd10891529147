import type { Engine } from "../../src/engine/engine.ts";
import type { Random } from "./random.ts";
import { ConnectionLost, type SimulatedServer } from "./simulated-server.ts";
import type { SimulatedTime } from "./simulated-time.ts";

/** How likely a message goes astray. */
export type NetworkRates = { lostRequest: number; lostAnswer: number; doubled: number };

/** A network that delivers everything once. */
export const SOUND_NETWORK: NetworkRates = { lostRequest: 0, lostAnswer: 0, doubled: 0 };

/** What lies between the clients and the servers: questions and answers get lost, or come twice. */
export class SimulatedNetwork {
  readonly #time: SimulatedTime;
  readonly #random: Random;
  readonly #servers: readonly SimulatedServer[];
  rates: NetworkRates;

  constructor(
    time: SimulatedTime,
    random: Random,
    servers: readonly SimulatedServer[],
    rates: NetworkRates,
  ) {
    this.#time = time;
    this.#random = random;
    this.#servers = servers;
    this.rates = rates;
  }

  /** Asks any of the servers; `ConnectionLost` when no answer came, whatever became of the question. */
  async ask<Result>(question: (engine: Engine) => Promise<Result>): Promise<Result> {
    const { lostRequest, lostAnswer, doubled } = this.rates;
    await this.#time.sleep(this.#random.integer(0, 30));
    const server = this.#random.pick(this.#servers);
    if (this.#random.chance(lostRequest)) {
      await this.#time.sleep(500);
      throw new ConnectionLost("the request was lost");
    }
    if (this.#random.chance(doubled)) {
      const again = this.#random.pick(this.#servers);
      const later = this.#random.integer(0, 3_000);
      this.#time.schedule(later, () => void again.ask(question).catch(() => undefined));
    }
    const isAnswerLost = this.#random.chance(lostAnswer);
    const answer = await server.ask(question);
    await this.#time.sleep(this.#random.integer(0, 10));
    if (isAnswerLost) throw new ConnectionLost("the answer was lost");
    return answer;
  }
}
