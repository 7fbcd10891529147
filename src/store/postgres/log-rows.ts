import type pg from "pg";
import { encoded } from "../row-reader.ts";
import { LOG_LINE_BYTES } from "../side-tables.ts";
import type { Fenced, LineVerdict, LogPruning, LogQuota, SaidLine, WorkspaceId } from "../store.ts";
import { arrayText } from "./connection.ts";
import { CURRENT, FENCE_ARRAYS, FENCE_CELLS, rowsOf } from "./side-rows.ts";

/** Rows that the bytes of a workspace's logs are spread over. */
const SLOTS = 16;

// The length of a text in bytes is known without reading it.
const LINE_BYTES = `${LOG_LINE_BYTES} + octet_length(message) + coalesce(octet_length(fields), 0)`;

/*
 * One statement for all. The log of a run is locked before it is measured, so that those who write at
 * once share its quota, and always in the order of the runs; a run that logs for the first time has no
 * row to lock yet. Where lines are dropped a notice takes the place of the first of them, unless it is
 * what the task's log ends with already. A line that ends an attempt has a quota of its own, by what is
 * kept before it.
 */
const APPEND = `
with item as (
  select *, ${LINE_BYTES} as bytes
  from unnest(${FENCE_ARRAYS}, $6::text[], $7::text[], $10::int[]) with ordinality
    as item (${FENCE_CELLS}, message, fields, is_end, place)
), ${CURRENT}, said as (
  select item.* from item join current using (${FENCE_CELLS})
), held as (
  select found.run_pos, found.bytes
  from (select distinct run_pos from said order by 1) asked
  cross join lateral (
    select kept.run_pos, kept.bytes
    from pawl.run_logs kept
    where kept.ws = $1 and kept.run_pos = asked.run_pos
    for update
  ) found
), plain as (
  select said.*, coalesce(held.bytes, 0) as before, is_end = 0 and coalesce(held.bytes, 0)
    + sum(said.bytes) over (partition by run_pos order by place) <= $8::bigint as fits_plainly
  from said left join held using (run_pos)
), measured as (
  select ${FENCE_CELLS}, message, fields, place, bytes, is_end, case when is_end = 0 then fits_plainly
    else before + sum(bytes) filter (where fits_plainly or is_end = 1)
      over (partition by run_pos order by place) <= $11::bigint end as fits
  from plain
), cut as (
  select ${FENCE_CELLS}, min(place) filter (where not fits) as place,
    bool_or(fits and is_end = 0) as goes_on
  from measured
  group by ${FENCE_CELLS}
), notice as (
  select ${FENCE_CELLS}, $9::text as message, null::text as fields, place,
    ${LOG_LINE_BYTES} + octet_length($9::text) as bytes
  from cut
  where place is not null and (goes_on or not exists (
    select 1 from (
      select attempt, message from pawl.task_logs newest
      where newest.ws = $1 and newest.run_pos = cut.run_pos and newest.task_key = cut.task_key
      order by line desc
      limit 1
    ) newest
    where newest.attempt = cut.attempt and newest.message = $9::text
  ))
), line as (
  select ${FENCE_CELLS}, message, fields, place, bytes from measured where fits
  union all
  select ${FENCE_CELLS}, message, fields, place, bytes from notice
), appended as (
  insert into pawl.task_logs (ws, ${FENCE_CELLS}, at, message, fields)
  select $1, ${FENCE_CELLS}, pawl.instant(clock_timestamp()), message, fields
  from line
  order by place
), added as (
  select run_pos, coalesce(sum(line.bytes), 0) as bytes,
    (select count(*) from measured where measured.run_pos = run.run_pos and not fits) as dropped
  from (select distinct run_pos from said) run
  left join line using (run_pos)
  group by run_pos
), counted as (
  insert into pawl.run_logs as kept (ws, run_pos, began_at, last_at, bytes, dropped)
  select $1, run_pos, pawl.instant(clock_timestamp()), pawl.instant(clock_timestamp()), bytes, dropped
  from added
  order by run_pos
  on conflict (ws, run_pos) do update
  set last_at = excluded.last_at, bytes = kept.bytes + excluded.bytes,
    dropped = kept.dropped + excluded.dropped
  returning 1
), totalled as (
  insert into pawl.log_totals as kept (ws, slot, bytes)
  select $1, pg_backend_pid() % ${SLOTS}, sum(bytes)
  from added
  where (select count(*) from counted) > 0
  having sum(bytes) > 0
  on conflict (ws, slot) do update
  set bytes = kept.bytes + excluded.bytes
)
select place, fits::int::bigint from measured`;

const ALL_BYTES = "select coalesce(sum(bytes), 0)::bigint from pawl.log_totals where ws = $1";

