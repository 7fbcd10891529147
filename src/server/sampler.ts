import { type Instant, addMs } from "../core/instant.ts";
import { SAMPLES_KEPT_MS } from "../core/api/overview-documents.ts";
import type { Engine } from "../engine/engine.ts";
import type { Sample, Store } from "../store/store.ts";
import { bucketOf, SampleCounts } from "./sample-counts.ts";
import { openTasks, splitLags, syncLags } from "./sample-gauges.ts";

/** How often samples are written while there is something to write. */
const SAMPLE_MS = 5_000;
/** How often old samples are looked for, and how many are dropped at once. */
const PRUNE_MS = 600_000;
const PRUNED_MAX = 2_000;
/** Most series whose last value is remembered, so that only what changed is written. */
const REMEMBERED_MAX = 10_000;

/** What a sampler is made of. */
export type SamplerOptions = {
  store: Pick<Store, "addSamples" | "setSamples" | "pruneSamples" | "now">;
  engine: Engine;
  warn(fields: object, message: string): void;
};

/**
 * Keeps by time how much was done, how much waits, and how far splits and syncs are behind: what
 * this server commits it counts, what there is it looks at while runs are unfinished. An idle
 * workspace is neither looked at nor written to.
 */
export class Sampler {
  readonly #options: SamplerOptions;
  readonly #counts = new SampleCounts();
  /** What was last written of a series, and into which bucket. */
  readonly #remembered = new Map<string, { value: number; at: number }>();
  #syncsAfter = "";
  #pruneDueAt: Instant | null = null;
  #timer: NodeJS.Timeout | null = null;
  #sampling: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** Begins to act by itself, with a look at what a server before this one has left. */
  start(): void {
    this.#options.engine.onCommit((events) => {
      this.#counts.count(events);
      this.#wake();
    });
    this.#wake();
  }

  /** Keeps what was counted until now, and ends. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#sampling;
    await this.#keepCounts().catch(() => false);
  }

  /** Writes what there is to write now; answers when that is done. */
  sample(): Promise<void> {
    this.#sampling = this.#sampling.then(async () => {
      try {
        if (await this.#sample()) this.#wake();
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        this.#options.warn({ reason }, "samples could not be kept");
        this.#wake();
      }
    });
    return this.#sampling;
  }

  #wake(): void {
    if (this.#stopped || this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.sample();
    }, SAMPLE_MS).unref();
  }

  /** Answers whether there is something to look at again without any further commit. */
  async #sample(): Promise<boolean> {
    const areCountsKept = await this.#keepCounts();
    const { engine, store } = this.#options;
    const now = await store.now();
    const { tasks, lags } = await engine.read(async (reader) => {
      const open = await openTasks(reader);
      const splits = open.runs === 0 ? new Map<string, number>() : await splitLags(reader);
      const syncs = await syncLags(reader, this.#syncsAfter);
      this.#syncsAfter = syncs.last;
      return { tasks: open, lags: new Map([...splits, ...this.#changed(syncs.lags)]) };
    });
    const queued = tasks.tasks_waiting + tasks.tasks_ready + tasks.tasks_retry_wait;
    const gauges = new Map([
      ["tasks_queued", queued],
      ["tasks_running", tasks.tasks_running],
    ]);
    const isBusy = tasks.runs > 0;
    // Once nothing is unfinished a last word says so, and then there is silence.
    const told = isBusy ? gauges : this.#ended(gauges);
    const at = bucketOf(now);
    const samples = [...told, ...lags]
      .map(([series, value]): Sample => ({ series, at, value: Math.round(value) }))
      .filter((sample) => !this.#isWritten(sample));
    if (samples.length > 0) {
      await store.setSamples(engine.workspace.ws, samples);
      for (const sample of samples) this.#remember(sample);
    }
    if (areCountsKept || samples.length > 0) await this.#prune(now);
    return isBusy || this.#syncsAfter !== "";
  }

  /** Writes what was counted; answers whether there was any. */
  async #keepCounts(): Promise<boolean> {
    const counted = this.#counts.take();
    if (counted.length === 0) return false;
    const { engine, store } = this.#options;
    try {
      await store.addSamples(engine.workspace.ws, counted);
    } catch (error) {
      this.#counts.putBack(counted);
      throw error;
    }
    return true;
  }

  #changed(values: ReadonlyMap<string, number>): [string, number][] {
    return [...values].filter(([series, value]) => this.#remembered.get(series)?.value !== value);
  }

  /** The gauges that were not zero when they were last written. */
  #ended(gauges: ReadonlyMap<string, number>): [string, number][] {
    return [...gauges].filter(([series]) => (this.#remembered.get(series)?.value ?? 0) !== 0);
  }

  #isWritten({ series, at, value }: Sample): boolean {
    const known = this.#remembered.get(series);
    return known?.at === at && known.value === value;
  }

  #remember({ series, at, value }: Sample): void {
    this.#remembered.delete(series);
    this.#remembered.set(series, { value, at });
    if (this.#remembered.size <= REMEMBERED_MAX) return;
    for (const oldest of this.#remembered.keys()) {
      this.#remembered.delete(oldest);
      return;
    }
  }

  async #prune(now: Instant): Promise<void> {
    if (this.#pruneDueAt !== null && this.#pruneDueAt > now) return;
    const { engine, store } = this.#options;
    const before = bucketOf(addMs(now, -SAMPLES_KEPT_MS));
    const dropped = await store.pruneSamples(engine.workspace.ws, before, PRUNED_MAX);
    if (dropped < PRUNED_MAX) this.#pruneDueAt = addMs(now, PRUNE_MS);
  }
}
