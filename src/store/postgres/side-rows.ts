import type pg from "pg";
import type { Json } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import { decodeRow, encoded, rowCodec, type StoredValue } from "../row-reader.ts";
import { SECRETS, TOKENS } from "../side-tables.ts";
import { cellList } from "../statements.ts";
import type {
  CheckpointSize,
  Fenced,
  Progress,
  Sample,
  SamplePoint,
  Secret,
  TokenRow,
  WorkspaceId,
} from "../store.ts";
import { BLOCK_TASKS } from "../../work/run/task-blocks.ts";
import { arrayText, withConnection } from "./connection.ts";

const RENEW = `
update pawl.leases
set expires_at = greatest(
  expires_at,
  pawl.instant(clock_timestamp() + ($3::float8 + $4::float8) * interval '1 millisecond')
)
where ws = $1 and lease_id = any($2::text[])
returning lease_id`;

/**
 * A statement checks the fence itself: it writes nothing when the attempt is not the current one, or
 * somebody else claimed it. The lock makes it wait for a transaction that is just deleting the task, so
 * that nothing is left behind for a run that has ended; a changed one is not waited for.
 */
export const CURRENT = `current as (
  select found.run_pos, found.task_key, found.attempt
  from (select distinct run_pos, task_key, attempt from item order by 1, 2, 3) asked
  cross join lateral (
    select asked.run_pos, asked.task_key, asked.attempt
    from pawl.task_blocks block
    where block.ws = $1 and block.run_pos = asked.run_pos
      and block.block = asked.task_key / ${BLOCK_TASKS}
      and exists (
        select 1 from jsonb_array_elements(block.held::jsonb) as each (held)
        where asked.task_key between (held ->> 0)::bigint and (held ->> 1)::bigint
          and (held ->> 2)::bigint = asked.attempt
          and (held ->> 3 is null or held ->> 3 = $2)
      )
    for key share
  ) found
)`;

/** The parameters that the fences of items come in, behind workspace and holder. */
export const FENCE_ARRAYS = "$3::bigint[], $4::bigint[], $5::bigint[]";
/** The cells of a fence. */
export const FENCE_CELLS = "run_pos, task_key, attempt";

// A task that was changed while the statement ran may have a newer attempt, which saved first.
const SAVE_CHECKPOINTS = `
with item as (
  select * from unnest(${FENCE_ARRAYS}, $6::text[]) as item (${FENCE_CELLS}, value)
), ${CURRENT}
insert into pawl.checkpoints as kept (ws, ${FENCE_CELLS}, value, saved_at, holder)
select $1, run_pos, task_key, attempt, value, pawl.instant(clock_timestamp()), $2
from item join current using (${FENCE_CELLS})
on conflict (ws, run_pos, task_key) do update
set attempt = excluded.attempt, value = excluded.value, saved_at = excluded.saved_at,
  holder = excluded.holder
where kept.attempt <= excluded.attempt
returning ${FENCE_CELLS}`;

const SAVE_PROGRESS = `
with item as (
  select * from unnest(${FENCE_ARRAYS}, $6::bigint[], $7::bigint[], $8::text[])
    as item (${FENCE_CELLS}, done, total, note)
), ${CURRENT}
insert into pawl.progress as kept (ws, ${FENCE_CELLS}, done, total, note, at)
select $1, run_pos, task_key, attempt, done, total, note, pawl.instant(clock_timestamp())
from item join current using (${FENCE_CELLS})
on conflict (ws, run_pos, task_key) do update
set attempt = excluded.attempt, done = excluded.done, total = excluded.total,
  note = excluded.note, at = excluded.at
where kept.attempt <= excluded.attempt
returning ${FENCE_CELLS}`;

// The length of a text in bytes is known without reading it.
const CHECKPOINT_BYTES = `
select run_pos, coalesce(holder, ''), sum(coalesce(octet_length(value), 0))
from pawl.checkpoints
where ws = $1
group by 1, 2`;

const PRUNE_ANSWERS = `
with gone as (
  delete from pawl.answers where ws = $1 and stored_at < $2 returning 1
)
select count(*) from gone`;

