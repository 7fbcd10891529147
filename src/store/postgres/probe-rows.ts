import type pg from "pg";
import type { Learnt } from "../../work/probe-protocol.ts";
import { decoded, decodeRow, encoded, rowCodec } from "../row-reader.ts";
import { LEARNT_SOURCES, NOTHING_LEARNT, PROBES, SOURCE_USERS_MAX } from "../side-tables.ts";
import { cellList } from "../statements.ts";
import type {
  LearntSource,
  NewProbe,
  Probe,
  ProbeClaim,
  ProbeEnd,
  ProbeFence,
  ProbeKind,
  SharedSource,
  SourceUse,
  WorkspaceId,
} from "../store.ts";
import { arrayText } from "./connection.ts";
import { rowsOf } from "./side-rows.ts";

// Statements about many rows take them in the order of their ids: two at once wait, but never for
// each other.

const ADD = `
insert into pawl.probes (ws, probe_id, kind, subject, due_at, attempt, leased_until, value)
select $1, probe_id, kind, subject, due_at, 0, null, value
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) with ordinality
  as item (probe_id, kind, subject, due_at, value, place)
order by probe_id, place
on conflict do nothing`;

const RESCHEDULE = `
with changed as (
  select probe.probe_id, item.due_at
  from unnest($2::text[], $3::text[]) as item (probe_id, due_at)
  join pawl.probes probe on probe.ws = $1 and probe.probe_id = item.probe_id
  where probe.due_at <> item.due_at
  order by probe.probe_id
  for update of probe
)
update pawl.probes probe
set due_at = changed.due_at
from changed
where probe.ws = $1 and probe.probe_id = changed.probe_id`;

/** So many servers may lease at the same moment before one goes away with less than there is. */
const SERVERS_AT_ONCE = 2;

// The clock stands still during a statement, so that the index is searched with it.
const TIME = "statement_timestamp() + $5::float8 * interval '1 millisecond'";
const DUE_AND_FREE = `probe.due_at <= pawl.instant(${TIME})
    and (probe.leased_until is null or probe.leased_until <= pawl.instant(${TIME}))`;

/**
 * One kind, or one kind and subject, at a time: so the index gives the rows in order, and a long
 * queue is read only as far as needed. Only then are rows locked, those that others hold passed
 * over; PostgreSQL checks the newest version of a row that it locks, hence the condition once more.
 */
function leaseStatement(scope: string, isOfScope: string): string {
  return `
with picked as (
  select probe.probe_id
  from (
    select due.probe_id, due.due_at
    from ${scope}
    cross join lateral (
      select probe.probe_id, probe.due_at
      from pawl.probes probe
      where probe.ws = $1 and ${isOfScope}
        and ${DUE_AND_FREE}
      order by probe.due_at, probe.probe_id
      limit $4 * ${SERVERS_AT_ONCE}
    ) due
    order by due.due_at, due.probe_id
    limit $4 * ${SERVERS_AT_ONCE}
  ) candidate
  join pawl.probes probe on probe.ws = $1 and probe.probe_id = candidate.probe_id
  where ${DUE_AND_FREE}
  order by candidate.due_at, candidate.probe_id
  limit $4
  for update of probe skip locked
), leased as (
  update pawl.probes probe
  set attempt = probe.attempt + 1,
    leased_until = pawl.instant(${TIME} + $3 * interval '1 millisecond'),
    leased_by = $6::text
  from picked
  where probe.ws = $1 and probe.probe_id = picked.probe_id
  returning probe.*
)
select ${cellList(PROBES)}
from leased
order by due_at, probe_id`;
}

const LEASE_OF_KINDS = leaseStatement(
  "unnest($2::text[]) as kind (kind)",
  "probe.kind = kind.kind",
);

const LEASE_OF_SUBJECTS = leaseStatement(
  "unnest($2::text[]) as kind (kind) cross join unnest($7::text[]) as subject (subject)",
  "probe.kind = kind.kind and probe.subject = subject.subject",
);

// The fence: nobody leased it since, and the lease has not been settled. One that ran out counts.
const SETTLE = `
with current as (
  select probe.probe_id, probe.attempt, item.due_at, item.value
  from unnest($2::text[], $3::bigint[], $4::text[], $5::text[])
    as item (probe_id, attempt, due_at, value)
  join pawl.probes probe on probe.ws = $1 and probe.probe_id = item.probe_id
  where probe.attempt = item.attempt and probe.leased_until is not null
  order by probe.probe_id
  for update of probe
), kept as (
  update pawl.probes probe
  set due_at = current.due_at, value = current.value, leased_until = null
  from current
  where probe.ws = $1 and probe.probe_id = current.probe_id and current.due_at is not null
), ended as (
  delete from pawl.probes probe
  using current
  where probe.ws = $1 and probe.probe_id = current.probe_id and current.due_at is null
)
select attempt, probe_id from current`;

