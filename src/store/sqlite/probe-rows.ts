import { type Instant, addMs } from "../../kernel/instant.ts";
import { compareRows } from "../../kernel/table.ts";
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
