-- Older processes may keep running: no.

-- What is known of partitions, of neighbours together: the fold writes it anew from the ledger.
drop table pawl.partition_status;

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
