import { setTimeout as sleep } from "node:timers/promises";
import { type Client, createClient } from "../../src/client/client.ts";
import type { BackfillDocument } from "../../src/work/backfill/documents.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type { Random } from "../simulation/random.ts";
import type { Violations } from "../simulation/violations.ts";

/** A change that the server has said it accepted. */
export type Acknowledgement = {
  what: string;
  event_id: string | null;
  pos: number;
  correlation_id: string;
};

/** A backfill that was asked for until the answer came. */
export type WantedBackfill = { key: string; id: string; partitionKeys: string[]; assets: string[] };

/** A run that was asked for until the answer came. */
export type WantedRun = { key: string; id: string; partitionKeys: string[] };

type Accepted = {
  accepted_event_id: string | null;
  accepted_pos: number;
  correlation_id: string;
};

const ENDED = ["SUCCEEDED", "FAILED", "CANCELLED"];
const ACTIVE_MAX = 3;
const FIRST_DAY_MS = Date.UTC(2000, 0, 1);
const DAY_MS = 86_400_000;

/** Acknowledgements without which a test has seen nothing, however slow the machine is. */
const ENOUGH = 20;

/**
 * Somebody who uses the API all the while: makes backfills, pauses, resumes, retunes and cancels
 * them, adds keys and asks for runs. What gets no answer is asked for again under the same key; what
 * is acknowledged is written down.
 */
export class Traffic {
  readonly acknowledged: Acknowledgement[] = [];
  readonly backfills: WantedBackfill[] = [];
  readonly runs: WantedRun[] = [];
  readonly keys = new Set<string>();
  answersLost = 0;
  readonly #clients: readonly Client[];
  readonly #random: Random;
  readonly #violations: Violations;
  readonly #active = new Map<string, BackfillDocument>();
  readonly #loops: Promise<void>[] = [];
  #isStopping = false;
  #nextDay = 0;
  #keysMade = 0;

  constructor(urls: readonly string[], random: Random, violations: Violations) {
    this.#clients = urls.map((url) => createClient({ url, retryDelaysMs: [] }));
    this.#random = random;
    this.#violations = violations;
  }

  /** Any of the servers; a request that is repeated may go to another one. */
  get client(): Client {
    return this.#random.pick(this.#clients);
  }

  /** Whether a pause was acknowledged. */
  get hasPaused(): boolean {
    return this.acknowledged.some(({ what }) => what.startsWith("pause"));
  }

  start(): void {
    for (const step of [
      () => this.#createOrLook(),
      () => this.#pauseAndResume(),
      () => this.#changeSomething(),
      () => this.#addKeysAndRun(),
    ]) {
      this.#loops.push(this.#repeat(step));
    }
  }

  /** Lets the loops come to their end once there was enough; what is under way is acknowledged then. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#loops);
  }

  /** What of all that was wanted has not ended yet. */
  async unfinished(): Promise<string[]> {
    const open: string[] = [];
    for (const { id } of this.backfills) {
      const { state } = await this.#look(id);
      if (!ENDED.includes(state)) open.push(`backfill ${id} is ${state}`);
    }
    for (const { id } of this.runs) {
      const { state } = await this.client.call("getRun", { params: { run_id: id } });
      if (!ENDED.includes(state)) open.push(`run ${id} is ${state}`);
    }
    return open;
  }

  async #repeat(step: () => Promise<void>): Promise<void> {
    while (!this.#isStopping || this.acknowledged.length < ENOUGH) {
      await step();
      await sleep(this.#random.integer(20, 250));
    }
  }

  async #createOrLook(): Promise<void> {
    for (const id of this.#active.keys()) {
      const document = await this.#until(() => this.#look(id));
      if (ENDED.includes(document.state)) this.#active.delete(id);
      else this.#active.set(id, document);
    }
    if (this.#active.size < ACTIVE_MAX) await this.#create();
  }

