-- Older processes may keep running: yes.

-- How much was done and how much waits, in buckets of ten seconds; beside the ledger.
create table samples (
  ws integer not null,
  series text not null,
  at integer not null,
  value integer not null,
  primary key (ws, series, at)
) strict, without rowid;

-- What is old, to be dropped.
create index samples_by_time on samples (ws, at);

-- What failed lately, without going through all that did not.
create index backfills_failed on backfills (ws, created_pos)
where state = 'FAILED';

create index runs_failed on runs (ws, run_pos)
where state = 'FAILED' and backfill_id is null;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('samples', 'samples', '100000 100000 1000 1'),
  ('samples', 'samples_by_time', '100000 100000 10'),
  ('backfills', 'backfills_failed', '100 100 1'),
  ('runs', 'runs_failed', '1000 1000 1');

analyze sqlite_schema;
