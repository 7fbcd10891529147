import { setImmediate as nextTurn } from "node:timers/promises";
import { keysOfTask } from "../../work/run/tasks.ts";
import type { FailureGroup, FailureGroups } from "../../work/backfill/api.ts";
import { failurePattern } from "../../kernel/message-text.ts";
import type { Instant } from "../../kernel/instant.ts";
import { type BackfillRow, CHUNKS, type Failure } from "../../work/backfill/rows.ts";
import { type RunRow, RUNS } from "../../work/run/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Engine } from "../../engine/engine.ts";
import { eventPages, refoldRun } from "../../engine/ledger/refold.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";
import { resultsOf } from "../../work/run/story.ts";
import { knownBackfillRow } from "../look-ups.ts";

/** Failed runs that are looked at for one backfill. */
const RUNS_MAX = 10_000;

/** Rows that are read between two turns of the process, and partitions in them. */
const PAGE_ROWS = 200;
const PAGE_PARTITIONS = 50_000;

/** Tasks, and partitions of batches, of runs with several failures that are read for one request; the next goes on. */
const TASKS_MAX = 20_000;

/** Kinds of failure that one answer lists. */
const GROUPS_MAX = 100;

/** Kinds of failure, the most frequent first, whose example is followed down to its task. */
const EXAMPLES_MAX = 10;

/** Tasks of a run beyond which its events are not read for an example. */
const EXAMPLE_TASKS_MAX = 500;

/** Backfills whose failures are kept in memory. */
const KEPT_MAX = 50;

/** Partition keys of a run that are looked for in its message. */
const KEYS_MAX = 1_000;

/** Kinds of failure that are told apart: more are not counted. */
const KINDS_MAX = 1_000;

type Group = FailureGroup & { newest_pos: number };

/** Tasks of one run that failed alike; the task is null where only the run's own error was read. */
type Failing = {
  error: Failure;
  at: Instant;
  tasks: number;
  example: Pick<FailureGroup["example"], "task_key" | "asset_key" | "partition_key">;
};

const WHOLE_RUN = { task_key: null, asset_key: null, partition_key: null };

/** The runs of the failed chunks, a page at a time; what failed in a split chunk is in its tiles. */
async function* failedRuns(
  reader: Reader,
  backfill: BackfillRow,
  known: ReadonlySet<number>,
): AsyncGenerator<RunRow[]> {
  const limit = Math.min(PAGE_ROWS, Math.ceil(PAGE_PARTITIONS / backfill.chunk_size));
  let after = -1;
  for (let seen = 0; seen < RUNS_MAX; seen += limit) {
    const where: Condition[] = [
      { cell: "backfill_id", is: "=", value: backfill.backfill_id },
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "chunk_index", is: ">", value: after },
    ];
    const order = [{ cell: "chunk_index" }];
    const find = { table: CHUNKS, where, order, limit };
    const chunks = await reader.findCells(find, ["chunk_index", "run_pos"]);
    const places = chunks.flatMap(([, runPos]) =>
      runPos === null || known.has(runPos as number) ? [] : [[runPos as number]],
    );
    yield await reader.load(RUNS, places);
    if (chunks.length < limit) return;
    after = chunks.at(-1)?.[0] as number;
    await nextTurn();
  }
}

/** Failures of one kind, as they add up. */
class Groups {
  readonly #groups: Map<string, Group>;
  /** Whether there were too many kinds to tell them apart. */
  isCut: boolean;

  constructor(groups: ReadonlyMap<string, Group> = new Map(), isCut = false) {
    this.#groups = new Map([...groups].map(([name, group]) => [name, { ...group }]));
    this.isCut = isCut;
  }