  async #create(): Promise<void> {
    const random = this.#random;
    const key = `backfill-${this.backfills.length}`;
    const assets = random.chance(0.3) ? ["walk"] : ["raw", "clean", "totals"];
    const count = random.integer(8, 40);
    const first = this.#nextDay;
    this.#nextDay += count;
    const partitionKeys = Array.from({ length: count }, (_, index) => dayKey(first + index));
    const body = {
      assets,
      selector: { type: "range" as const, start: dayKey(first), end: dayKey(this.#nextDay - 1) },
      chunk_size: random.integer(3, 8),
      max_concurrent_runs: random.integer(1, 4),
      order: random.pick(["ascending", "descending"] as const),
    };
    const create = () => this.client.call("createBackfill", { body, idempotencyKey: key });
    const made = await this.#until(create);
    this.#note(`create ${key}`, made);
    if (random.chance(0.3)) {
      const again = await this.#until(create);
      const isSame =
        again.backfill_id === made.backfill_id && again.accepted_pos === made.accepted_pos;
      this.#violations.check(isSame, "I60", `${key} again gives the first answer`);
    }
    this.backfills.push({ key, id: made.backfill_id, partitionKeys, assets });
    this.#active.set(made.backfill_id, await this.#until(() => this.#look(made.backfill_id)));
  }

  async #pauseAndResume(): Promise<void> {
    const id = this.#anyActive();
    if (id === null) return;
    const params = { backfill_id: id };
    const paused = await this.#change(`pause ${id}`, () =>
      this.client.call("pauseBackfill", { params, body: {} }),
    );
    if (!paused) return;
    await sleep(this.#random.integer(50, 700));
    await this.#change(`resume ${id}`, () =>
      this.client.call("resumeBackfill", { params, body: {} }),
    );
  }

  async #changeSomething(): Promise<void> {
    const id = this.#anyActive();
    if (id === null) return;
    const params = { backfill_id: id };
    if (this.#random.chance(0.03)) {
      const body = { now: this.#random.chance(0.5) };
      await this.#change(`cancel ${id}`, () =>
        this.client.call("cancelBackfill", { params, body }),
      );
      return;
    }
    const body = { max_concurrent_runs: this.#random.integer(1, 4) };
    await this.#change(`retune ${id}`, () => this.client.call("retuneBackfill", { params, body }));
    await sleep(300);
  }

  async #addKeysAndRun(): Promise<void> {
    const random = this.#random;
    const number = this.runs.length;
    const fresh = Array.from(
      { length: random.integer(1, 4) },
      () => `item-${String(this.#keysMade++).padStart(5, "0")}`,
    );
    const known = [...this.keys];
    const keys = known.length > 0 && random.chance(0.3) ? [...fresh, random.pick(known)] : fresh;
    const added = await this.#until(() =>
      this.client.call("addPartitionKeys", {
        params: { asset_key: "items" },
        body: { keys },
        idempotencyKey: `keys-${number}`,
      }),
    );
    this.#note(`add keys-${number}`, added);
    for (const key of keys) this.keys.add(key);
    const key = `run-${number}`;
    const run = await this.#until(() =>
      this.client.call("requestRun", {
        body: { assets: ["items"], partition_keys: keys },
        idempotencyKey: key,
      }),
    );
    this.#note(`request ${key}`, run);
    this.#violations.check(run.outcome === "created", "I60", `${key} was ${run.outcome}`);
    this.runs.push({ key, id: run.run_id, partitionKeys: keys });
  }

  #anyActive(): string | null {
    const ids = [...this.#active.keys()];
    return ids.length === 0 ? null : this.#random.pick(ids);
  }

  /**
   * Makes a change that has no key of its own, until it is answered: done, or no longer possible.
   * After a lost answer the refusal may mean that it was done, so it tells nothing; true all the same.
   */
  async #change(what: string, call: () => Promise<Accepted>): Promise<boolean> {
    const lostBefore = this.answersLost;
    try {
      this.#note(what, await this.#until(call));
      return true;
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "STATE_ILLEGAL") throw error;
      return this.answersLost > lostBefore;
    }
  }

  async #until<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof PawlError) || !error.retryable) throw error;
        this.answersLost++;
        await sleep(50);
      }
    }
  }

  async #look(backfill_id: string): Promise<BackfillDocument> {
    const document = await this.client.call("getBackfill", { params: { backfill_id } });
    this.#violations.check(addsUp(document), "I33", `the counts of ${backfill_id} add up`);
    return document;
  }

  #note(what: string, { accepted_event_id, accepted_pos, correlation_id }: Accepted): void {
    const where = { event_id: accepted_event_id, pos: accepted_pos };
    this.acknowledged.push({ what, ...where, correlation_id });
  }
}

/** Whether the counters of a backfill add up, in chunks and in partitions. */
export function addsUp(backfill: BackfillDocument): boolean {
  const { chunks_pending, chunks_planned, chunks_running } = backfill;
  const { chunks_succeeded, chunks_failed, chunks_cancelled } = backfill;
  const chunks =
    chunks_pending +
    chunks_planned +
    chunks_running +
    chunks_succeeded +
    chunks_failed +
    chunks_cancelled;
  const { partitions_pending, partitions_planned, partitions_running } = backfill;
  const { partitions_succeeded, partitions_failed, partitions_cancelled } = backfill;
  const partitions =
    partitions_pending +
    partitions_planned +
    partitions_running +
    partitions_succeeded +
    partitions_failed +
    partitions_cancelled;
  return chunks === backfill.total_chunks && partitions === backfill.partitions_total;
}

function dayKey(index: number): string {
  return new Date(FIRST_DAY_MS + index * DAY_MS).toISOString().slice(0, 10);
}
