import Database from "better-sqlite3";

/** Each new chunk is a copy of the one that failed or of the one that succeeded, moved to its place. */
const COPY_CHUNKS = `
with recursive places (place) as (
  select @first
  union all
  select place + 1 from places where place + 1 < @end
)
insert into chunks
select ws, backfill_id, place, generation, state,
  json_array(json_object('from', place, 'to', place)),
  partitions, run_pos, run_id,
  iif(
    failed is null,
    null,
    json_array(json_object('asset', 0, 'ordinals', json_array(json_array(place, place))))
  ),
  skipped, cancelled, split_into, planned_at, finished_at, row_version
from places
join chunks on chunk_index = iif(place % @every = @failing, @failed, @succeeded)
where backfill_id = @backfill`;

const COUNT_CHUNKS = `
update backfills
set next_chunk = @end,
  chunks_succeeded = counted.succeeded,
  chunks_failed = counted.failed,
  chunks_planned = 0,
  chunks_running = 0,
  partitions_succeeded = counted.succeeded,
  partitions_failed = counted.failed,
  partitions_planned = 0,
  partitions_running = 0
from (
  select
    sum(state = 'SUCCEEDED') as succeeded,
    sum(state = 'FAILED') as failed
  from chunks
  where backfill_id = @backfill
) as counted
where backfill_id = @backfill`;

/** How the chunks of a backfill that was begun go on. */
export type ManyChunks = {
  backfill: string;
  /** A chunk that succeeded and one that failed, which the others are copies of. */
  succeeded: number;
  failed: number;
  /** The first place without a row, and the one after the last that gets one. */
  first: number;
  end: number;
  /** Chunks fail whose place leaves this rest when divided by `every`. */
  failing: number;
  every: number;
};

/**
 * Writes the chunks of a paused backfill with one partition in each, as copies of two that really
 * ran: a million in seconds. Only for looking at: the ledger knows nothing of them.
 */
export function writeManyChunks(path: string, chunks: ManyChunks): void {
  const database = new Database(path);
  const named = { ...chunks };
  try {
    database.pragma("synchronous = off");
    database.transaction(() => {
      database.prepare(COPY_CHUNKS).run(named);
      database.prepare(COUNT_CHUNKS).run({ end: chunks.end, backfill: chunks.backfill });
    })();
  } finally {
    database.close();
  }
}
