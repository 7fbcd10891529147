import Database from "better-sqlite3";

/** Each new row is a copy of the one that failed or of the one that succeeded, under its own key. */
const COPY_PARTITIONS = `
with recursive places (place) as (
  select 0
  union all
  select place + 1 from places where place + 1 < @end
),
keyed (place, day, shop) as (
  select place,
    date(@start, '+' || (place / @shops) || ' days'),
    printf('shop-%03d', place % @shops)
  from places
)
insert or replace into partition_status
select ws, asset_key, 'day=' || day || ',shop=' || shop,
  json_object('day', day, 'shop', shop),
  last_materialization_run_id, last_materialization_at, last_materialization_code_version,
  last_materialization_start_pos, last_materialization_pos, metadata, last_attempt_run_id,
  last_attempt_at, last_attempt_outcome, last_attempt_start_pos, row_version
from keyed
join partition_status
  on partition_key = iif(place % @every = @failing, @failed, @succeeded)
where asset_key = @asset`;

/** Partitions by day and shop, and which of them failed. */
export type ManyPartitions = {
  asset: string;
  /** The first day, and how many shops each day has. */
  start: string;
  shops: number;
  /** Keys of a partition that succeeded and of one whose last attempt failed. */
  succeeded: string;
  failed: string;
  /** The first ordinal without a row. */
  end: number;
  /** Those failed whose ordinal leaves this rest when divided by `every`. */
  failing: number;
  every: number;
};

/**
 * Writes the rows of very many partitions as copies of two that really ran: a million in seconds.
 * Only for looking at: the ledger knows nothing of them.
 */
export function writeManyPartitions(path: string, partitions: ManyPartitions): void {
  const database = new Database(path);
  try {
    database.pragma("synchronous = off");
    database.prepare(COPY_PARTITIONS).run({ ...partitions });
  } finally {
    database.close();
  }
}
