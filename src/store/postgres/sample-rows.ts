import type pg from "pg";
import type { Sample, SamplePoint, WorkspaceId } from "../store.ts";
import { arrayText } from "./connection.ts";
import { rowsOf } from "./side-rows.ts";

// In the order of their key, so that two servers that write the same buckets never wait for each other.
const WRITE = `
insert into pawl.samples as kept (ws, series, at, value)
select $1, series, at, value
from unnest($2::text[], $3::bigint[], $4::bigint[]) as item (series, at, value)
order by series, at
on conflict (ws, series, at) do update`;

const ADD = `${WRITE}
set value = kept.value + excluded.value`;

const SET = `${WRITE}
set value = excluded.value`;

const READ = `
select at, value
from pawl.samples
where ws = $1 and series = $2 and at >= $3 and at < $4
order by at`;

// What another server is just dropping is left to it. Buckets are deleted where they lie, however few
// PostgreSQL believes the table to have.
const PRUNE = `
delete from pawl.samples
where ctid = any (array(
  select ctid
  from pawl.samples
  where ws = $1 and at < $2
  order by at
  limit $3
  for update skip locked
))
returning 1`;

/** Adds to what the buckets hold. */
export async function addSamples(
  pool: pg.Pool,
  ws: WorkspaceId,
  samples: readonly Sample[],
): Promise<void> {
  await write(
    pool,
    ws,
    ADD,
    merged(samples, (sum, value) => sum + value),
  );
}

/** Writes over what the buckets hold. */
export async function setSamples(
  pool: pg.Pool,
  ws: WorkspaceId,
  samples: readonly Sample[],
): Promise<void> {
  await write(
    pool,
    ws,
    SET,
    merged(samples, (_, value) => value),
  );
}

/** The buckets of a series from a time on and before another, in order. */
export async function samplesOf(
  pool: pg.Pool,
  ws: WorkspaceId,
  series: string,
  from: number,
  until: number,
): Promise<SamplePoint[]> {
  const rows = await rowsOf(pool, READ, [ws, series, from, until]);
  return rows.map(([at, value]) => [Number(at), Number(value)]);
}

/** Drops the oldest buckets of those before a time. */
export async function pruneSamples(
  pool: pg.Pool,
  ws: WorkspaceId,
  before: number,
  limit: number,
): Promise<number> {
  return (await rowsOf(pool, PRUNE, [ws, before, limit])).length;
}

async function write(
  pool: pg.Pool,
  ws: WorkspaceId,
  sql: string,
  samples: readonly Sample[],
): Promise<void> {
  if (samples.length === 0) return;
  const columns = [
    samples.map(({ series }) => series),
    samples.map(({ at }) => at),
    samples.map(({ value }) => value),
  ];
  await rowsOf(pool, sql, [ws, ...columns.map(arrayText)]);
}

/** One statement may write a row only once, so what is about one bucket becomes one. */
function merged(
  samples: readonly Sample[],
  merge: (before: number, value: number) => number,
): Sample[] {
  const known = new Map<string, Sample>();
  for (const sample of samples) {
    const name = `${sample.at} ${sample.series}`;
    const before = known.get(name);
    const value = before === undefined ? sample.value : merge(before.value, sample.value);
    known.set(name, { ...sample, value });
  }
  return [...known.values()];
}
