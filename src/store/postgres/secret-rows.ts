import type pg from "pg";
import type { Instant } from "../../kernel/instant.ts";
import { decodeRow, rowCodec } from "../row-codec.ts";
import { SECRETS } from "../side-tables.ts";
import { cellList } from "../statements.ts";
import type { Secret, WorkspaceId } from "../store.ts";
import { withConnection } from "./connection.ts";
import { rowsOf } from "./side-rows.ts";

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
const ADD = `
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
    await connection.rows(ADD, [ws, ...cells, previousExpireAt]);
    await connection.execute("commit");
  });
}
