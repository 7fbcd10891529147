import type pg from "pg";
import type { Learnt } from "../../work/probe-protocol.ts";
import { decoded, encoded } from "../row-codec.ts";
import { LEARNT_SOURCES, NOTHING_LEARNT, SOURCE_USERS_MAX } from "../side-tables.ts";
import type { LearntSource, SharedSource, SourceUse, WorkspaceId } from "../store.ts";
import { arrayText } from "./connection.ts";
import { rowsOf } from "./side-rows.ts";

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
