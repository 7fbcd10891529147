import { addMs, type Instant } from "../../kernel/instant.ts";
import { compareRows } from "../../kernel/table.ts";
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
import type { Connection } from "./connection.ts";

const ADD = `
insert into probes (ws, probe_id, kind, subject, due_at, attempt, leased_until, value)
values (?, ?, ?, ?, ?, 0, null, ?)
on conflict do nothing`;

const RESCHEDULE = `
update probes
set due_at = ?
where ws = ? and probe_id = ? and due_at <> ?`;

const DUE_AND_FREE = "due_at <= ? and (leased_until is null or leased_until <= ?)";

// A cross join is done in the order in which it is written, so each pair is looked up by itself.
const IS_DUE = `
select 1
from json_each(?) as kinds
cross join json_each(?) as subjects
cross join probes
where ws = ? and kind = kinds.value and subject = subjects.value
  and ${DUE_AND_FREE}
limit 1`;

// SQLite plans a statement anew for each value of a bare parameter here, which takes ten times as
// long as the look-up.
const SOONEST = `order by due_at, probe_id
limit cast(? as integer)`;

// One kind, or one kind and subject, at a time: so the index gives the rows in order, and a long
// queue is read only as far as the limit.
const DUE_OF_KIND = `
select ${cellList(PROBES)}
from probes
where ws = ? and kind = ?
  and ${DUE_AND_FREE}
${SOONEST}`;

const DUE_OF_SUBJECT = `
select ${cellList(PROBES)}
from probes
where ws = ? and kind = ? and subject = ?
  and ${DUE_AND_FREE}
${SOONEST}`;

const LEASE = `
update probes
set attempt = ?, leased_until = ?, leased_by = ?
where ws = ? and probe_id = ?`;

// The fence: nobody leased it since, and the lease has not been settled. One that ran out counts.
const FENCE = "where ws = ? and probe_id = ? and attempt = ? and leased_until is not null";

const KEEP = `
update probes
set due_at = ?, value = ?, leased_until = null
${FENCE}`;

const RENEW = `
update probes
set leased_until = max(leased_until, ?)
${FENCE} and leased_by is ?`;

const END = `
delete from probes
${FENCE}`;

const REMOVE = "delete from probes where ws = ? and kind = ? and subject = ?";

const SOONEST_FIRST = [{ cell: "due_at" }, { cell: "probe_id" }];

/** Writes the probes that are not there yet. */
export function addProbes(
  connection: Connection,
  ws: WorkspaceId,
  probes: readonly NewProbe[],
): void {
  for (const { probe_id, kind, subject, due_at, value } of probes) {
    connection.run(ADD, [ws, probe_id, kind, subject, due_at, encoded("json", value)]);
  }
}

/** Makes the probes that exist due at another time. */
export function rescheduleProbes(
  connection: Connection,
  ws: WorkspaceId,
  probes: readonly Pick<Probe, "probe_id" | "due_at">[],
): void {
  for (const { probe_id, due_at } of probes) {
    connection.run(RESCHEDULE, [due_at, ws, probe_id, due_at]);
  }
}

/** Whether the claim would lease anything now. */
export function isAnyDue(
  connection: Connection,
  ws: WorkspaceId,
  { kinds, subjects }: ProbeClaim,
  now: Instant,
): boolean {
  // Most of the time nothing is due at all, and then a look for each kind is enough.
  const due = kinds.filter((kind) => connection.row(DUE_OF_KIND, [ws, kind, now, now, 1]) !== null);
  if (due.length === 0 || subjects === null) return due.length > 0;
  const pairs = [JSON.stringify(due), JSON.stringify(subjects)];
  return connection.row(IS_DUE, [...pairs, ws, now, now]) !== null;
}

/** The probes that are due and free, soonest first. */
function dueProbes(
  connection: Connection,
  ws: WorkspaceId,
  { kinds, subjects, limit }: ProbeClaim,
  now: Instant,
): Probe[] {
  const among = subjects === null ? null : new Set(subjects);
  const due = new Soonest(limit, now);
  for (const kind of new Set(kinds)) {
    if (among === null) {
      due.add(connection.rows(DUE_OF_KIND, [ws, kind, due.until, now, limit]));
      continue;
    }
    for (const subject of among) {
      due.add(connection.rows(DUE_OF_SUBJECT, [ws, kind, subject, due.until, now, limit]));
    }
  }
  return due.probes;
}

/** Collects the soonest of several queues, reading each no further than it may still matter. */
class Soonest {
  readonly #limit: number;
  probes: Probe[] = [];
  /** What is due after this is too late to be among them. */
  until: Instant;

  constructor(limit: number, until: Instant) {
    this.#limit = limit;
    this.until = until;
  }

