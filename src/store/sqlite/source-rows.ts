import { addMs, type Instant } from "../../kernel/instant.ts";
import type { Learnt } from "../../work/probe-protocol.ts";
import { decoded, encoded } from "../row-codec.ts";
import { LEARNT_SOURCES, NOTHING_LEARNT, SOURCE_USERS_MAX } from "../side-tables.ts";
import type { LearntSource, SharedSource, SourceUse, WorkspaceId } from "../store.ts";
import type { Connection } from "./connection.ts";

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
