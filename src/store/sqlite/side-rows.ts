import type { Json } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import { decodeNotes } from "../ledger-head.ts";
import { decodeRow, encoded, rowCodec } from "../row-reader.ts";
import { SECRETS, TOKENS } from "../side-tables.ts";
import { cellList } from "../statements.ts";
import type {
  CheckpointSize,
  Fenced,
  LedgerNotes,
  Progress,
  Sample,
  SamplePoint,
  Secret,
  TokenRow,
  WorkspaceId,
} from "../store.ts";
import { BLOCK_TASKS } from "../../work/run/task-blocks.ts";
import type { Connection } from "./connection.ts";

/**
 * A statement checks the fence itself: it writes nothing when the attempt is not the current one, or
 * somebody else claimed it.
 */
export const FENCE = `where exists (
  select 1
  from (
    select ? as ws, ? as run_pos, cast(? as integer) as task_key, ? as attempt, ? as holder
  ) asked
  join task_blocks block on block.ws = asked.ws and block.run_pos = asked.run_pos
    and block.block = asked.task_key / ${BLOCK_TASKS}
  join json_each(block.held) held
  where asked.task_key between held.value ->> 0 and held.value ->> 1
    and held.value ->> 2 = asked.attempt
    and (held.value ->> 3 is null or held.value ->> 3 = asked.holder)
)`;

const RENEW = `
update leases
set expires_at = max(expires_at, ?)
where ws = ? and lease_id = ?`;

const SAVE_CHECKPOINT = `
insert into checkpoints (ws, run_pos, task_key, attempt, value, saved_at, holder)
select ?, ?, ?, ?, ?, ?, ?
${FENCE}
on conflict (ws, run_pos, task_key) do update
set attempt = excluded.attempt, value = excluded.value, saved_at = excluded.saved_at,
  holder = excluded.holder`;

const SAVE_PROGRESS = `
insert into progress (ws, run_pos, task_key, attempt, done, total, note, at)
select ?, ?, ?, ?, ?, ?, ?, ?
${FENCE}
on conflict (ws, run_pos, task_key) do update
set attempt = excluded.attempt, done = excluded.done, total = excluded.total,
  note = excluded.note, at = excluded.at`;

// The length of a text in bytes is known without reading it.
const CHECKPOINT_BYTES = `
select run_pos, coalesce(holder, ''), sum(coalesce(octet_length(value), 0))
from checkpoints
where ws = ?
group by 1, 2`;

const PRUNE_ANSWERS = "delete from answers where ws = ? and stored_at < ?";

const TOKEN_CELLS = `ws, ${cellList(TOKENS)}`;
const TOKEN_BY_HASH = `select ${TOKEN_CELLS} from tokens where secret_hash = ?`;
const TOKENS_OF = `select ${TOKEN_CELLS} from tokens where ws = ? order by token_id`;
const SAVE_TOKEN = `
insert into tokens (${TOKEN_CELLS})
values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (ws, token_id) do update
set principal = excluded.principal, secret_hash = excluded.secret_hash, verbs = excluded.verbs,
  created_at = excluded.created_at, expires_at = excluded.expires_at,
  revoked_at = excluded.revoked_at`;
const REVOKE_TOKEN = `
update tokens
set revoked_at = coalesce(revoked_at, ?)
where ws = ? and token_id = ?`;

const FIND_NOTES = "select verified, damage, accepted from heads where ws = ?";
const SAVE_NOTE: Readonly<Record<keyof LedgerNotes, string>> = {
  verified: "update heads set verified = ? where ws = ?",
  damage: "update heads set damage = ? where ws = ?",
  accepted: "update heads set accepted = ? where ws = ?",
};

/** Extends the leases that exist, and answers which those are. */
export function renewLeases(
  connection: Connection,
  ws: WorkspaceId,
  leaseIds: readonly string[],
  expiresAt: Instant,
): string[] {
  return leaseIds.filter((leaseId) => connection.run(RENEW, [expiresAt, ws, leaseId]) === 1);
}

/** Keeps the checkpoints whose fence is current, and answers which. */
export function saveCheckpoints(
  connection: Connection,
  ws: WorkspaceId,
  holder: string,
  items: readonly Fenced<{ value: Json }>[],
  now: Instant,
): boolean[] {
  return items.map(({ run_pos, task_key, attempt, value }) => {
    const fence = [ws, run_pos, task_key, attempt];
    const parameters = [...fence, encoded("json", value), now, holder, ...fence, holder];
    return connection.run(SAVE_CHECKPOINT, parameters) === 1;
  });
}

/** Keeps the progress whose fence is current, and answers which. */
export function saveProgress(
  connection: Connection,
  ws: WorkspaceId,
  holder: string,
  items: readonly Fenced<Progress>[],
  now: Instant,
): boolean[] {
  return items.map(({ run_pos, task_key, attempt, done, total, note }) => {
    const fence = [ws, run_pos, task_key, attempt];
    return (
      connection.run(SAVE_PROGRESS, [...fence, done, total, note, now, ...fence, holder]) === 1
    );
  });
}

