import { z } from "zod";
import { currentAsset } from "../asset/look-up.ts";
import { type CommandRules, commandsAbout, idle, legal, notFound, refused } from "../command.ts";
import type { Decide } from "../decision.ts";
import type { WorkChanged, WorkCommand } from "../kind.ts";
import { stateChanged } from "./advance.ts";
import type { CountRow, CountState } from "./rows.ts";

/** What making a count takes. */
export const CountInput = z.strictObject({
  asset: z.string().min(1).max(500).describe("the asset that counts a chunk"),
  to: z.int().min(1).max(1_000_000).describe("the number to count to"),
  chunk_size: z.int().min(1).max(1_000_000).default(10).describe("numbers in a chunk"),
});

/** Makes a count. */
export function makeCount({
  asset,
  to,
  chunk_size,
}: z.infer<typeof CountInput>): Decide<WorkChanged> {
  return (rows, context) => {
    const { spec, spec_hash } = currentAsset(rows, asset);
    const count_id = context.newId();
    const data = { count_id, asset_key: spec.asset_key, spec_hash, to, chunk_size };
    return {
      events: [{ type: "CountMade", idempotency_key: `count:${count_id}`, data }],
      result: { id: count_id, state: "RUNNING", state_version: 1 },
    };
  };
}

/** What can be asked of a count, and in which states. */
export const COUNT_RULES = {
  pause: {
    action: "pausing",
    effect: "starts no further chunk",
    when: { RUNNING: true, PAUSED: idle("It is paused already.") },
  },
  resume: { action: "resuming", effect: "goes on", when: legal("PAUSED") },
  retry: {
    action: "retrying",
    effect: "runs its failed chunks again",
    when: {
      RUNNING: ({ failed }) => (failed.length === 0 ? idle("No chunk has failed.") : null),
      FAILED: true,
      COMPLETE: refused("It is complete."),
    },
  },
  cancel: {
    action: "cancelling",
    effect: "stops its runs and ends it for good",
    when: legal("RUNNING", "PAUSED", "FAILED"),
  },
} as const satisfies CommandRules<CountRow, CountState>;

const command = commandsAbout<CountRow, CountState, CountRow, { id: string }>({
  title: ({ count_id }) => `Count ${count_id}`,
  stateOf: ({ state }) => state,
  details: ({ state, state_version }) => ({ state, state_version }),
  known(rows, { id }) {
    const row = rows.counts.get(id);
    if (row === null) throw notFound("WORK_NOT_FOUND", "count", id);
    return row;
  },
  factsOf: (row) => row,
});

function turn(name: keyof typeof COUNT_RULES, state: CountState) {
  return command(COUNT_RULES[name], (row, said: WorkCommand, _rows, _context, isIdle) => {
    const { count_id: id, state_version } = row;
    if (isIdle) return { events: [], result: { id, state: row.state, state_version } };
    const event = stateChanged(row, state, { reason: said.reason, retries: name === "retry" });
    return { events: [event], result: { id, state, state_version: state_version + 1 } };
  });
}

/** Everything that can be asked of a count. */
export const COUNT_COMMANDS = {
  pause: turn("pause", "PAUSED"),
  resume: turn("resume", "RUNNING"),
  retry: turn("retry", "RUNNING"),
  cancel: turn("cancel", "CANCELLED"),
};
