-- Older processes may keep running: no.

-- Rows that hold what neighbours have in common: the fold writes them anew from the ledger.
drop table pawl.tasks;
drop table pawl.partition_status;

create table pawl.task_blocks (
  ws bigint not null,
  run_pos bigint not null,
  block bigint not null,
  groups text collate "C" not null,
  failed bigint not null,
  held text collate "C",
  states text collate "C" not null,
  places text collate "C" not null,
  apart text collate "C",
  primary key (ws, run_pos, block)
) with (fillfactor = 50);

-- Tasks that wait to be tried again.
create table pawl.task_retries (
  ws bigint not null,
  run_pos bigint not null,
  task_key bigint not null,
  asset_key text collate "C" not null,
  retry_at text collate "C" not null,
  primary key (ws, run_pos, task_key)
);

create index task_retries_due on pawl.task_retries (ws, retry_at);

-- Who saved a checkpoint: whose quota it counts for.
alter table pawl.checkpoints add column holder text collate "C";

create table pawl.partition_blocks (
  ws bigint not null,
  asset_key text collate "C" not null,
  block text collate "C" not null,
  tried bigint not null,
  materialized bigint not null,
  failing bigint not null,
  failed bigint not null,
  attempts text collate "C" not null,
  places text collate "C" not null,
  keys text collate "C",
  metadata text collate "C",
  primary key (ws, asset_key, block)
) with (fillfactor = 50);

create index partition_blocks_failing on pawl.partition_blocks (ws, asset_key, block)
where failing > 0;

-- Metadata that is too large to be with its neighbours'.
create table pawl.partition_metadata (
  ws bigint not null,
  asset_key text collate "C" not null,
  partition_key text collate "C" not null,
  metadata text collate "C" not null,
  primary key (ws, asset_key, partition_key)
);
