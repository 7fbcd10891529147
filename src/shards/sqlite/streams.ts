import { z } from "zod";
import { ShardKey } from "../../core/step-protocol.ts";
import type { Guard, StreamState } from "../shard.ts";
import type { Connection } from "./connection.ts";
import { isInstalled } from "./install.ts";
import { checkGuard } from "./plans.ts";

const LOAD = "select state from _pawl_streams where stream = ?";
const LIST = "select stream, state from _pawl_streams where plan = ? order by stream";
const SAVE = `
  insert into _pawl_streams (stream, plan, state) values (?, ?, ?)
  on conflict (stream) do update set plan = excluded.plan, state = excluded.state`;

/** The state of a stream in JSON. Its fields are in a fixed order, so that equal states are equal texts. */
export const StreamStateJson = z.object({
  position: z.string().nullable(),
  reaching: z.object({ to: z.string(), after_id: z.string() }).nullable(),
  cursor: z.object({ table: z.int(), key: ShardKey.nullable() }),
  phase: z.enum(["copy", "tail"]),
  rows: z.array(z.int()),
  fingerprint: z.string(),
  verified: z
    .object({
      table: z.int(),
      below: ShardKey.nullable(),
      from: z.string(),
      ranges: z.int(),
      rows: z.int(),
    })
    .nullable(),
});

/** The state of a stream into this shard. */
export function loadStream(db: Connection, stream: string): StreamState | null {
  if (!isInstalled(db)) return null;
  const text = db.value(LOAD, stream);
  return text === null ? null : StreamStateJson.parse(JSON.parse(String(text)));
}

/** The streams of a plan, by name. */
export function listStreams(
  db: Connection,
  plan: string,
): { stream: string; state: StreamState }[] {
  if (!isInstalled(db)) return [];
  return db.all(LIST, plan).map(([stream, text]) => ({
    stream: String(stream),
    state: StreamStateJson.parse(JSON.parse(String(text))),
  }));
}

/** Keeps the state of a stream. */
export function saveStream(db: Connection, plan: string, stream: string, state: StreamState): void {
  db.run(SAVE, stream, plan, stateText(state));
}

/** Drops a stream of the guard's plan. */
export function dropStream(db: Connection, guard: Guard, stream: string): void {
  checkGuard(db, guard);
  db.run("delete from _pawl_streams where stream = ? and plan = ?", stream, guard.plan);
}

/** Whether two states are the same. */
export function sameState(one: StreamState | null, other: StreamState | null): boolean {
  if (one === null || other === null) return one === other;
  return stateText(one) === stateText(other);
}

function stateText(state: StreamState): string {
  return JSON.stringify(StreamStateJson.parse(state));
}
