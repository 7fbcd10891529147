-- Older processes may keep running: no.

-- What is known of partitions, of neighbours together: the fold writes it anew from the ledger.
drop table partition_status;

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
delete from sqlite_stat1 where tbl = 'partition_status';

insert into sqlite_stat1 (tbl, idx, stat) values
  ('partition_blocks', 'partition_blocks', '100000 100000 1000 1'),
  ('partition_blocks', 'partition_blocks_failing', '1000 1000 100 1'),
  ('partition_metadata', 'partition_metadata', '100000 100000 1000 1');

analyze sqlite_schema;
