import { present } from "../../kernel/errors.ts";
import type { Folds, Touch } from "../fold.ts";
import { entitySubject } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { WorkRef } from "../run/events.ts";
import type { Steps } from "../step-runs.ts";
import type { COUNT_EVENTS } from "./events.ts";
import type { CountRow } from "./rows.ts";

function change(rows: Rows, id: string, to: (row: CountRow) => Partial<CountRow>): void {
  const row = present(rows.counts.get(id), "a count is there before anything happens to it");
  rows.counts.put({ ...row, ...to(row) });
}

/** How many numbers a chunk has. */
export function sizeOf({ to, chunk_size }: CountRow, index: number): number {
  return Math.min(chunk_size, to - index * chunk_size);
}

/** How counts change by their own events. */
export const COUNT_FOLDS: Folds<keyof typeof COUNT_EVENTS> = {
  CountMade: {
    subject: ({ count_id }) => entitySubject(count_id),
    touches: () => [],
    apply(rows, { data, pos, occurred_at }) {
      rows.counts.insert({
        ...data,
        state: "RUNNING",
        state_version: 1,
        next: 0,
        again: [],
        failed: [],
        runs: [],
        requested: 0,
        counted: 0,
        created_at: occurred_at,
        created_pos: pos,
      });
    },
  },
  CountStateChanged: {
    subject: ({ count_id }) => entitySubject(count_id),
    touches: ({ count_id }) => [["counts", [count_id]]],
    apply(rows, { data: { count_id, to_state, state_version, retries } }) {
      change(rows, count_id, ({ again, failed }) => ({
        state: to_state,
        state_version,
        ...(retries && { again: [...again, ...failed], failed: [] }),
      }));
    },
  },
};

/** How counts change by their runs. */
export const COUNT_STEPS: Steps<WorkRef> = {
  touches: ({ id }): Touch[] => [["counts", [id]]],
  queue(rows, { id, index }, { run_pos }) {
    change(rows, id, ({ next, again, runs, requested }) => ({
      next: Math.max(next, index + 1),
      again: again.filter((each) => each !== index),
      runs: [...runs, run_pos],
      requested: requested + 1,
    }));
  },
  finish(rows, { id, index }, outcome, { run_pos }) {
    change(rows, id, (row) => ({
      runs: row.runs.filter((each) => each !== run_pos),
      ...(outcome === "SUCCEEDED" && { counted: row.counted + sizeOf(row, index) }),
      ...(outcome === "FAILED" && { failed: [...row.failed, index] }),
      ...(outcome === "CANCELLED" && { again: [...row.again, index] }),
    }));
  },
};
