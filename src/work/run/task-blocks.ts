import type { AnyRow, Key, Table } from "../../kernel/table.ts";
import type { Readable, Rows } from "../rows.ts";
import {
  type HeldStretch,
  TASK_BLOCKS,
  type TaskApart,
  type TaskBlockRow,
  type TaskGroup,
  type TaskRow,
  type TaskState,
  type TaskStatus,
} from "./rows.ts";

/*
 * The tasks of a run lie in blocks of neighbours: what neighbours have in common is written once, and
 * what only few have is apart. A task's block follows from its number.
 */

/** How many tasks a block has; both stores' statements about fences count with it. */
export const BLOCK_TASKS = 64;

/** Which task of which run. */
type TaskAt = { readonly run_pos: number; readonly task_key: number };

/** The block of a run that a task is in. */
export function blockOfTask(taskKey: number): number {
  return Math.floor(taskKey / BLOCK_TASKS);
}

/** The keys of the blocks that tasks are in, each once. */
export function taskBlockKeys(tasks: Iterable<TaskAt>): Key[] {
  const keys = new Map<string, Key>();
  for (const { run_pos, task_key } of tasks) {
    const block = blockOfTask(task_key);
    keys.set(`${run_pos}/${block}`, [run_pos, block]);
  }
  return [...keys.values()];
}

/** Makes sure that tasks are in memory, with one load for all that are missing. */
export function needTasksAt(rows: Rows, tasks: Iterable<TaskAt>): void {
  rows.taskBlocks.need(taskBlockKeys(tasks));
}

/** A task of an unfinished run; null when there is none. */
export function taskOf(
  rows: { readonly taskBlocks: Readable<TaskBlockRow> },
  runPos: number,
  taskKey: number,
): TaskRow | null {
  const block = rows.taskBlocks.get(runPos, blockOfTask(taskKey));
  return block === null ? null : taskIn(block, taskKey);
}

/** What can look up rows by their keys. */
type Loader = {
  load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]>;
};

/** Those of the tasks whose run is unfinished. */
export async function loadTasks(reader: Loader, tasks: readonly TaskAt[]): Promise<TaskRow[]> {
  const found = await reader.load(TASK_BLOCKS, taskBlockKeys(tasks));
  const blocks = new Map(found.map((row) => [`${row.run_pos}/${row.block}`, row]));
  return tasks.flatMap(({ run_pos, task_key }) => {
    const block = blocks.get(`${run_pos}/${blockOfTask(task_key)}`);
    return (block && taskIn(block, task_key)) ?? [];
  });
}

/** A task of a block; null when it has none of that number. */
export function taskIn(block: TaskBlockRow, taskKey: number): TaskRow | null {
  const status = statusAt(block, taskKey - block.block * BLOCK_TASKS);
  return status === null ? null : rowOf(block, taskKey, status);
}

function statusAt({ places, states }: TaskBlockRow, place: number): TaskStatus | null {
  for (let at = 0; at < places.length; at += 3) {
    if (place <= (places[at + 1] ?? -1)) return states[places[at + 2] ?? -1] ?? null;
  }
  return null;
}

/** The tasks of a block in order: all, or those in one of some states. */
export function tasksIn(
  block: TaskBlockRow,
  states: readonly TaskState[] | null = null,
): TaskRow[] {
  const tasks: TaskRow[] = [];
  const first = block.block * BLOCK_TASKS;
  for (let at = 0; at < block.places.length; at += 3) {
    const status = block.states[block.places[at + 2] ?? -1] as TaskStatus;
    if (states !== null && !states.includes(status[0])) continue;
    const to = block.places[at + 1] ?? -1;
    for (let place = block.places[at] ?? 0; place <= to; place++) {
      tasks.push(rowOf(block, first + place, status));
    }
  }
  return tasks;
}

function rowOf(
  { run_pos, groups, apart }: TaskBlockRow,
  taskKey: number,
  status: TaskStatus,
): TaskRow {
  let at = 0;
  while (taskKey > (groups[at]?.[1] ?? taskKey)) at++;
  const group = groups[at] as TaskGroup;
  const own = apart?.[taskKey];
  // Spelt out: this runs for every task that is looked at.
  return {
    run_pos,
    task_key: taskKey,
    asset_index: group[2],
    asset_key: group[3],
    partition_index: group[4] === null ? null : group[4] + taskKey - group[0],
    state: status[0],
    attempt: status[1],
    failures: status[2],
    lost_attempts: status[3],
    lost_pos: status[4],
    worker_id: status[5],
    claimed_by: status[6],
    started_at: status[7],
    started_pos: status[8],
    retry_at: status[9],
    finished_at: status[10],
    unmet: own?.unmet ?? null,
    downstream: own?.downstream ?? null,
    error: own?.error ?? null,
    waits: own?.waits ?? null,
    remaining: own?.remaining ?? null,
    skipped: own?.skipped ?? null,
  };
}

