-- Older processes may keep running: no.

-- Rows that the fold writes about the routing, splits and moves.

create table pawl.routing (
  ws bigint not null,
  id text collate "C" not null,
  version bigint not null,
  default_shard text collate "C",
  default_epoch bigint not null,
  updated_at text collate "C" not null,
  row_version bigint not null,
  primary key (ws, id)
);

create table pawl.routes (
  ws bigint not null,
  tenant text collate "C" not null,
  shard text collate "C" not null,
  epoch bigint not null,
  updated_at text collate "C" not null,
  row_version bigint not null,
  primary key (ws, tenant)
);

create index routes_by_shard on pawl.routes (ws, shard, tenant);

create table pawl.routing_versions (
  ws bigint not null,
  version bigint not null,
  default_shard text collate "C",
  routes text collate "C" not null,
  cause text collate "C" not null,
  reason text collate "C",
  changed_by text collate "C" not null,
  at text collate "C" not null,
  row_version bigint not null,
  primary key (ws, version)
);

create table pawl.splits (
  ws bigint not null,
  split_id text collate "C" not null,
  description text collate "C",
  source text collate "C" not null,
  target text collate "C" not null,
  tenants text collate "C" not null,
  epochs text collate "C" not null,
  tables text collate "C" not null,
  spec_hash text collate "C" not null,
  phase text collate "C" not null,
  state_version bigint not null,
  reason text collate "C",
  wanted text collate "C",
  ddl text collate "C",
  auto_cutover bigint not null,
  lag_limit_ms bigint not null,
  fence_wait_ms bigint not null,
  fence_hold_ms bigint not null,
  grace_ms bigint not null,
  steps bigint not null,
  step text collate "C",
  step_state text collate "C",
  step_report text collate "C",
  run_pos bigint,
  run_id text collate "C",
  worker_id text collate "C",
  failures bigint not null,
  error text collate "C",
  error_at text collate "C",
  checks text collate "C",
  armed bigint not null,
  dual_write_started_at text collate "C",
  backfill_status text collate "C" not null,
  backfill_started_at text collate "C",
  backfill_completed_at text collate "C",
  total_rows_copied bigint not null,
  table_progress text collate "C" not null,
  tenant_rows text collate "C" not null,
  tail_status text collate "C" not null,
  last_event_id text collate "C",
  last_event_ts text collate "C",
  tail_lag_events bigint,
  tail_lag_ms bigint,
  verification text collate "C",
  routing_version_at_start bigint not null,
  routing_version_cutover bigint,
  routing_version_rollback bigint,
  committing bigint not null,
  write_pause_us bigint,
  planned_by text collate "C" not null,
  planned_at text collate "C" not null,
  cutover_at text collate "C",
  finished_at text collate "C",
  remove_after text collate "C",
  removed_at text collate "C",
  due_at text collate "C",
  updated_at text collate "C" not null,
  created_pos bigint not null,
  row_version bigint not null,
  primary key (ws, split_id)
);

create index splits_by_pos on pawl.splits (ws, created_pos);

-- What the controller has to look at after a start.
create index splits_open on pawl.splits (ws, split_id)
where phase in ('planning', 'dual_write', 'backfill', 'tailing', 'cutover_pending', 'reversible');

-- What is left on a source, by the time from which it may go.
create index splits_removing on pawl.splits (ws, remove_after)
where remove_after is not null;

-- What falls due by the time alone.
create index splits_due on pawl.splits (ws, due_at)
where due_at is not null;

create table pawl.split_tenants (
  ws bigint not null,
  tenant text collate "C" not null,
  split_id text collate "C" not null,
  row_version bigint not null,
  primary key (ws, tenant)
);

create table pawl.moves (
  ws bigint not null,
  move_id text collate "C" not null,
  name text collate "C",
  plan text collate "C" not null,
  dry_run bigint not null,
  spec_hash text collate "C" not null,
  state text collate "C" not null,
  state_version bigint not null,
  reason text collate "C",
  lanes text collate "C" not null,
  lanes_sealed bigint not null,
  segment_concurrency bigint not null,
  rows_per_second bigint,
  next_segment bigint not null,
  segments_total bigint not null,
  segments_pending bigint not null,
  segments_active bigint not null,
  segments_copied bigint not null,
  segments_removed bigint not null,
  segments_poisoned bigint not null,
  segments_excluded bigint not null,
  segments_discarding bigint not null,
  rows_estimated bigint not null,
  rows_copied bigint not null,
  bytes_copied bigint not null,
  rows_removed bigint not null,
  retries bigint not null,
  retries_counted bigint not null,
  work_ms bigint not null,
  last_error text collate "C",
  last_error_at text collate "C",
  verifications bigint not null,
  verify_waiting bigint not null,
  verify_failed bigint not null,
  verify_next bigint not null,
  check_run_pos bigint,
  checks bigint not null,
  checked_n bigint not null,
  check_ok bigint,
  check_report text collate "C",
  planned_by text collate "C" not null,
  created_at text collate "C" not null,
  created_pos bigint not null,
  started_at text collate "C",
  finished_at text collate "C",
  row_version bigint not null,
  primary key (ws, move_id)
);

create index moves_by_pos on pawl.moves (ws, created_pos);

create index moves_open on pawl.moves (ws, move_id)
where state in ('PLANNED', 'RUNNING', 'PAUSED');

create table pawl.move_segments (
  ws bigint not null,
  move_id text collate "C" not null,
  segment_index bigint not null,
  segment_id text collate "C" not null,
  lane bigint not null,
  table_name text collate "C" not null,
  table_order bigint not null,
  lower text collate "C",
  upper text collate "C",
  generation bigint not null,
  state text collate "C" not null,
  rows_estimated bigint not null,
  rows_copied bigint not null,
  bytes_copied bigint not null,
  digest text collate "C",
  cursor text collate "C",
  position text collate "C",
  run_pos bigint,
  run_id text collate "C",
  running bigint not null,
  step text collate "C",
  worker_id text collate "C",
  runs bigint not null,
  changes bigint not null,
  leftover bigint not null,
  report text collate "C",
  attempts bigint not null,
  failures bigint not null,
  next_retry_at text collate "C",
  error text collate "C",
  verify_n bigint not null,
  verify_ok bigint,
  verify_note text collate "C",
  verified_at text collate "C",
  excluded text collate "C",
  created_at text collate "C" not null,
  finished_at text collate "C",
  row_version bigint not null,
  primary key (ws, move_id, segment_index)
);

-- What is to be copied next, table by table, and what to be removed.
create index move_segments_by_state on pawl.move_segments (ws, move_id, state, table_order, segment_index);

-- Runs that have to be told when a move is paused.
create index move_segments_active on pawl.move_segments (ws, move_id, segment_index)
where run_pos is not null;