const TOKEN_CELLS = `ws, ${cellList(TOKENS)}`;
const TOKEN_BY_HASH = `select ${TOKEN_CELLS} from pawl.tokens where secret_hash = $1`;
const TOKENS_OF = `select ${TOKEN_CELLS} from pawl.tokens where ws = $1 order by token_id`;
const SAVE_TOKEN = `
insert into pawl.tokens (${TOKEN_CELLS})
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (ws, token_id) do update
set principal = excluded.principal, secret_hash = excluded.secret_hash, verbs = excluded.verbs,
  created_at = excluded.created_at, expires_at = excluded.expires_at,
  revoked_at = excluded.revoked_at`;
const REVOKE_TOKEN = `
update pawl.tokens
set revoked_at = coalesce(revoked_at, pawl.instant(clock_timestamp()))
where ws = $1 and token_id = $2
returning 1`;

/** The rows of one statement on a connection of the pool, in a transaction of its own. */
export function rowsOf(
  pool: pg.Pool,
  sql: string,
  parameters: readonly unknown[],
): Promise<unknown[][]> {
  return withConnection(pool, (connection) => connection.rows(sql, parameters));
}

/** Extends the leases that exist, and answers which those are. */
export async function renewLeases(
  pool: pg.Pool,
  ws: WorkspaceId,
  leaseIds: readonly string[],
  ttlMs: number,
  aheadMs: number,
): Promise<string[]> {
  const rows = await rowsOf(pool, RENEW, [ws, arrayText(leaseIds), ttlMs, aheadMs]);
  const renewed = new Set(rows.map(([leaseId]) => leaseId));
  return leaseIds.filter((leaseId) => renewed.has(leaseId));
}

/** Keeps the checkpoints whose fence is current, and answers which. */
export function saveCheckpoints(
  pool: pg.Pool,
  ws: WorkspaceId,
  holder: string,
  items: readonly Fenced<{ value: Json }>[],
): Promise<boolean[]> {
  const columns = (kept: typeof items) => [kept.map(({ value }) => encoded("json", value))];
  return writeFenced(pool, ws, holder, SAVE_CHECKPOINTS, items, newestOfEach(items), columns);
}

/** Keeps the progress whose fence is current, and answers which. */
export function saveProgress(
  pool: pg.Pool,
  ws: WorkspaceId,
  holder: string,
  items: readonly Fenced<Progress>[],
): Promise<boolean[]> {
  const columns = (kept: typeof items) => [
    kept.map(({ done }) => done),
    kept.map(({ total }) => total),
    kept.map(({ note }) => note),
  ];
  return writeFenced(pool, ws, holder, SAVE_PROGRESS, items, newestOfEach(items), columns);
}

/** The bytes of all kept checkpoints, by run and by who saved them. */
export async function checkpointBytes(pool: pg.Pool, ws: WorkspaceId): Promise<CheckpointSize[]> {
  const rows = await rowsOf(pool, CHECKPOINT_BYTES, [ws]);
  return rows.map(([runPos, holder, bytes]) => {
    return { run_pos: Number(runPos), holder: String(holder), bytes: Number(bytes) };
  });
}

/** Forgets stored answers older than `before`, and says how many. */
export async function pruneAnswers(
  pool: pg.Pool,
  ws: WorkspaceId,
  before: Instant,
): Promise<number> {
  const [row] = await rowsOf(pool, PRUNE_ANSWERS, [ws, before]);
  return Number(row?.[0]);
}

/** The token with this hash of its secret, or null. */
export async function tokenByHash(pool: pg.Pool, secretHash: string): Promise<TokenRow | null> {
  const [row] = await rowsOf(pool, TOKEN_BY_HASH, [secretHash]);
  return row === undefined ? null : decodeToken(row);
}

/** The workspace's tokens. */
export async function tokensOf(pool: pg.Pool, ws: WorkspaceId): Promise<TokenRow[]> {
  return (await rowsOf(pool, TOKENS_OF, [ws])).map(decodeToken);
}

/** Writes the token, over an earlier one with the same id. */
export async function saveToken(pool: pg.Pool, token: TokenRow): Promise<void> {
  const { names, kinds } = rowCodec(TOKENS);
  const row: Readonly<Record<string, unknown>> = token;
  const values = names.map((name, index) => encoded(kinds[index] ?? "text", row[name]));
  await rowsOf(pool, SAVE_TOKEN, [token.ws, ...values]);
}

