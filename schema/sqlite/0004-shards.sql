-- Older processes may keep running: no.

-- Rows that the fold writes about the routing, splits and moves.

create table routing (
  ws integer not null,
  id text not null,
  version integer not null,
  default_shard text,
  default_epoch integer not null,
  updated_at text not null,
  row_version integer not null,
  primary key (ws, id)
) strict, without rowid;

create table routes (
  ws integer not null,
  tenant text not null,
  shard text not null,
  epoch integer not null,
  updated_at text not null,
  row_version integer not null,
  primary key (ws, tenant)
) strict, without rowid;

create index routes_by_shard on routes (ws, shard, tenant);

create table routing_versions (
  ws integer not null,
  version integer not null,
  default_shard text,
  routes text not null,
  cause text not null,
  reason text,
  changed_by text not null,
  at text not null,
  row_version integer not null,
  primary key (ws, version)
) strict, without rowid;

create table splits (
  ws integer not null,
  split_id text not null,
  description text,
  source text not null,
  target text not null,
  tenants text not null,
  epochs text not null,
  tables text not null,
  spec_hash text not null,
  phase text not null,
  state_version integer not null,
  reason text,
  wanted text,
  ddl text,
  auto_cutover integer not null,
  lag_limit_ms integer not null,
  fence_wait_ms integer not null,
  fence_hold_ms integer not null,
  grace_ms integer not null,
  steps integer not null,
  step text,
  step_state text,
  step_report text,
  run_pos integer,
  run_id text,
  worker_id text,
  failures integer not null,
  error text,
  error_at text,
  checks text,
  armed integer not null,
  dual_write_started_at text,
  backfill_status text not null,
  backfill_started_at text,
  backfill_completed_at text,
  total_rows_copied integer not null,
  table_progress text not null,
  tenant_rows text not null,
  tail_status text not null,
  last_event_id text,
  last_event_ts text,
  tail_lag_events integer,
  tail_lag_ms integer,
  verification text,
  routing_version_at_start integer not null,
  routing_version_cutover integer,
  routing_version_rollback integer,
  committing integer not null,
  write_pause_us integer,
  planned_by text not null,
  planned_at text not null,
  cutover_at text,
  finished_at text,
  remove_after text,
  removed_at text,
  due_at text,
  updated_at text not null,
  created_pos integer not null,
  row_version integer not null,
  primary key (ws, split_id)
) strict, without rowid;

create index splits_by_pos on splits (ws, created_pos);

-- What the controller has to look at after a start.
create index splits_open on splits (ws, split_id)
where phase in ('planning', 'dual_write', 'backfill', 'tailing', 'cutover_pending', 'reversible');

-- What is left on a source, by the time from which it may go.
create index splits_removing on splits (ws, remove_after)
where remove_after is not null;

-- What falls due by the time alone.
create index splits_due on splits (ws, due_at)
where due_at is not null;

create table split_tenants (
  ws integer not null,
  tenant text not null,
  split_id text not null,
  row_version integer not null,
  primary key (ws, tenant)
) strict, without rowid;

create table moves (
  ws integer not null,
  move_id text not null,
  name text,
  plan text not null,
  dry_run integer not null,
  spec_hash text not null,
  state text not null,
  state_version integer not null,
  reason text,
  lanes text not null,
  lanes_sealed integer not null,
  segment_concurrency integer not null,
  rows_per_second integer,
  next_segment integer not null,
  segments_total integer not null,
  segments_pending integer not null,
  segments_active integer not null,
  segments_copied integer not null,
  segments_removed integer not null,
  segments_poisoned integer not null,
  segments_excluded integer not null,
  segments_discarding integer not null,
  rows_estimated integer not null,
  rows_copied integer not null,
  bytes_copied integer not null,
  rows_removed integer not null,
  retries integer not null,
  retries_counted integer not null,
  work_ms integer not null,
  last_error text,
  last_error_at text,
  verifications integer not null,
  verify_waiting integer not null,
  verify_failed integer not null,
  verify_next integer not null,
  check_run_pos integer,
  checks integer not null,
  checked_n integer not null,
  check_ok integer,
  check_report text,
  planned_by text not null,
  created_at text not null,
  created_pos integer not null,
  started_at text,
  finished_at text,
  row_version integer not null,
  primary key (ws, move_id)
) strict, without rowid;

create index moves_by_pos on moves (ws, created_pos);

create index moves_open on moves (ws, move_id)
where state in ('PLANNED', 'RUNNING', 'PAUSED');

create table move_segments (
  ws integer not null,
  move_id text not null,
  segment_index integer not null,
  segment_id text not null,
  lane integer not null,
  table_name text not null,
  table_order integer not null,
  lower text,
  upper text,
  generation integer not null,
  state text not null,
  rows_estimated integer not null,
  rows_copied integer not null,
  bytes_copied integer not null,
  digest text,
  cursor text,
  position text,
  run_pos integer,
  run_id text,
  running integer not null,
  step text,
  worker_id text,
  runs integer not null,
  changes integer not null,
  leftover integer not null,
  report text,
  attempts integer not null,
  failures integer not null,
  next_retry_at text,
  error text,
  verify_n integer not null,
  verify_ok integer,
  verify_note text,
  verified_at text,
  excluded text,
  created_at text not null,
  finished_at text,
  row_version integer not null,
  primary key (ws, move_id, segment_index)
) strict, without rowid;

-- What is to be copied next, table by table, and what to be removed.
create index move_segments_by_state on move_segments (ws, move_id, state, table_order, segment_index);

-- Runs that have to be told when a move is paused.
create index move_segments_active on move_segments (ws, move_id, segment_index)
where run_pos is not null;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('routing', 'routing', '1 1 1'),
  ('routes', 'routes', '100000 100000 1'),
  ('routes', 'routes_by_shard', '100000 100000 1000 1'),
  ('routing_versions', 'routing_versions', '10000 10000 1'),
  ('splits', 'splits', '1000 1000 1'),
  ('splits', 'splits_by_pos', '1000 1000 1'),
  ('splits', 'splits_open', '100 100 1'),
  ('splits', 'splits_removing', '100 100 1'),
  ('splits', 'splits_due', '100 100 1'),
  ('split_tenants', 'split_tenants', '1000 1000 1'),
  ('moves', 'moves', '1000 1000 1'),
  ('moves', 'moves_by_pos', '1000 1000 1'),
  ('moves', 'moves_open', '100 100 1'),
  ('move_segments', 'move_segments', '1000000 1000000 1000 1'),
  ('move_segments', 'move_segments_by_state', '1000000 1000000 1000 100 10 1'),
  ('move_segments', 'move_segments_active', '1000 1000 10 1');

analyze sqlite_schema;