function statusOf(task: TaskRow): TaskStatus {
  return [
    task.state,
    task.attempt,
    task.failures,
    task.lost_attempts,
    task.lost_pos,
    task.worker_id,
    task.claimed_by,
    task.started_at,
    task.started_pos,
    task.retry_at,
    task.finished_at,
  ];
}

/** Whether a task has this status; spelt out, as it is asked for every task that changes. */
function hasStatus(task: TaskRow, status: TaskStatus): boolean {
  return (
    status[0] === task.state &&
    status[1] === task.attempt &&
    status[2] === task.failures &&
    status[3] === task.lost_attempts &&
    status[4] === task.lost_pos &&
    status[5] === task.worker_id &&
    status[6] === task.claimed_by &&
    status[7] === task.started_at &&
    status[8] === task.started_pos &&
    status[9] === task.retry_at &&
    status[10] === task.finished_at
  );
}

/** What only few tasks have; null for a task that has nothing of it. */
function apartOf(task: TaskRow): TaskApart | null {
  const { unmet, downstream, error, waits, remaining, skipped } = task;
  const isPlain =
    unmet === null &&
    downstream === null &&
    error === null &&
    waits === null &&
    remaining === null &&
    skipped === null;
  if (isPlain) return null;
  return {
    ...(unmet === null ? {} : { unmet }),
    ...(downstream === null ? {} : { downstream }),
    ...(error === null ? {} : { error }),
    ...(waits === null ? {} : { waits }),
    ...(remaining === null ? {} : { remaining }),
    ...(skipped === null ? {} : { skipped }),
  };
}

/** A block that is being changed: tasks are put one by one, and the row is made at the end. */
export class TaskBlockEdit {
  readonly #runPos: number;
  readonly #block: number;
  readonly #groups: TaskGroup[];
  readonly #states: TaskStatus[];
  /** The status of each task, by place. */
  readonly #places: number[] = [];
  #apart: Record<string, TaskApart> | null;
  #isChanged = false;