  copy(): Groups {
    return new Groups(this.#groups, this.isCut);
  }

  /** Adds what failed in a run: each kind of it counts the run once. */
  add(run: RunRow, failing: readonly Failing[]): void {
    const counted = new Set<Group>();
    for (const { error, at, tasks, example } of failing) {
      const { pattern, name } = kindOf(run, error);
      const place = { run_id: run.run_id, chunk_index: run.chunk_index ?? 0, ...example };
      const newest_pos = run.run_pos;
      const newest = { last_at: at, message: error.message, example: place, newest_pos };
      const known = this.#groups.get(name);
      if (known === undefined && this.#groups.size >= KINDS_MAX) {
        this.isCut = true;
        continue;
      }
      const group = known ?? {
        error_class: error.class,
        pattern,
        runs: 0,
        tasks: 0,
        first_at: at,
        ...newest,
      };
      this.#groups.set(name, group);
      if (!counted.has(group)) group.runs += 1;
      counted.add(group);
      group.tasks += tasks;
      if (at < group.first_at) group.first_at = at;
      if (at >= group.last_at) Object.assign(group, newest);
    }
  }

  /** The most frequent first. */
  sorted(): Group[] {
    return [...this.#groups.values()].toSorted(
      (one, other) => other.tasks - one.tasks || other.runs - one.runs,
    );
  }
}

/** What failures of one kind have in common, and a name for the kind. */
function kindOf(run: RunRow, error: Failure): { pattern: string; name: string } {
  const keys = run.partition_keys?.slice(0, KEYS_MAX) ?? [];
  const pattern = failurePattern(error.message, keys);
  return { pattern, name: `${error.class}\n${pattern}` };
}

/** A run as if all of it had failed as its first failure says. */
function asItsFirst(run: RunRow): Failing[] {
  const error = run.first_error ?? { class: "unknown", message: "" };
  const at = run.finished_at ?? run.requested_at;
  return [{ error, at, tasks: run.tasks_failed, example: WHOLE_RUN }];
}

/** Whether some task of the run is of several partitions, each of which may fail with an error of its own. */
function hasBatches({ asset_selection, partition_keys, tasks_total }: RunRow): boolean {
  return tasks_total < asset_selection.length * (partition_keys?.length ?? 1);
}

/** What partitions of batches failed with in the last attempts: the first failure of each kind, by task. */
async function partitionErrors(
  reader: Reader,
  run: RunRow,
): Promise<ReadonlyMap<number, readonly { error: Failure; partition_key: string | null }[]>> {
  const found = new Map<number, { error: Failure; partition_key: string | null }[]>();
  if (!hasBatches(run)) return found;
  const filter = { after: run.run_pos - 1, subjects: [run.run_pos], types: ["TasksFinished"] };
  for await (const page of eventPages(reader, filter)) {
    for (const { task_key, partition_keys, exceptions, retry_at } of page.flatMap(resultsOf)) {
      if (exceptions === undefined || retry_at !== undefined) continue;
      const kinds = new Map<string, { error: Failure; partition_key: string | null }>();
      for (const { index, outcome, error } of exceptions) {
        if (outcome !== "FAILED" || error === null) continue;
        const { name } = kindOf(run, error);
        if (kinds.has(name)) continue;
        kinds.set(name, { error, partition_key: partition_keys[index] ?? null });
      }
      found.set(task_key, [...kinds.values()]);
    }
  }
  return found;
}

/** What each task of an ended run failed with; a batch, what its partitions did. */
async function failedTasks(reader: Reader, run: RunRow): Promise<Failing[]> {
  const { assets, tasks } = await refoldRun(reader, run);
  const ofPartitions = await partitionErrors(reader, run);
  return tasks.flatMap((task): Failing[] => {
    if (task.state !== "FAILED") return [];
    const asset = assets[task.asset_index];
    const keys =
      run.partition_keys === null || asset === undefined ? [] : keysOfTask(run, asset, task);
    const example = {
      task_key: task.task_key,
      asset_key: asset?.asset_key ?? null,
      partition_key: keys.length === 1 ? (keys[0] ?? null) : null,
    };
    const at = run.finished_at ?? run.requested_at;
    const own = ofPartitions.get(task.task_key) ?? [];
    if (own.length > 0) {
      return own.map(({ error, partition_key }) => {
        return { error, at, tasks: 1, example: { ...example, partition_key } };
      });
    }
    const error = task.error ?? { class: "unknown", message: "" };
    return [{ error, at, tasks: 1, example }];
  });
}

/** The first task of the run that failed as the run says it did. */
async function exampleTask(
  reader: Reader,
  runPos: number,
): Promise<Partial<FailureGroup["example"]>> {
  const [run] = await reader.load(RUNS, [[runPos]]);
  if (run === undefined || run.tasks_total > EXAMPLE_TASKS_MAX) return {};
  const failed = await failedTasks(reader, run);
  const { message } = run.first_error ?? { message: "" };
  return (failed.find(({ error }) => error.message === message) ?? failed[0])?.example ?? {};
}

type Found = Pick<FailureGroups, "items" | "complete">;

/** What is known of a backfill's failures: a failed chunk stays as it is. */
type Known = {
  groups: Groups;
  runs: Set<number>;
  found: Found;
  chunks_failed: number;
  /** Whether there was no time for some of it. */
  isPartial: boolean;
};

/** Adds what failed since, and answers all of it. */
async function findFailures(reader: Reader, backfill: BackfillRow, known: Known): Promise<Found> {
  const { groups: exact, runs: read } = known;
  /** What is answered: with what there was no time for, counted as the first failure of its run. */
  let shown = exact;
  let left = TASKS_MAX;
  for await (const runs of failedRuns(reader, backfill, read)) {
    for (const run of runs) {
      const isMany = run.tasks_failed > 1 || hasBatches(run);
      const looks = Math.max(run.tasks_total, run.partition_keys?.length ?? 0);
      if (isMany && looks > left) {
        if (shown === exact) shown = exact.copy();
        shown.add(run, asItsFirst(run));
        continue;
      }
      const failing = isMany ? await failedTasks(reader, run) : asItsFirst(run);
      exact.add(run, failing);
      if (shown !== exact) shown.add(run, failing);
      read.add(run.run_pos);
      if (!isMany) continue;
      left -= looks;
      await nextTurn();
    }
  }
  known.isPartial = shown !== exact;
  const sorted = shown.sorted();
  const items: FailureGroup[] = [];
  for (const [place, { newest_pos, ...group }] of sorted.slice(0, GROUPS_MAX).entries()) {
    const isOpen = place < EXAMPLES_MAX && group.example.task_key === null;
    const task = isOpen ? await exampleTask(reader, newest_pos) : {};
    items.push({ ...group, example: { ...group.example, ...task } });
    if (isOpen) await nextTurn();
  }
  const isAll = backfill.chunks_failed <= RUNS_MAX && sorted.length <= GROUPS_MAX && !shown.isCut;
  return { items, complete: isAll && !known.isPartial };
}

const knownOf = new WeakMap<Engine, Map<string, Known>>();

/** Looks up only what it does not know: what failed since, and what there was no time for. */
async function knownFailures(
  engine: Engine,
  reader: Reader,
  backfill: BackfillRow,
): Promise<Found> {
  const { backfill_id, chunks_failed } = backfill;
  if (chunks_failed === 0) return { items: [], complete: true };
  const all = knownOf.get(engine) ?? new Map<string, Known>();
  knownOf.set(engine, all);
  const before = all.get(backfill_id);
  if (before?.chunks_failed === chunks_failed && !before.isPartial) return before.found;
  // A request that goes on beside this one, with what it found, does not count anything twice.
  const known: Known = {
    groups: before?.groups.copy() ?? new Groups(),
    runs: new Set(before?.runs),
    found: NOTHING_FOUND,
    chunks_failed,
    isPartial: false,
  };
  known.found = await findFailures(reader, backfill, known);
  if (all.size >= KEPT_MAX) all.clear();
  all.set(backfill_id, known);
  return known.found;
}

const NOTHING_FOUND: Found = { items: [], complete: false };

async function listFailures(call: Call<"listFailures">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const backfill = await knownBackfillRow(reader, call.params.backfill_id);
    const { items, complete } = await knownFailures(call.engine, reader, backfill);
    const answer: FailureGroups = { backfill_id: backfill.backfill_id, items, complete, pos };
    return { answer, pos };
  });
}

/** What shows why a backfill fails. */
export const FAILURE_HANDLERS = { listFailures } satisfies Handlers;