  add(rows: readonly unknown[][]): void {
    if (rows.length === 0) return;
    const codec = rowCodec(PROBES);
    const added = rows.map((values) => decodeRow(codec, values));
    this.probes = [...this.probes, ...added]
      .toSorted((a, b) => compareRows(a, b, SOONEST_FIRST))
      .slice(0, this.#limit);
    const last = this.probes.at(-1);
    if (last !== undefined && this.probes.length === this.#limit) this.until = last.due_at;
  }
}

/** Leases the probes that are due and free, soonest first. */
export function leaseProbes(
  connection: Connection,
  ws: WorkspaceId,
  claim: ProbeClaim,
  now: Instant,
): Probe[] {
  const leasedUntil = addMs(now, claim.ttlMs);
  return dueProbes(connection, ws, claim, now).map((probe) => {
    const attempt = probe.attempt + 1;
    connection.run(LEASE, [attempt, leasedUntil, claim.holder, ws, probe.probe_id]);
    return { ...probe, attempt, leased_until: leasedUntil, leased_by: claim.holder };
  });
}

/** Ends the leases whose fence is current, and answers which. */
export function settleProbes(
  connection: Connection,
  ws: WorkspaceId,
  ends: readonly ProbeEnd[],
): boolean[] {
  return ends.map(({ probe_id, attempt, due_at, value }) => {
    const fence = [ws, probe_id, attempt];
    if (due_at === null) return connection.run(END, fence) === 1;
    return connection.run(KEEP, [due_at, encoded("json", value), ...fence]) === 1;
  });
}

/** Keeps the leases whose fence is current until then, and answers which. */
export function renewProbes(
  connection: Connection,
  ws: WorkspaceId,
  fences: readonly ProbeFence[],
  until: Instant,
): boolean[] {
  return fences.map(
    ({ probe_id, attempt, leased_by }) =>
      connection.run(RENEW, [until, ws, probe_id, attempt, leased_by]) === 1,
  );
}

/** Forgets the probes of these kinds about the subject. */
export function removeProbes(
  connection: Connection,
  ws: WorkspaceId,
  kinds: readonly ProbeKind[],
  subject: string,
): void {
  for (const kind of kinds) connection.run(REMOVE, [ws, kind, subject]);
}

const LEARN = `
insert into learnt_sources (ws, source, learnt, learnt_at)
values (?, ?, ?, ?)
on conflict (ws, source) do update
set learnt = excluded.learnt, learnt_at = excluded.learnt_at`;

const USE = `
insert into source_users (ws, source, worker_id, seen_at)
values (?, ?, ?, ?)
on conflict (ws, source, worker_id) do update
set seen_at = excluded.seen_at`;

const FORGET_USERS = `
delete from source_users
where ws = ? and source = ? and worker_id <> ? and seen_at < ?`;

// Workers make up their names: more than these are forgotten, those seen longest ago first.
const FORGET_CROWD = `
delete from source_users
where ws = ? and source = ? and worker_id in (
  select worker_id from source_users
  where ws = ? and source = ? and worker_id <> ?
  order by seen_at desc
  limit -1 offset ${SOURCE_USERS_MAX - 1}
)`;

const IS_OF_SYNC = "select 1 from syncs where ws = ? and source = ? limit 1";

const KNOWN = `
select
  (select learnt from learnt_sources where ws = ? and source = ?),
  (select count(*) from source_users where ws = ? and source = ?)`;

const LEARNT = `
select source, learnt, learnt_at, (
  select count(*)
  from source_users used
  where used.ws = learnt_sources.ws and used.source = learnt_sources.source
    and used.seen_at >= ?
)
from learnt_sources
where ws = ?
order by source`;

/** Notes who uses the sources and what was learnt, and answers what is known of each. */
export function exchangeSources(
  connection: Connection,
  ws: WorkspaceId,
  workerId: string,
  sources: readonly SourceUse[],
  usedWithinMs: number,
  now: Instant,
): SharedSource[] {
  const since = addMs(now, -usedWithinMs);
  for (const { source, learnt } of sources) {
    if (connection.row(IS_OF_SYNC, [ws, source]) === null) continue;
    if (learnt !== null) connection.run(LEARN, [ws, source, encoded("json", learnt), now]);
    connection.run(USE, [ws, source, workerId, now]);
    connection.run(FORGET_USERS, [ws, source, workerId, since]);
    connection.run(FORGET_CROWD, [ws, source, ws, source, workerId]);
  }
  return sources.map(({ source }) => {
    const [learnt = null, workers] = connection.row(KNOWN, [ws, source, ws, source]) ?? [];
    return { source, learnt: learntOf(learnt), workers: Math.max(1, Number(workers)) };
  });
}

/** Everything that was learnt about sources. */
export function learntSources(
  connection: Connection,
  ws: WorkspaceId,
  usedSince: Instant,
): LearntSource[] {
  return connection.rows(LEARNT, [usedSince, ws]).map(([source, learnt, learntAt, workers]) => ({
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
