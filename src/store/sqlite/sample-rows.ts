import type { Sample, SamplePoint, WorkspaceId } from "../store.ts";
import type { Connection } from "./connection.ts";

const ADD = `
insert into samples (ws, series, at, value)
values (?, ?, ?, ?)
on conflict (ws, series, at) do update
set value = value + excluded.value`;

const SET = `
insert into samples (ws, series, at, value)
values (?, ?, ?, ?)
on conflict (ws, series, at) do update
set value = excluded.value`;

const READ = `
select at, value
from samples
where ws = ? and series = ? and at >= ? and at < ?
order by at`;

const PRUNE = `
delete from samples
where ws = ? and (series, at) in (
  select series, at
  from samples
  where ws = ? and at < ?
  order by at
  limit ?
)`;

/** Adds to what the buckets hold. */
export function addSamples(
  connection: Connection,
  ws: WorkspaceId,
  samples: readonly Sample[],
): void {
  for (const { series, at, value } of samples) connection.run(ADD, [ws, series, at, value]);
}

/** Writes over what the buckets hold. */
export function setSamples(
  connection: Connection,
  ws: WorkspaceId,
  samples: readonly Sample[],
): void {
  for (const { series, at, value } of samples) connection.run(SET, [ws, series, at, value]);
}

/** The buckets of a series from a time on and before another, in order. */
export function samplesOf(
  connection: Connection,
  ws: WorkspaceId,
  series: string,
  from: number,
  until: number,
): SamplePoint[] {
  const rows = connection.rows(READ, [ws, series, from, until]);
  return rows.map(([at, value]) => [Number(at), Number(value)]);
}

/** Drops the oldest buckets of those before a time. */
export function pruneSamples(
  connection: Connection,
  ws: WorkspaceId,
  before: number,
  limit: number,
): number {
  return connection.run(PRUNE, [ws, ws, before, limit]);
}
