-- Older processes may keep running: no.

-- Rows that hold what neighbours have in common: the fold writes them anew from the ledger.
drop table tasks;
drop table partition_status;

create table task_blocks (
  ws integer not null,
  run_pos integer not null,
  block integer not null,
  groups text not null,
  failed integer not null,
  held text,
  states text not null,
  places text not null,
  apart text,
  primary key (ws, run_pos, block)
) strict, without rowid;

-- Tasks that wait to be tried again.
create table task_retries (
  ws integer not null,
  run_pos integer not null,
  task_key integer not null,
  asset_key text not null,
  retry_at text not null,
  primary key (ws, run_pos, task_key)
) strict, without rowid;

create index task_retries_due on task_retries (ws, retry_at);

-- Who saved a checkpoint: whose quota it counts for.
alter table checkpoints add column holder text;

create table partition_blocks (
  ws integer not null,
  asset_key text not null,
  block text not null,
  tried integer not null,
  materialized integer not null,
  failing integer not null,
  failed integer not null,
  attempts text not null,
  places text not null,
  keys text,
  metadata text,
  primary key (ws, asset_key, block)
) strict, without rowid;

create index partition_blocks_failing on partition_blocks (ws, asset_key, block)
where failing > 0;

-- Metadata that is too large to be with its neighbours'.
create table partition_metadata (
  ws integer not null,
  asset_key text not null,
  partition_key text not null,
  metadata text not null,
  primary key (ws, asset_key, partition_key)
) strict, without rowid;

-- What the planner assumes, as in the first step.
delete from sqlite_stat1 where tbl in ('tasks', 'partition_status');

insert into sqlite_stat1 (tbl, idx, stat) values
  ('task_blocks', 'task_blocks', '10000 10000 2 1'),
  ('task_retries', 'task_retries', '1000 1000 10 1'),
  ('task_retries', 'task_retries_due', '1000 1000 1'),
  ('partition_blocks', 'partition_blocks', '100000 100000 1000 1'),
  ('partition_blocks', 'partition_blocks_failing', '1000 1000 100 1'),
  ('partition_metadata', 'partition_metadata', '100000 100000 1000 1');

analyze sqlite_schema;