/** Revokes the token once; answers whether there is one. */
export async function revokeToken(
  pool: pg.Pool,
  ws: WorkspaceId,
  tokenId: string,
): Promise<boolean> {
  return (await rowsOf(pool, REVOKE_TOKEN, [ws, tokenId])).length === 1;
}

type Fence = { run_pos: number; task_key: number; attempt: number };

async function writeFenced<Item extends Fence>(
  pool: pg.Pool,
  ws: WorkspaceId,
  holder: string,
  sql: string,
  asked: readonly Item[],
  written: readonly Item[],
  columns: (items: readonly Item[]) => StoredValue[][],
): Promise<boolean[]> {
  if (asked.length === 0) return [];
  const fences = [
    written.map(({ run_pos }) => run_pos),
    written.map(({ task_key }) => task_key),
    written.map(({ attempt }) => attempt),
  ];
  const parameters = [...fences, ...columns(written)].map(arrayText);
  const rows = await rowsOf(pool, sql, [ws, holder, ...parameters]);
  const kept = new Set(rows.map((row) => row.join(" ")));
  return asked.map((item) => kept.has(fenceText(item)));
}

/** One statement may write a row only once, so of several items under one fence the last is it. */
function newestOfEach<Item extends Fence>(items: readonly Item[]): Item[] {
  return [...new Map(items.map((item) => [fenceText(item), item])).values()];
}

function fenceText({ run_pos, task_key, attempt }: Fence): string {
  return `${run_pos} ${task_key} ${attempt}`;
}

function decodeToken([ws, ...values]: readonly unknown[]): TokenRow {
  return { ws: Number(ws), ...decodeRow(rowCodec(TOKENS), values) };
}

// Of two that were made in the same millisecond the current one is the newer.
const SECRETS_OF = `
select ${cellList(SECRETS)}
from pawl.secrets
where ws = $1 and kind = $2 and id = $3
order by created_at desc, expires_at is null desc, secret`;

// Two that come at once do not see each other's secret, so both would stay current. Taken in a
// statement of its own, so that the next one sees what its last holder wrote.
const LOCK = "select pg_advisory_xact_lock(hashtextextended('pawl ' || $1::text, $2::bigint))";

// A repetition of the same request finds its own secret, and an old one may be taken up again.
const ADD_SECRET = `
with others as (
  update pawl.secrets
  set expires_at = least(expires_at, $7)
  where ws = $1 and kind = $2 and id = $3 and secret <> $4
)
insert into pawl.secrets (ws, ${cellList(SECRETS)})
values ($1, $2, $3, $4, $5, $6)
on conflict (ws, kind, id, secret) do update
set created_at = excluded.created_at, expires_at = excluded.expires_at`;

/** The secrets of a sensor or a webhook, newest first. */
export async function secretsOf(
  pool: pg.Pool,
  ws: WorkspaceId,
  kind: Secret["kind"],
  id: string,
): Promise<Secret[]> {
  const codec = rowCodec(SECRETS);
  const rows = await rowsOf(pool, SECRETS_OF, [ws, kind, id]);
  return rows.map((values) => decodeRow(codec, values));
}

/** Keeps a new secret, and lets the others expire. */
export function addSecret(
  pool: pg.Pool,
  ws: WorkspaceId,
  { kind, id, secret, created_at, expires_at }: Secret,
  previousExpireAt: Instant,
): Promise<void> {
  // A connection on which a statement failed is thrown away, and the transaction with it.
  return withConnection(pool, async (connection) => {
    await connection.execute("begin");
    await connection.rows(LOCK, [`${kind} ${id}`, ws]);
    const cells = [kind, id, secret, created_at, expires_at];
    await connection.rows(ADD_SECRET, [ws, ...cells, previousExpireAt]);
    await connection.execute("commit");
  });
}

// In the order of their key, so that two servers that write the same buckets never wait for each other.
const WRITE = `
insert into pawl.samples as kept (ws, series, at, value)
select $1, series, at, value
from unnest($2::text[], $3::bigint[], $4::bigint[]) as item (series, at, value)
order by series, at
on conflict (ws, series, at) do update`;

const ADD_SAMPLES = `${WRITE}
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
    ADD_SAMPLES,
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