const RENEW = `
with current as (
  select probe.probe_id, probe.attempt
  from unnest($2::text[], $3::bigint[], $5::text[]) as item (probe_id, attempt, leased_by)
  join pawl.probes probe on probe.ws = $1 and probe.probe_id = item.probe_id
  where probe.attempt = item.attempt and probe.leased_until is not null
    and probe.leased_by is not distinct from item.leased_by
  order by probe.probe_id
  for update of probe
), renewed as (
  update pawl.probes probe
  set leased_until = greatest(
    probe.leased_until,
    pawl.instant(statement_timestamp() + $4 * interval '1 millisecond')
  )
  from current
  where probe.ws = $1 and probe.probe_id = current.probe_id
)
select attempt, probe_id from current`;

const REMOVE = `
with found as (
  select probe_id
  from pawl.probes
  where ws = $1 and kind = any($2::text[]) and subject = $3
  order by probe_id
  for update
)
delete from pawl.probes probe
using found
where probe.ws = $1 and probe.probe_id = found.probe_id`;

/** Writes the probes that are not there yet. */
export async function addProbes(
  pool: pg.Pool,
  ws: WorkspaceId,
  probes: readonly NewProbe[],
): Promise<void> {
  if (probes.length === 0) return;
  const columns = [
    probes.map(({ probe_id }) => probe_id),
    probes.map(({ kind }) => kind),
    probes.map(({ subject }) => subject),
    probes.map(({ due_at }) => due_at),
    probes.map(({ value }) => encoded("json", value)),
  ];
  await rowsOf(pool, ADD, [ws, ...columns.map(arrayText)]);
}

/** Makes the probes that exist due at another time. */
export async function rescheduleProbes(
  pool: pg.Pool,
  ws: WorkspaceId,
  probes: readonly Pick<Probe, "probe_id" | "due_at">[],
): Promise<void> {
  if (probes.length === 0) return;
  // One statement may write a row only once, so of several times for one probe the last is it.
  const dueAt = new Map(probes.map(({ probe_id, due_at }) => [probe_id, due_at]));
  const columns = [[...dueAt.keys()], [...dueAt.values()]];
  await rowsOf(pool, RESCHEDULE, [ws, ...columns.map(arrayText)]);
}

/** Leases the probes that are due and free, soonest first. */
export async function leaseProbes(
  pool: pg.Pool,
  ws: WorkspaceId,
  { kinds, subjects, limit, ttlMs, holder }: ProbeClaim,
  aheadMs: number,
): Promise<Probe[]> {
  const parameters = [ws, arrayText([...new Set(kinds)]), ttlMs, limit, aheadMs, holder];
  const rows =
    subjects === null
      ? await rowsOf(pool, LEASE_OF_KINDS, parameters)
      : await rowsOf(pool, LEASE_OF_SUBJECTS, [...parameters, arrayText([...new Set(subjects)])]);
  const codec = rowCodec(PROBES);
  return rows.map((values) => decodeRow(codec, values));
}

/** Ends the leases whose fence is current, and answers which. */
export async function settleProbes(
  pool: pg.Pool,
  ws: WorkspaceId,
  ends: readonly ProbeEnd[],
): Promise<boolean[]> {
  if (ends.length === 0) return [];
  // A lease ends once, so of several ends under one fence the first is it.
  const firsts = new Map(ends.toReversed().map((end) => [fenceText(end), end]));
  const written = [...firsts.values()];
  const columns = [
    written.map(({ probe_id }) => probe_id),
    written.map(({ attempt }) => attempt),
    written.map(({ due_at }) => due_at),
    written.map(({ value }) => encoded("json", value)),
  ];
  const rows = await rowsOf(pool, SETTLE, [ws, ...columns.map(arrayText)]);
  const settled = new Set(rows.map((row) => row.join(" ")));
  // Taken out once answered: the second under the same fence came too late.
  return ends.map((end) => settled.delete(fenceText(end)));
}

/** Keeps the leases whose fence is current for so long from now, and answers which. */
export async function renewProbes(
  pool: pg.Pool,
  ws: WorkspaceId,
  fences: readonly ProbeFence[],
  ttlMs: number,
): Promise<boolean[]> {
  if (fences.length === 0) return [];
  const columns = [fences.map(({ probe_id }) => probe_id), fences.map(({ attempt }) => attempt)];
  const holders = arrayText(fences.map(({ leased_by }) => leased_by));
  const rows = await rowsOf(pool, RENEW, [ws, ...columns.map(arrayText), ttlMs, holders]);
  const renewed = new Set(rows.map((row) => row.join(" ")));
  return fences.map((fence) => renewed.has(fenceText(fence)));
}

/** Forgets the probes of these kinds about the subject. */
export async function removeProbes(
  pool: pg.Pool,
  ws: WorkspaceId,
  kinds: readonly ProbeKind[],
  subject: string,
): Promise<void> {
  await rowsOf(pool, REMOVE, [ws, arrayText(kinds), subject]);
}