  constructor(runPos: number, block: number, row: TaskBlockRow | null) {
    this.#runPos = runPos;
    this.#block = block;
    this.#groups = row === null ? [] : row.groups;
    this.#states = row === null ? [] : [...row.states];
    this.#apart = row?.apart ?? null;
    for (let at = 0; at < (row?.places.length ?? 0); at += 3) {
      const to = row?.places[at + 1] ?? -1;
      while (this.#places.length <= to) this.#places.push(row?.places[at + 2] ?? 0);
    }
  }

  /** Adds the next task of a new block. */
  add(task: TaskRow): void {
    const { task_key, asset_index, asset_key, partition_index } = task;
    const last = this.#groups.at(-1);
    const isNext =
      last !== undefined &&
      last[2] === asset_index &&
      (last[4] === null
        ? partition_index === null
        : partition_index === last[4] + task_key - last[0]);
    if (isNext) last[1] = task_key;
    else this.#groups.push([task_key, task_key, asset_index, asset_key, partition_index]);
    this.put(task);
  }

  /** Writes over a task, or over the next one. */
  put(task: TaskRow): void {
    this.#isChanged = true;
    this.#places[task.task_key - this.#block * BLOCK_TASKS] = this.#indexOf(task);
    const apart = apartOf(task);
    if (apart === null && this.#apart?.[task.task_key] === undefined) return;
    const { [task.task_key]: _, ...others } = this.#apart ?? {};
    this.#apart = apart === null ? others : { ...others, [task.task_key]: apart };
  }

  #indexOf(task: TaskRow): number {
    for (let index = this.#states.length - 1; index >= 0; index--) {
      if (hasStatus(task, this.#states[index] as TaskStatus)) return index;
    }
    return this.#states.push(statusOf(task)) - 1;
  }

  /** The row as it is now; null when nothing changed. */
  done(): TaskBlockRow | null {
    if (!this.#isChanged) return null;
    const states: TaskStatus[] = [];
    const indexes: number[] = [];
    const places: number[] = [];
    const held: HeldStretch[] = [];
    let failed = 0;
    for (let place = 0; place < this.#places.length; place++) {
      const old = this.#places[place] ?? 0;
      let index = indexes[old];
      if (index === undefined) {
        index = states.push(this.#states[old] as TaskStatus) - 1;
        indexes[old] = index;
      }
      const [state, attempt, , , , , claimedBy] = states[index] as TaskStatus;
      const end = places.length;
      if (places[end - 1] === index) places[end - 2] = place;
      else places.push(place, place, index);
      if (state === "RUNNING") addHeld(held, this.#block * BLOCK_TASKS + place, attempt, claimedBy);
      if (state === "FAILED" || state === "SKIPPED") failed += 1;
    }
    const hasApart = this.#apart !== null && Object.keys(this.#apart).length > 0;
    return {
      run_pos: this.#runPos,
      block: this.#block,
      groups: this.#groups,
      failed,
      held: held.length === 0 ? null : held,
      states,
      places,
      apart: hasApart ? this.#apart : null,
    };
  }
}

function addHeld(
  held: HeldStretch[],
  taskKey: number,
  attempt: number,
  claimedBy: string | null,
): void {
  const last = held.at(-1);
  const isNext =
    last !== undefined && last[1] === taskKey - 1 && last[2] === attempt && last[3] === claimedBy;
  if (isNext) last[1] = taskKey;
  else held.push([taskKey, taskKey, attempt, claimedBy]);
}

/** The blocks of tasks that an event changes, each written once at its end. */
export class TaskChanges {
  readonly #rows: Rows;
  readonly #runPos: number;
  readonly #edits = new Map<number, TaskBlockEdit>();
  /** Tasks that were changed since their block was read. */
  readonly #changed = new Map<number, TaskRow>();

  constructor(rows: Rows, runPos: number) {
    this.#rows = rows;
    this.#runPos = runPos;
  }

  get(taskKey: number): TaskRow | null {
    return this.#changed.get(taskKey) ?? taskOf(this.#rows, this.#runPos, taskKey);
  }

  put(task: TaskRow): void {
    const block = blockOfTask(task.task_key);
    let edit = this.#edits.get(block);
    if (edit === undefined) {
      const row = this.#rows.taskBlocks.get(this.#runPos, block);
      edit = new TaskBlockEdit(this.#runPos, block, row);
      this.#edits.set(block, edit);
    }
    edit.put(task);
    this.#changed.set(task.task_key, task);
  }

  write(): void {
    for (const task of this.#changed.values()) this.#writeRetry(task);
    for (const edit of this.#edits.values()) {
      const row = edit.done();
      if (row !== null) this.#rows.taskBlocks.put(row);
    }
  }

  #writeRetry(task: TaskRow): void {
    const { run_pos, task_key, asset_key, retry_at } = task;
    const { taskBlocks, taskRetries, waitingTasks } = this.#rows;
    const block = taskBlocks.get(run_pos, blockOfTask(task_key));
    const before = block === null ? null : statusAt(block, task_key % BLOCK_TASKS)?.[0];
    const wasDeferred = before === "WAITING" && block?.apart?.[task_key]?.waits !== undefined;
    if (before === "RETRY_WAIT" || wasDeferred) taskRetries.delete(run_pos, task_key);
    if (wasDeferred) waitingTasks.delete(run_pos, task_key);
    if (hasTime(task) && retry_at !== null) {
      taskRetries.insert({ run_pos, task_key, asset_key, retry_at });
    }
    if (!isDeferred(task)) return;
    const { asset_key: awaited_asset, partition_key: awaited_key, pos } = task.waits;
    waitingTasks.insert({
      run_pos,
      task_key,
      asset_index: task.asset_index,
      asset_key,
      awaited_asset,
      awaited_key,
      deferred_pos: pos,
    });
  }
}

/** Whether a task goes on by the time alone: to be tried again, or as it has waited for long enough. */
function hasTime(task: TaskRow): boolean {
  return task.state === "RETRY_WAIT" || isDeferred(task);
}

/** Whether a task waits for something of another asset, rather than for tasks of its run. */
export function isDeferred(
  task: TaskRow,
): task is TaskRow & { waits: NonNullable<TaskRow["waits"]> } {
  return task.state === "WAITING" && task.waits !== null;
}

/** Writes the tasks of a new run, in order. */
export function insertTasks(rows: Rows, runPos: number, tasks: readonly TaskRow[]): void {
  for (let first = 0; first < tasks.length; first += BLOCK_TASKS) {
    const edit = new TaskBlockEdit(runPos, blockOfTask(first), null);
    for (const task of tasks.slice(first, first + BLOCK_TASKS)) edit.add(task);
    const row = edit.done();
    if (row !== null) rows.taskBlocks.insert(row);
  }
}

/** Forgets the tasks of a run. */
export function deleteTasks(rows: Rows, runPos: number, count: number): void {
  for (let block = 0; block * BLOCK_TASKS < count; block++) rows.taskBlocks.delete(runPos, block);
}
