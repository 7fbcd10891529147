import type { RecordedEvent } from "../work/envelope.ts";
import type { EventData } from "../work/events.ts";
import type { TaskResultField } from "../work/run/events.ts";
import { epochMsOf, type Instant, addMs } from "../kernel/instant.ts";
import { SAMPLE_SECONDS, SAMPLES_KEPT_MS } from "../work/server-api.ts";
import type { Sample, Reader, Store } from "../store/store.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ACTIVE_RUNS, RUNS } from "../work/run/rows.ts";
import { SPLITS } from "../work/split/rows.ts";
import { SYNCS } from "../work/sync/rows.ts";
import { liveSplits } from "./routes/splits.ts";
import { knownSyncs, lagBlocks } from "./routes/sync-documents.ts";
import type { Engine } from "../engine/engine.ts";

/** The start of the bucket that an instant lies in, in seconds since the start of 1970. */
export function bucketOf(instant: Instant): number {
  const seconds = Math.floor(epochMsOf(instant) / 1_000);
  return seconds - (((seconds % SAMPLE_SECONDS) + SAMPLE_SECONDS) % SAMPLE_SECONDS);
}

/** Counts what the events of commits say was done, by series and bucket. */
export class SampleCounts {
  #counts = new Map<string, Sample>();

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  count(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      const at = bucketOf(event.occurred_at);
      for (const [series, value] of doneBy(event)) this.#add({ series, at, value });
    }
  }

  /** Everything counted since the last time. */
  take(): Sample[] {
    const taken = [...this.#counts.values()];
    this.#counts = new Map();
    return taken;
  }

  /** What was taken and could not be kept is to be taken again. */
  putBack(samples: readonly Sample[]): void {
    for (const sample of samples) this.#add(sample);
  }

  #add({ series, at, value }: Sample): void {
    const name = `${at} ${series}`;
    const before = this.#counts.get(name)?.value ?? 0;
    this.#counts.set(name, { series, at, value: before + value });
  }
}

/** What an event adds to which series. */
function doneBy({ type, data }: RecordedEvent): [series: string, value: number][] {
  if (type === "RunFinished") return [["runs_finished", 1]];
  if (type === "TasksFinished") {
    return endedTasks((JSON.parse(data) as EventData<"TasksFinished">).results);
  }
  if (type !== "TaskLeaseExpired") return [];
  return endedTasks([(JSON.parse(data) as EventData<"TaskLeaseExpired">).result]);
}

function endedTasks(results: readonly TaskResultField[]): [string, number][] {
  let succeeded = 0;
  let failed = 0;
  for (const { outcome, exceptions = [], count = 1, retry_at } of results) {
    // An attempt that is followed by another is not the end of its task.
    if (retry_at !== undefined) continue;
    const isPartlyFailed = exceptions.some((exception) => exception.outcome === "FAILED");
    if (outcome === "FAILED" || isPartlyFailed) failed += count;
    else if (outcome === "SUCCEEDED") succeeded += count;
  }
  const counted: [string, number][] = [
    ["tasks_succeeded", succeeded],
    ["tasks_failed", failed],
  ];
  return counted.filter(([, value]) => value > 0);
}

/** Most splits and syncs that one look goes through. */
const SPLITS_MAX = 100;
const SYNCS_MAX = 200;

/** Unfinished runs that are read between two turns of the process. */
const PAGE_RUNS = 5_000;

const COUNTED = ["tasks_waiting", "tasks_ready", "tasks_retry_wait", "tasks_running"] as const;

/** Tasks of the runs that have not ended, by state, and how many such runs there are. */
export type OpenTasks = {
  runs: number;
  /** The same by state; what there is none of is left out. */
  runsByState: Record<string, number>;
} & Record<(typeof COUNTED)[number], number>;

/** Counts the tasks of unfinished runs by what the runs say of them, without reading the tasks. */
export async function openTasks(reader: Reader): Promise<OpenTasks> {
  const sum: OpenTasks = {
    runs: 0,
    runsByState: {},
    tasks_waiting: 0,
    tasks_ready: 0,
    tasks_retry_wait: 0,
    tasks_running: 0,
  };
  for (let after = 0; ; ) {
    const where = [ACTIVE_RUNS, { cell: "run_pos", is: ">", value: after } as const];
    const find = { table: RUNS, where, order: [{ cell: "run_pos" }], limit: PAGE_RUNS };
    const page = await reader.findCells(find, ["run_pos", "state", ...COUNTED]);
    for (const [, state, ...counts] of page) {
      sum.runs += 1;
      sum.runsByState[String(state)] = (sum.runsByState[String(state)] ?? 0) + 1;
      for (const [at, cell] of COUNTED.entries()) sum[cell] += Number(counts[at]);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_RUNS) return sum;
    after = Number(last[0]);
    await nextTurn();
  }
}

const FOLLOWING_PHASES = ["backfill", "tailing", "cutover_pending", "reversible"];

/** How far the targets of splits that follow their source are behind it, by series. */
export async function splitLags(reader: Reader): Promise<Map<string, number>> {
  const rows = await reader.find({
    table: SPLITS,
    where: [{ cell: "phase", is: "in", values: FOLLOWING_PHASES }],
    order: [{ cell: "split_id" }],
    limit: SPLITS_MAX,
  });
  const lags = new Map<string, number>();
  for (const { row } of await liveSplits(reader, rows)) {
    const { split_id, tail_lag_ms, tail_lag_events } = row;
    if (tail_lag_ms !== null) lags.set(`split_lag_ms:${split_id}`, tail_lag_ms);
    if (tail_lag_events !== null) lags.set(`split_lag_events:${split_id}`, tail_lag_events);
  }
  return lags;
}

/**
 * How far syncs that follow their head are behind it, by series: those after an id, and the last of
 * them, from which the next look goes on; an empty id when there are no more.
 */
export async function syncLags(
  reader: Reader,
  after: string,
): Promise<{ lags: Map<string, number>; last: string }> {
  const rows = await reader.find({
    table: SYNCS,
    where: [
      { cell: "state", is: "=", value: "FOLLOWING" },
      { cell: "sync_id", is: ">", value: after },
    ],
    order: [{ cell: "sync_id" }],
    limit: SYNCS_MAX,
  });
  const lags = new Map<string, number>();
  for (const known of await knownSyncs(reader, rows)) {
    const lag = lagBlocks(known);
    if (lag !== null) lags.set(`sync_lag_blocks:${known.row.sync_id}`, lag);
  }
  return { lags, last: rows.length < SYNCS_MAX ? "" : (rows.at(-1)?.sync_id ?? "") };
}

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