/** The bytes of all kept checkpoints, by run and by who saved them. */
export function checkpointBytes(connection: Connection, ws: WorkspaceId): CheckpointSize[] {
  const rows = connection.rows(CHECKPOINT_BYTES, [ws]);
  return rows.map(([runPos, holder, bytes]) => {
    return { run_pos: Number(runPos), holder: String(holder), bytes: Number(bytes) };
  });
}

/** Forgets stored answers older than `before`, and says how many. */
export function pruneAnswers(connection: Connection, ws: WorkspaceId, before: Instant): number {
  return connection.run(PRUNE_ANSWERS, [ws, before]);
}

/** The token with this hash of its secret, or null. */
export function tokenByHash(connection: Connection, secretHash: string): TokenRow | null {
  const row = connection.row(TOKEN_BY_HASH, [secretHash]);
  return row === null ? null : decodeToken(row);
}

/** The workspace's tokens. */
export function tokensOf(connection: Connection, ws: WorkspaceId): TokenRow[] {
  return connection.rows(TOKENS_OF, [ws]).map(decodeToken);
}

/** Writes the token, over an earlier one with the same id. */
export function saveToken(connection: Connection, token: TokenRow): void {
  const { names, kinds } = rowCodec(TOKENS);
  const row: Readonly<Record<string, unknown>> = token;
  const values = names.map((name, index) => encoded(kinds[index] ?? "text", row[name]));
  connection.run(SAVE_TOKEN, [token.ws, ...values]);
}

/** Revokes the token once; answers whether there is one. */
export function revokeToken(
  connection: Connection,
  ws: WorkspaceId,
  tokenId: string,
  now: Instant,
): boolean {
  return connection.run(REVOKE_TOKEN, [now, ws, tokenId]) === 1;
}

/** What checks of the ledger have found. */
export function ledgerNotes(connection: Connection, ws: WorkspaceId): LedgerNotes {
  return decodeNotes(connection.row(FIND_NOTES, [ws]) ?? []);
}

/** Keeps a note about the ledger, or takes it away. */
export function saveNote(
  connection: Connection,
  ws: WorkspaceId,
  name: keyof LedgerNotes,
  note: object | null,
): void {
  connection.run(SAVE_NOTE[name], [note === null ? null : JSON.stringify(note), ws]);
}

function decodeToken([ws, ...values]: readonly unknown[]): TokenRow {
  return { ws: Number(ws), ...decodeRow(rowCodec(TOKENS), values) };
}

// Of two that were made in the same millisecond the current one is the newer.
const SECRETS_OF = `
select ${cellList(SECRETS)}
from secrets
where ws = ? and kind = ? and id = ?
order by created_at desc, expires_at is null desc, secret`;

// A repetition of the same request finds its own secret, and an old one may be taken up again.
const ADD_SECRET = `
insert into secrets (ws, ${cellList(SECRETS)})
values (?, ?, ?, ?, ?, ?)
on conflict (ws, kind, id, secret) do update
set created_at = excluded.created_at, expires_at = excluded.expires_at`;

const EXPIRE_OTHERS = `
update secrets
set expires_at = min(coalesce(expires_at, ?), ?)
where ws = ? and kind = ? and id = ? and secret <> ?`;

const FIND_TENANT_SECRET = "select secret from tenant_secrets where tenant_id = ?";
const MAKE_TENANT_SECRET = `
insert into tenant_secrets (tenant_id, secret)
values (?, ?)
on conflict do nothing`;

/** The secrets of a sensor or a webhook, newest first. */
export function secretsOf(
  connection: Connection,
  ws: WorkspaceId,
  kind: Secret["kind"],
  id: string,
): Secret[] {
  const codec = rowCodec(SECRETS);
  const rows = connection.rows(SECRETS_OF, [ws, kind, id]);
  return rows.map((values) => decodeRow(codec, values));
}

/** Keeps a new secret, and lets the others expire. */
export function addSecret(
  connection: Connection,
  ws: WorkspaceId,
  { kind, id, secret, created_at, expires_at }: Secret,
  previousExpireAt: Instant,
): void {
  connection.run(ADD_SECRET, [ws, kind, id, secret, created_at, expires_at]);
  const others = [ws, kind, id, secret];
  connection.run(EXPIRE_OTHERS, [previousExpireAt, previousExpireAt, ...others]);
}

/** The tenant's secret: made by the first caller, then always the same. */
export function tenantSecret(connection: Connection, tenantId: string, fresh: string): string {
  connection.run(MAKE_TENANT_SECRET, [tenantId, fresh]);
  return String(connection.row(FIND_TENANT_SECRET, [tenantId])?.[0]);
}

const ADD_SAMPLES = `
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
  for (const { series, at, value } of samples) connection.run(ADD_SAMPLES, [ws, series, at, value]);
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
