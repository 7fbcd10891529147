import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "../simulation/random.ts";
import { until } from "../faults/pawl-process.ts";
import type { FaultProxy } from "./fault-proxy.ts";
import { type LogPageRequest, pageOf } from "./log-page.ts";

/** When a page's kill comes: before its answer, once it is stored, or soon after its answer. */
const MOMENTS = ["asked", "stored", "soon"] as const;
const SOON_MS_MAX = 40;
const STORED_WITHIN_MS = 5_000;

/** What is killed, and how to see that a page is stored. */
export type KillOptions = {
  proxy: FaultProxy;
  seed: number;
  isStored: (page: LogPageRequest) => boolean;
  /** Kills, and starts again what was killed. */
  kill: () => Promise<void>;
  /** Whether those who ask for pages are killed. */
  askerDies: boolean;
};

/** Kills something once for each page that is asked for, the first time that it can be. */
export class KillAtPages {
  /** Every page that was asked for, in that order. */
  readonly asked: LogPageRequest[] = [];
  kills = 0;
  readonly #options: KillOptions;
  readonly #random: Random;
  readonly #killed = new Set<string>();
  #killing: Promise<void> | null = null;
  #failure: unknown = null;

  constructor(options: KillOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
    options.proxy.seen = async (calls) => {
      const page = pageOf(calls);
      if (page !== null) await this.#see(page);
    };
  }

  /** Resolves when nothing is being killed or started; throws what went wrong with that. */
  async settled(): Promise<void> {
    await this.#killing;
    if (this.#failure !== null) throw this.#failure;
  }

  async #see(page: LogPageRequest): Promise<void> {
    this.asked.push(page);
    const key = `${page.wallet}/${page.from}`;
    const { kills } = this;
    while (this.#killing !== null) await this.#killing;
    const isDead = this.#options.askerDies && this.kills > kills;
    if (isDead || this.#killed.has(key)) return;
    this.#killed.add(key);
    const moment = this.#random.pick(MOMENTS);
    const delayMs = this.#random.integer(0, SOON_MS_MAX);
    const killing = this.#kill(page, moment, delayMs);
    this.#killing = killing
      .catch((error: unknown) => void (this.#failure ??= error))
      .finally(() => void (this.#killing = null));
    // The answer waits until there is nobody to take it.
    if (moment === "asked") await this.#killing;
  }

  async #kill(page: LogPageRequest, moment: (typeof MOMENTS)[number], delayMs: number) {
    if (moment === "soon") await sleep(delayMs);
    // Whoever asked may have been stopped meanwhile, and never store it.
    if (moment === "stored") {
      await until(() => this.#options.isStored(page), STORED_WITHIN_MS).catch(() => undefined);
    }
    this.kills++;
    await this.#options.kill();
  }
}
