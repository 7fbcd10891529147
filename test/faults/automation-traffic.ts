import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../simulation/random.ts";
import type { Site } from "./pawl-process.ts";

/** The sensors that messages are sent to. */
export const PUSHED = ["forwarded", "weighed"] as const;

/** Messages and files without which a test has seen nothing, however slow the machine is. */
const ENOUGH = 10;

/** Somebody who pushes messages, each several times, and somebody who drops files. */
export class AutomationTraffic {
  /** Messages that a server said it keeps, as `sensor id`. */
  readonly kept = new Set<string>();
  /** Files that lie there. */
  readonly files: string[] = [];
  answersLost = 0;
  readonly #sites: readonly Site[];
  readonly #random: Random;
  readonly #loops: Promise<void>[] = [];
  #isStopping = false;
  #sent = 0;

  constructor(sites: readonly Site[], random: Random) {
    this.#sites = sites;
    this.#random = random;
    mkdirSync(this.#inbox, { recursive: true });
  }

  start(): void {
    for (const step of [() => this.#send(), () => this.#send(), () => this.#drop()]) {
      this.#loops.push(this.#repeat(step));
    }
  }

  /** Lets the loops come to their end once there was enough; everything that was sent is kept then. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#loops);
  }

  get #inbox(): string {
    return join(this.#sites[0]?.directory ?? "", "inbox");
  }

  async #repeat(step: () => Promise<void>): Promise<void> {
    while (!this.#isStopping || this.kept.size < ENOUGH || this.files.length < ENOUGH) {
      await step();
      await sleep(this.#random.integer(20, 200));
    }
  }

  async #send(): Promise<void> {
    const sensor = this.#random.pick(PUSHED);
    const n = this.#sent++;
    for (let times = this.#random.pick([1, 1, 2, 5]); times > 0; times--) {
      while (!(await this.#deliver(sensor, n))) await sleep(50);
    }
    this.kept.add(`${sensor} m-${n}`);
  }

  /** Delivers once; answers whether the server said that it keeps the message. */
  async #deliver(sensor: string, n: number): Promise<boolean> {
    const { url } = this.#random.pick(this.#sites);
    try {
      const answer = await fetch(`${url}/api/v1/orchestration/sensors/${sensor}/messages`, {
        method: "POST",
        headers: { "content-type": "application/json", "webhook-id": `m-${n}` },
        body: JSON.stringify({ n }),
      });
      const text = await answer.text();
      if (answer.status === 200 || answer.status === 202) return true;
      if (answer.status < 500 && answer.status !== 429) throw new Error(text);
    } catch (error) {
      // The connection fails with this, a refusal with another.
      if (!(error instanceof TypeError)) throw error;
    }
    this.answersLost += 1;
    return false;
  }

  async #drop(): Promise<void> {
    const name = `file-${String(this.files.length).padStart(4, "0")}.txt`;
    const place = join(this.#inbox, name);
    writeFileSync(`${place}.part`, name);
    renameSync(`${place}.part`, place);
    this.files.push(name);
  }
}
