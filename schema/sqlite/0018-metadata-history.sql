-- Older processes may keep running: no.

-- What materializations said of themselves, the earlier ones too: the fold writes it anew from the ledger.
drop table partition_metadata;

create table partition_metadata (
  ws integer not null,
  asset_key text not null,
  partition_key text not null,
  slot integer not null,
  run_id text not null,
  at text not null,
  start_pos integer not null,
  pos integer not null,
  code_version text,
  metadata text not null,
  primary key (ws, asset_key, partition_key, slot)
) strict, without rowid;

-- What the planner assumes, as in the first step.
delete from sqlite_stat1 where tbl = 'partition_metadata';

insert into sqlite_stat1 (tbl, idx, stat) values
  ('partition_metadata', 'partition_metadata', '100000 100000 1000 10 1');

analyze sqlite_schema;
