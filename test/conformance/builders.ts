import type { RecordedEvent } from "../../src/work/envelope.ts";
import {
  BLOCK_TASKS,
  TaskBlockEdit,
  taskBlockKeys,
  tasksIn,
} from "../../src/work/run/task-blocks.ts";
import { RUNS, type RunRow, TASK_BLOCKS, type TaskRow } from "../../src/work/run/rows.ts";
import type { SensorMessageRow } from "../../src/work/sensor/rows.ts";
import type { AnyRow, AnyTable, CellKind } from "../../src/kernel/table.ts";
import type {
  Flush,
  Head,
  Lease,
  LogQuota,
  Store,
  TableChanges,
  WorkspaceId,
} from "../../src/store/store.ts";

/** Some point in time. */
export const NOON = "2026-01-31T12:00:00.000Z";

/** As much of a log as anybody likes. */
export const ROOMY: LogQuota = { runBytesMax: 1_000_000_000, notice: "cut" };

/** The hash that our made-up events carry: not a real one, but different for each. */
export function hashAt(pos: number): string {
  return pos.toString(16).padStart(64, "0");
}

/** So many events directly after the head. */
export function eventsAfter(
  head: Pick<Head, "pos" | "hash">,
  count: number,
  given: Partial<RecordedEvent> = {},
): RecordedEvent[] {
  return Array.from({ length: count }, (_, index) => {
    const pos = head.pos + index + 1;
    return {
      pos,
      v: 1,
      event_id: `event-${pos}`,
      type: "RunStarted",
      subject_pos: 0,
      idempotency_key: `key-${pos}`,
      occurred_at: NOON,
      actor: '{"principal":"tester","token_id":null}',
      correlation_id: null,
      data: `{"number":${pos}}`,
      prev_hash: index === 0 ? head.hash : hashAt(pos - 1),
      hash: hashAt(pos),
      ...given,
    };
  });
}

/** A flush of what the test is about and nothing else. */
export function flushOf(given: Partial<Flush>): Flush {
  return {
    events: [],
    changes: [],
    leasesGranted: [],
    leasesReleased: [],
    answers: [],
    runsFinished: [],
    ...given,
  };
}

/** Changes of one table. */
export function changesOf(
  table: AnyTable,
  given: Partial<Omit<TableChanges, "table">>,
): TableChanges {
  return { table, inserted: [], updated: [], deleted: [], ...given };
}

/** Commits a flush in a transaction of its own. */
export async function commit(store: Store, ws: WorkspaceId, given: Partial<Flush>): Promise<void> {
  await store.transact(ws, (transaction) => transaction.flush(flushOf(given)));
}

/** Appends so many events and answers the new head's position. */
export function append(
  store: Store,
  ws: WorkspaceId,
  count: number,
  given: Partial<RecordedEvent> = {},
): Promise<number> {
  return store.transact(ws, async (transaction) => {
    const events = eventsAfter(transaction.start, count, given);
    await transaction.flush(flushOf({ events }));
    return transaction.start.pos + count;
  });
}

/** A message's row. */
export function message(given: Partial<SensorMessageRow>): SensorMessageRow {
  return {
    sensor_id: "sales",
    message_id: "2026-01-01",
    source: "webhook",
    message_type: null,
    attributes: null,
    payload: null,
    payload_digest: "",
    published_at: null,
    received_at: NOON,
    received_pos: 1,
    state: "FAILED",
    eval_id: null,
    ...given,
  };
}

/** A task's row: running its first attempt. */
export function task(given: Partial<TaskRow>): TaskRow {
  return {
    run_pos: 1,
    task_key: 0,
    asset_index: 0,
    asset_key: "a",
    partition_index: null,
    state: "RUNNING",
    attempt: 1,
    failures: 0,
    lost_attempts: 0,
    lost_pos: null,
    worker_id: null,
    claimed_by: null,
    started_at: null,
    started_pos: null,
    retry_at: null,
    finished_at: null,
    unmet: null,
    downstream: null,
    error: null,
    waits: null,
    remaining: null,
    skipped: null,
    ...given,
  };
}

/** Writes tasks over those there are, or beside them; what is missing before them is ready. */
export async function putTasks(
  store: Store,
  ws: WorkspaceId,
  given: readonly Partial<TaskRow>[],
): Promise<void> {
  const tasks = given.map(task);
  const keys = taskBlockKeys(tasks);
  const blocks = await store.read(ws, (reader) => reader.load(TASK_BLOCKS, keys));
  const before = blocks.flatMap((row) => tasksIn(row));
  const inserted = keys.flatMap(([runPos, block]) => {
    const isIn = (each: TaskRow): boolean =>
      each.run_pos === runPos && Math.floor(each.task_key / BLOCK_TASKS) === block;
    const known = new Map([...before, ...tasks].filter(isIn).map((each) => [each.task_key, each]));
    const edit = new TaskBlockEdit(Number(runPos), Number(block), null);
    const last = Math.max(...known.keys());
    for (let task_key = Number(block) * BLOCK_TASKS; task_key <= last; task_key++) {
      const run_pos = Number(runPos);
      edit.add(known.get(task_key) ?? task({ run_pos, task_key, state: "READY", attempt: 0 }));
    }
    return edit.done() ?? [];
  });
  await commit(store, ws, { changes: [changesOf(TASK_BLOCKS, { deleted: keys })] });
  await commit(store, ws, { changes: [changesOf(TASK_BLOCKS, { inserted })] });
}

/** A run's row: running its one task. */
export function run(given: Partial<RunRow>): RunRow {
  const nothing = Object.fromEntries(
    Object.entries(RUNS.cells).map(([cell, kind]) => [cell, kind === "int" ? 0 : null]),
  );
  const { run_pos = 1 } = given;
  return {
    ...(nothing as unknown as RunRow),
    run_pos,
    run_id: `run-${run_pos}`,
    run_key: `key-${run_pos}`,
    state: "RUNNING",
    trigger_source_ref: { type: "manual", user_id: "tester", request_id: "r" },
    asset_selection: ["a"],
    labels: {},
    requested_at: NOON,
    chunk_index: null,
    ...given,
  };
}

/** A lease. */
export function lease(given: Partial<Lease>): Lease {
  return {
    lease_id: "lease-1",
    worker_id: "worker-1",
    granted_at: NOON,
    expires_at: NOON,
    tasks: [{ run_pos: 1, task_key: 0, attempt: 1, deadline_at: NOON }],
    ...given,
  };
}

/** A row of any table with every cell filled, different for different numbers. */
export function filledRow(table: AnyTable, number: number): AnyRow {
  const entries = Object.entries(table.cells).map(([cell, kind], index) => {
    return [cell, filledCell(cell, kind, number, index)];
  });
  return Object.fromEntries(entries);
}

function filledCell(cell: string, kind: CellKind, number: number, index: number): unknown {
  switch (kind) {
    case "text":
      return `${cell} ${number} "quoted" \\ {a,b} 'é 🙂`;
    case "int":
      return number * 1_000 + index;
    case "json":
      return { cell, list: [number, null, 'a "text" \\ 🙂'], nothing: null };
  }
}
