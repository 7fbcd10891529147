-- Older processes may keep running: no.

-- What materializations said of themselves, the earlier ones too: the fold writes it anew from the ledger.
drop table pawl.partition_metadata;

create table pawl.partition_metadata (
  ws bigint not null,
  asset_key text collate "C" not null,
  partition_key text collate "C" not null,
  slot bigint not null,
  run_id text collate "C" not null,
  at text collate "C" not null,
  start_pos bigint not null,
  pos bigint not null,
  code_version text collate "C",
  metadata text collate "C" not null,
  primary key (ws, asset_key, partition_key, slot)
);
