import { OPEN_SPLITS } from "../work/split/rows.ts";
import { ACTIVE_RUNS } from "../work/run/rows.ts";
import { OPEN_MOVES } from "../work/move/rows.ts";
import { OPEN_BACKFILLS } from "../work/backfill/rows.ts";
import type { AnyTable, Condition, KeyPart } from "../kernel/table.ts";

/** What a partial index holds: the conditions that lead there, and the words of both schemas. */
export type PartialIndex = {
  readonly table: string;
  readonly name: string;
  readonly holds: readonly Condition[];
  readonly predicate: string;
};

/** The partial indexes of both schemas. */
export const PARTIAL_INDEXES: readonly PartialIndex[] = [
  {
    table: "backfills",
    name: "backfills_active",
    holds: [OPEN_BACKFILLS],
    predicate: "state in ('PENDING', 'RUNNING', 'PAUSED', 'CANCELLING')",
  },
  {
    table: "backfills",
    name: "backfills_by_parent",
    holds: [{ cell: "parent_backfill_id", is: "not null" }],
    predicate: "parent_backfill_id is not null",
  },
  {
    table: "chunks",
    name: "chunks_unsuccessful",
    // Not the active ones, so that a chunk that goes well costs the index nothing.
    holds: [{ cell: "state", is: "in", values: ["PENDING", "FAILED", "CANCELLED", "SPLIT"] }],
    predicate: "state in ('PENDING', 'FAILED', 'CANCELLED', 'SPLIT')",
  },
  {
    table: "backfills",
    name: "backfills_failed",
    holds: [{ cell: "state", is: "=", value: "FAILED" }],
    predicate: "state = 'FAILED'",
  },
  {
    table: "runs",
    name: "runs_failed",
    holds: [
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "backfill_id", is: "null" },
    ],
    predicate: "state = 'FAILED' and backfill_id is null",
  },
  {
    table: "runs",
    name: "runs_active",
    holds: [ACTIVE_RUNS],
    predicate: "state in ('PENDING', 'RUNNING')",
  },
  {
    table: "runs",
    name: "runs_cancelling",
    holds: [{ cell: "cancel_deadline_at", is: "not null" }, ACTIVE_RUNS],
    predicate: "cancel_deadline_at is not null and state in ('PENDING', 'RUNNING')",
  },
  {
    table: "run_assets",
    name: "run_assets_ready",
    holds: [{ cell: "ready", is: ">", value: 0 }],
    predicate: "ready > 0",
  },
  {
    table: "run_assets",
    name: "run_assets_running",
    holds: [{ cell: "running", is: ">", value: 0 }],
    predicate: "running > 0",
  },
  {
    table: "tasks",
    name: "tasks_retrying",
    // A task that waits has its time. By the state, PostgreSQL would write all indexes anew each
    // time a task starts.
    holds: [{ cell: "state", is: "=", value: "RETRY_WAIT" }],
    predicate: "retry_at is not null",
  },
  {
    table: "schedules",
    name: "schedules_due",
    holds: [{ cell: "due_at", is: "not null" }],
    predicate: "due_at is not null",
  },
  {
    table: "sensor_messages",
    name: "sensor_messages_pending",
    holds: [{ cell: "state", is: "=", value: "PENDING" }],
    predicate: "state = 'PENDING'",
  },
  {
    table: "syncs",
    name: "syncs_active",
    holds: [{ cell: "state", is: "in", values: ["PENDING", "RUNNING", "PAUSED", "FOLLOWING"] }],
    predicate: "state in ('PENDING', 'RUNNING', 'PAUSED', 'FOLLOWING')",
  },
  {
    table: "segments",
    name: "segments_open",
    holds: [{ cell: "status", is: "in", values: ["PENDING", "RUNNING", "FAILED", "QUARANTINED"] }],
    predicate: "status in ('PENDING', 'RUNNING', 'FAILED', 'QUARANTINED')",
  },
  {
    table: "segments",
    name: "segments_active",
    holds: [{ cell: "run_pos", is: "not null" }],
    predicate: "run_pos is not null",
  },
  {
    table: "segments",
    name: "segments_quarantined",
    holds: [{ cell: "status", is: "=", value: "QUARANTINED" }],
    predicate: "status = 'QUARANTINED'",
  },
  {
    table: "segments",
    name: "segments_verifying",
    holds: [{ cell: "verification", is: "not null" }],
    predicate: "verification is not null",
  },
  {
    table: "splits",
    name: "splits_open",
    holds: [OPEN_SPLITS],
    predicate:
      "phase in ('planning', 'dual_write', 'backfill', 'tailing', 'cutover_pending', 'reversible')",
  },
  {
    table: "splits",
    name: "splits_removing",
    holds: [{ cell: "remove_after", is: "not null" }],
    predicate: "remove_after is not null",
  },
  {
    table: "splits",
    name: "splits_due",
    holds: [{ cell: "due_at", is: "not null" }],
    predicate: "due_at is not null",
  },
  {
    table: "moves",
    name: "moves_open",
    holds: [OPEN_MOVES],
    predicate: "state in ('PLANNED', 'RUNNING', 'PAUSED')",
  },
  {
    table: "move_segments",
    name: "move_segments_active",
    holds: [{ cell: "run_pos", is: "not null" }],
    predicate: "run_pos is not null",
  },
];

/** The same by table: every look-up asks for those of one. */
const BY_TABLE = Map.groupBy(PARTIAL_INDEXES, ({ table }) => table);

/** The indexes whose predicates follow from the conditions: what the look-up may say in their words. */
export function impliedIndexes(
  table: AnyTable,
  conditions: readonly Condition[],
): readonly PartialIndex[] {
  const indexes = BY_TABLE.get(table.name) ?? [];
  return indexes.filter(({ holds }) =>
    holds.every((held) => conditions.some((given) => implies(given, held))),
  );
}

/** Whether a condition says nothing that an index does not say of all its rows. */
export function isSaidBy({ holds }: PartialIndex, given: Condition): boolean {
  return holds.some((held) => implies(given, held) && implies(held, given));
}

function implies(given: Condition, held: Condition): boolean {
  if (given.is === "after" || held.is === "after" || given.cell !== held.cell) return false;
  if (held.is === "not null") return given.is !== "null";
  if (held.is === "null") return given.is === "null";
  if ("values" in held)
    return valuesOf(given)?.every((value) => held.values.includes(value)) === true;
  if (held.is === "=") return valuesOf(given)?.every((value) => value === held.value) === true;
  if (held.is !== ">" || !("value" in held)) return false;
  if (given.is === ">" && "value" in given) return given.value >= held.value;
  return valuesOf(given)?.every((value) => value > held.value) === true;
}

/** The only values that a cell can have, when the condition lists them. */
function valuesOf(condition: Condition): readonly KeyPart[] | null {
  if (condition.is === "=" && "value" in condition) return [condition.value];
  return condition.is === "in" && "values" in condition ? condition.values : null;
}
