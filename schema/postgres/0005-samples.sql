-- Older processes may keep running: yes.

-- How much was done and how much waits, in buckets of ten seconds; beside the ledger.
create table pawl.samples (
  ws bigint not null,
  series text collate "C" not null,
  at bigint not null,
  value bigint not null,
  primary key (ws, series, at)
);

-- What is old, to be dropped.
create index samples_by_time on pawl.samples (ws, at);

-- What failed lately, without going through all that did not.
create index backfills_failed on pawl.backfills (ws, created_pos)
where state = 'FAILED';

create index runs_failed on pawl.runs (ws, run_pos)
where state = 'FAILED' and backfill_id is null;
