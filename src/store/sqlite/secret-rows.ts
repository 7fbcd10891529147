import type { Instant } from "../../kernel/instant.ts";
import { decodeRow, rowCodec } from "../row-codec.ts";
import { SECRETS } from "../side-tables.ts";
import { cellList } from "../statements.ts";
import type { Secret, WorkspaceId } from "../store.ts";
import type { Connection } from "./connection.ts";

// Of two that were made in the same millisecond the current one is the newer.
const SECRETS_OF = `
select ${cellList(SECRETS)}
from secrets
where ws = ? and kind = ? and id = ?
order by created_at desc, expires_at is null desc, secret`;

// A repetition of the same request finds its own secret, and an old one may be taken up again.
const ADD = `
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
  connection.run(ADD, [ws, kind, id, secret, created_at, expires_at]);
  const others = [ws, kind, id, secret];
  connection.run(EXPIRE_OTHERS, [previousExpireAt, previousExpireAt, ...others]);
}

/** The tenant's secret: made by the first caller, then always the same. */
export function tenantSecret(connection: Connection, tenantId: string, fresh: string): string {
  connection.run(MAKE_TENANT_SECRET, [tenantId, fresh]);
  return String(connection.row(FIND_TENANT_SECRET, [tenantId])?.[0]);
}
