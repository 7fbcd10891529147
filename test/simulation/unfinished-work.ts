import type { BackfillRow } from "../../src/work/backfill/rows.ts";
import { addMs } from "../../src/kernel/instant.ts";
import { TABLES } from "../../src/work/tables.ts";
import type { Store, Workspace } from "../../src/store/store.ts";

/** How late a schedule may be while a server is there: what one sweep and its commit may take. */
const OVERDUE_MS = 3_000;

/** Active schedules that nobody has looked at although they have been due for a while. */
export async function overdueSchedules(store: Store, { ws }: Workspace): Promise<string[]> {
  const now = await store.now();
  return store.read(ws, async (reader) => {
    const due = await reader.find({
      table: TABLES.schedules,
      where: [{ cell: "due_at", is: "<=", value: addMs(now, -OVERDUE_MS) }],
      order: [],
      limit: 1_000,
    });
    return due.map(({ name, due_at }) => `schedule ${name} is due at ${due_at}`);
  });
}

/** Schedules that would go on asking for runs within the hour. */
export async function busySchedules(store: Store, { ws }: Workspace): Promise<string[]> {
  const now = await store.now();
  return store.read(ws, async (reader) => {
    const active = await reader.find({
      table: TABLES.schedules,
      where: [
        { cell: "state", is: "=", value: "ACTIVE" },
        { cell: "next_due_at", is: "<=", value: addMs(now, 3_600_000) },
      ],
      order: [],
      limit: 1_000,
    });
    return active.map(({ schedule_id }) => schedule_id);
  });
}

/** What has not ended and waits for nobody but the system itself. */
export async function unfinishedWork(store: Store, { ws }: Workspace): Promise<string[]> {
  return store.read(ws, async (reader) => {
    const [backfills, runs] = await Promise.all([
      reader.find({ table: TABLES.backfills, where: [], order: [], limit: 10_000 }),
      reader.find({
        table: TABLES.runs,
        where: [{ cell: "state", is: "in", values: ["PENDING", "RUNNING"] }],
        order: [],
        limit: 10_000,
      }),
    ]);
    const byId = new Map(backfills.map((row) => [row.backfill_id, row]));
    return [
      ...runs.map((run) => `run ${run.run_pos} is ${run.state}`),
      ...[...byId.values()]
        .filter((backfill) => !isEnded(backfill) && !waitsForPerson(backfill, byId))
        .map(({ backfill_id, state }) => `backfill ${backfill_id} is ${state}`),
    ];
  });
}

function isEnded({ state }: BackfillRow): boolean {
  return state === "SUCCEEDED" || state === "FAILED" || state === "CANCELLED";
}

/** Paused, or behind one that is paused or did not succeed. */
function waitsForPerson(backfill: BackfillRow, byId: ReadonlyMap<string, BackfillRow>): boolean {
  if (backfill.state === "PAUSED") return true;
  if (backfill.state !== "PENDING" || backfill.after_backfill_id === null) return false;
  const earlier = byId.get(backfill.after_backfill_id);
  if (earlier === undefined) return false;
  if (!isEnded(earlier)) return waitsForPerson(earlier, byId);
  return earlier.state !== "SUCCEEDED" && backfill.continue_on_failure === 0;
}
