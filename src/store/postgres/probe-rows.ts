import type pg from "pg";
import { decodeRow, encoded, rowCodec } from "../row-codec.ts";
import { PROBES } from "../side-tables.ts";
import { cellList } from "../statements.ts";
import type {
  NewProbe,
  Probe,
  ProbeClaim,
  ProbeEnd,
  ProbeFence,
  ProbeKind,
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