// Lines go run by run: all but the last of those runs are done with when the number is reached, and all
// of them when it is not. What another server is just dropping is left to it; what it has dropped since
// this statement began is still among the lines that are found, so those are what is counted.
const PRUNE = `
with old as (
  select kept.run_pos, kept.bytes, kept.began_at
  from pawl.run_logs kept
  where kept.ws = $1 and kept.began_at < $2 and kept.last_at < $2 and exists (
    select 1 from pawl.runs run
    where run.ws = $1 and run.run_pos = kept.run_pos and run.state not in ('PENDING', 'RUNNING')
  )
  order by kept.began_at
  limit $3
  for update of kept skip locked
), ranked as (
  select run_pos, bytes, row_number() over oldest as place, sum(bytes) over oldest - bytes as before
  from old
  window oldest as (order by began_at, run_pos)
), chosen as (
  select run_pos, bytes, place from ranked where before < $5
), line as (
  select place, run_pos, task_key, line
  from chosen join pawl.task_logs using (run_pos)
  where ws = $1
  order by place, task_key, line
  limit $4
), gone as (
  delete from pawl.task_logs dropped
  using line
  where dropped.ws = $1 and dropped.run_pos = line.run_pos and dropped.task_key = line.task_key
    and dropped.line = line.line
  returning line.place, ${LINE_BYTES} as bytes
), reached as (
  select case when count(*) < $4 then null else max(place) end as last from line
), freed as (
  select run_pos, place is distinct from last as is_emptied,
    case when place is distinct from last then chosen.bytes
    else (select coalesce(sum(gone.bytes), 0) from gone where gone.place = last) end as bytes
  from chosen, reached
  where last is null or place <= last
), emptied as (
  delete from pawl.run_logs kept
  using freed
  where kept.ws = $1 and kept.run_pos = freed.run_pos and is_emptied
), lessened as (
  update pawl.run_logs kept
  set bytes = greatest(0, kept.bytes - freed.bytes)
  from freed
  where kept.ws = $1 and kept.run_pos = freed.run_pos and not is_emptied
), totalled as (
  insert into pawl.log_totals as kept (ws, slot, bytes)
  select $1, pg_backend_pid() % ${SLOTS}, -sum(bytes) from freed
  having sum(bytes) > 0
  on conflict (ws, slot) do update
  set bytes = kept.bytes + excluded.bytes
)
select (select count(*) from gone), (select coalesce(sum(bytes), 0)::bigint from freed)`;

/** Most runs whose lines one pruning drops. */
const RUNS_PRUNED_MAX = 100;
/** Later than any instant. */
const NEVER = "9999";

/** Keeps the log lines whose fence is current, within the run's quota, and answers which. */
export async function appendLogs(
  pool: pg.Pool,
  ws: WorkspaceId,
  holder: string,
  lines: readonly Fenced<SaidLine>[],
  { runBytesMax, endBytesMax = runBytesMax, notice }: LogQuota,
): Promise<LineVerdict[]> {
  if (lines.length === 0) return [];
  const columns = [
    lines.map(({ run_pos }) => run_pos),
    lines.map(({ task_key }) => task_key),
    lines.map(({ attempt }) => attempt),
    lines.map(({ message }) => message),
    lines.map(({ fields }) => encoded("json", fields)),
  ].map(arrayText);
  const ends = arrayText(lines.map(({ ends_attempt }) => (ends_attempt === true ? 1 : 0)));
  const quota = [runBytesMax, notice, ends, endBytesMax];
  const rows = await rowsOf(pool, APPEND, [ws, holder, ...columns, ...quota]);
  const verdicts = lines.map((): LineVerdict => "lost");
  for (const [place, fits] of rows) verdicts[Number(place) - 1] = fits === 1 ? "kept" : "dropped";
  return verdicts;
}

/** The bytes of all kept log lines. */
export async function logBytes(pool: pg.Pool, ws: WorkspaceId): Promise<number> {
  const [row] = await rowsOf(pool, ALL_BYTES, [ws]);
  return Number(row?.[0]);
}

/** Drops the oldest lines of ended runs, and answers how many, and how many bytes they had. */
export async function pruneLogs(
  pool: pg.Pool,
  ws: WorkspaceId,
  { silentSince, bytesEnough, linesMax }: LogPruning,
): Promise<{ lines: number; bytes: number }> {
  const parameters = [ws, silentSince ?? NEVER, RUNS_PRUNED_MAX, linesMax, bytesEnough];
  const [row] = await rowsOf(pool, PRUNE, parameters);
  return { lines: Number(row?.[0]), bytes: Number(row?.[1]) };
}