function fenceText({ probe_id, attempt }: Pick<Probe, "probe_id" | "attempt">): string {
  return `${attempt} ${probe_id}`;
}

/** Whether a user of a source was seen within so many milliseconds. */
function isUsing(usedWithinMs: "$2" | "$5"): string {
  const ago = `${usedWithinMs} * interval '1 millisecond'`;
  return `used.seen_at >= pawl.instant(statement_timestamp() - ${ago})`;
}

/*
 * One statement for all: workers make up names, so only sources that some sync has are kept, and so many
 * of those who use one, who were seen last. Its parts see the tables as they were before it, so what it writes is added
 * to what it reads. Two at once never wait for each other: rows are written in the order of their
 * sources, first what was learnt, then who uses them, and only then is anybody forgotten, but for
 * those who are just being written. Each part reads the one before it, as only that makes PostgreSQL
 * finish it first.
 */
const EXCHANGE = `
with item as (
  select source, learnt
  from unnest($3::text[], $4::text[]) as item (source, learnt)
  where exists (select 1 from pawl.syncs sync where sync.ws = $1 and sync.source = item.source)
), learning as (
  insert into pawl.learnt_sources as kept (ws, source, learnt, learnt_at)
  select $1, source, learnt, pawl.instant(statement_timestamp())
  from item
  where learnt is not null
  order by source
  on conflict (ws, source) do update
  set learnt = excluded.learnt, learnt_at = excluded.learnt_at
  returning source
), noting as (
  insert into pawl.source_users (ws, source, worker_id, seen_at)
  select $1, source, $2, pawl.instant(statement_timestamp())
  from item
  where (select count(*) from learning) >= 0
  order by source
  on conflict (ws, source, worker_id) do update
  set seen_at = excluded.seen_at
  returning source
), crowd as (
  select item.source, others.worker_id
  from item cross join lateral (
    select used.worker_id
    from pawl.source_users used
    where used.ws = $1 and used.source = item.source and used.worker_id <> $2
    order by used.seen_at desc
    offset ${SOURCE_USERS_MAX - 1}
  ) others
), forgotten as (
  select used.source, used.worker_id
  from pawl.source_users used
  where used.ws = $1 and used.source = any($3::text[]) and used.worker_id <> $2
    and (
      not ${isUsing("$5")}
      or (used.source, used.worker_id) in (select source, worker_id from crowd)
    )
    and (select count(*) from noting) >= 0
  for update skip locked
), forgetting as (
  delete from pawl.source_users used
  using forgotten
  where used.ws = $1 and used.source = forgotten.source and used.worker_id = forgotten.worker_id
)
select item.source, coalesce(item.learnt, known.learnt), 1 + (
  select count(*)
  from pawl.source_users used
  where used.ws = $1 and used.source = item.source and used.worker_id <> $2
    and ${isUsing("$5")}
)
from item
left join pawl.learnt_sources known on known.ws = $1 and known.source = item.source`;

const LEARNT = `
select source, learnt, learnt_at, (
  select count(*)
  from pawl.source_users used
  where used.ws = $1 and used.source = known.source and ${isUsing("$2")}
)
from pawl.learnt_sources known
where ws = $1
order by source`;

/** Notes who uses the sources and what was learnt, and answers what is known of each. */
export async function exchangeSources(
  pool: pg.Pool,
  ws: WorkspaceId,
  workerId: string,
  sources: readonly SourceUse[],
  usedWithinMs: number,
): Promise<SharedSource[]> {
  // One statement may write a row only once, so of several words about one source the last is it.
  const learnt = new Map<string, Learnt | null>();
  for (const use of sources) {
    if (use.learnt !== null || !learnt.has(use.source)) learnt.set(use.source, use.learnt);
  }
  const columns = [
    [...learnt.keys()],
    [...learnt.values()].map((value) => encoded("json", value)),
  ] as const;
  const rows = await rowsOf(pool, EXCHANGE, [
    ws,
    workerId,
    ...columns.map(arrayText),
    usedWithinMs,
  ]);
  const known = new Map(
    rows.map(([source, stored, workers]) => [
      String(source),
      { learnt: learntOf(stored), workers: Number(workers) },
    ]),
  );
  return sources.map(({ source }) => {
    return { source, ...(known.get(source) ?? { learnt: NOTHING_LEARNT, workers: 1 }) };
  });
}

/** Everything that was learnt about sources. */
export async function learntSources(
  pool: pg.Pool,
  ws: WorkspaceId,
  usedWithinMs: number,
): Promise<LearntSource[]> {
  const rows = await rowsOf(pool, LEARNT, [ws, usedWithinMs]);
  return rows.map(([source, learnt, learntAt, workers]) => ({
    source: String(source),
    learnt: learntOf(learnt),
    learnt_at: String(learntAt),
    workers: Number(workers),
  }));
}

function learntOf(stored: unknown): Learnt {
  const learnt = decoded(LEARNT_SOURCES, "learnt", "json", stored) as Learnt | null;
  return learnt ?? NOTHING_LEARNT;
}
