-- Older processes may keep running: no.

-- Who the workspaces are. Numbers are never given twice.
create table workspaces (
  ws integer primary key autoincrement,
  tenant_id text not null,
  workspace_id text not null,
  unique (tenant_id, workspace_id)
) strict;

-- The end of each workspace's ledger.
create table heads (
  ws integer primary key,
  pos integer not null,
  hash text not null,
  fold_version integer not null,
  verified_pos integer not null
) strict;

-- The ledger.
-- With a rowid: bodies of a kilobyte would overflow the pages of a table without one.
create table events (
  ws integer not null,
  pos integer not null,
  v integer not null,
  event_id text not null,
  type text not null,
  subject_pos integer not null,
  idempotency_key text not null,
  occurred_at text not null,
  actor text not null,
  correlation_id text,
  data text not null,
  prev_hash text not null,
  hash text not null,
  primary key (ws, pos)
) strict;

create unique index events_by_subject on events (ws, subject_pos, idempotency_key);

create trigger events_refuse_update before update on events
begin
  select raise(abort, 'The ledger is append-only: events are never updated.');
end;

create trigger events_refuse_delete before delete on events
begin
  select raise(abort, 'The ledger is append-only: events are never deleted.');
end;

-- Rows that the fold writes.

create table workspace_state (
  ws integer not null,
  id text not null,
  definition_version integer not null,
  row_version integer not null,
  primary key (ws, id)
) strict, without rowid;

create table definitions (
  ws integer not null,
  kind text not null,
  name text not null,
  spec_hash text not null,
  origin text not null,
  definition_version integer not null,
  published_at text not null,
  code_version text,
  code_version_at text,
  entity_id text,
  row_version integer not null,
  primary key (ws, kind, name)
) strict, without rowid;

create table specs (
  ws integer not null,
  spec_hash text not null,
  kind text not null,
  name text not null,
  body text not null,
  primary key (ws, spec_hash)
) strict, without rowid;

create table dynamic_definitions (
  ws integer not null,
  definition text not null,
  key_count integer not null,
  row_version integer not null,
  primary key (ws, definition)
) strict, without rowid;

create table dynamic_keys (
  ws integer not null,
  definition text not null,
  ordinal integer not null,
  partition_key text not null,
  added_at text not null,
  primary key (ws, definition, ordinal)
) strict, without rowid;

create unique index dynamic_keys_by_key on dynamic_keys (ws, definition, partition_key);

create table request_keys (
  ws integer not null,
  request_key text not null,
  request_fingerprint text not null,
  backfill_ids text not null,
  primary key (ws, request_key)
) strict, without rowid;

create table backfills (
  ws integer not null,
  backfill_id text not null,
  created_pos integer not null,
  client_request_id text not null,
  created_by text not null,
  asset_selection text not null,
  spec_hashes text not null,
  partition_selector text not null,
  bound text not null,
  "order" text not null,
  state text not null,
  state_version integer not null,
  reason text,
  chunk_size integer not null,
  max_concurrent_runs integer not null,
  priority integer not null,
  retry text,
  failure_limit text,
  failure_limit_reached integer not null,
  cancel_runs integer not null,
  parent_backfill_id text,
  after_backfill_id text,
  continue_on_failure integer not null,
  followers text not null,
  code_version text,
  labels text not null,
  config text,
  total_partitions integer not null,
  survey_pages integer not null,
  stale_reasons text,
  base_chunks integer not null,
  next_chunk integer not null,
  pending_tiles text not null,
  tiles_made integer not null,
  total_chunks integer not null,
  chunks_planned integer not null,
  chunks_running integer not null,
  chunks_succeeded integer not null,
  chunks_failed integer not null,
  chunks_cancelled integer not null,
  partitions_total integer not null,
  partitions_planned integer not null,
  partitions_running integer not null,
  partitions_succeeded integer not null,
  partitions_failed integer not null,
  partitions_cancelled integer not null,
  partitions_skipped integer not null,
  first_error text,
  created_at text not null,
  started_at text,
  finished_at text,
  row_version integer not null,
  primary key (ws, backfill_id)
) strict, without rowid;

create unique index backfills_by_pos on backfills (ws, created_pos);

create index backfills_by_parent on backfills (ws, parent_backfill_id, created_pos)
where parent_backfill_id is not null;

create index backfills_active on backfills (ws, created_pos)
where state in ('PENDING', 'RUNNING', 'PAUSED', 'CANCELLING');

create table chunks (
  ws integer not null,
  backfill_id text not null,
  chunk_index integer not null,
  generation integer not null,
  state text not null,
  parts text not null,
  partitions integer not null,
  run_pos integer,
  run_id text,
  failed text,
  skipped text,
  cancelled text,
  split_into text,
  planned_at text,
  finished_at text,
  row_version integer not null,
  primary key (ws, backfill_id, chunk_index)
) strict, without rowid;

create index chunks_unsuccessful on chunks (ws, backfill_id, state, chunk_index)
where state in ('PENDING', 'FAILED', 'CANCELLED', 'SPLIT');

create table survey_pages (
  ws integer not null,
  backfill_id text not null,
  page integer not null,
  first_index integer not null,
  count integer not null,
  parts text not null,
  primary key (ws, backfill_id, page)
) strict, without rowid;

create table runs (
  ws integer not null,
  run_pos integer not null,
  run_id text not null,
  run_key text not null,
  state text not null,
  trigger_source_ref text not null,
  backfill_id text,
  chunk_index integer,
  asset_selection text not null,
  partition_keys text,
  config text,
  labels text not null,
  code_version text,
  class integer not null,
  priority integer not null,
  retry text,
  tasks_total integer not null,
  tasks_waiting integer not null,
  tasks_ready integer not null,
  tasks_running integer not null,
  tasks_retry_wait integer not null,
  tasks_succeeded integer not null,
  tasks_failed integer not null,
  tasks_cancelled integer not null,
  tasks_skipped integer not null,
  cancel_requested_at text,
  cancel_deadline_at text,
  cancel_reason text,
  first_error text,
  requested_at text not null,
  started_at text,
  finished_at text,
  row_version integer not null,
  primary key (ws, run_pos)
) strict, without rowid;

create unique index runs_by_id on runs (ws, run_id);

create index runs_active on runs (ws, run_pos)
where state in ('PENDING', 'RUNNING');

create index runs_cancelling on runs (ws, cancel_deadline_at)
where cancel_deadline_at is not null and state in ('PENDING', 'RUNNING');

create table run_keys (
  ws integer not null,
  run_key text not null,
  run_pos integer not null,
  run_id text not null,
  request_fingerprint text not null,
  primary key (ws, run_key)
) strict, without rowid;

create table run_key_conflicts (
  ws integer not null,
  pos integer not null,
  run_key text not null,
  run_id text not null,
  run_pos integer not null,
  request_fingerprint text not null,
  conflicting_fingerprint text not null,
  conflicting_event_id text not null,
  detected_at text not null,
  primary key (ws, pos)
) strict, without rowid;

create table run_assets (
  ws integer not null,
  run_pos integer not null,
  asset_index integer not null,
  asset_key text not null,
  spec_hash text not null,
  pool text,
  batch integer not null,
  partition_indexes text,
  first_task integer not null,
  task_count integer not null,
  ready integer not null,
  running integer not null,
  first_key text not null,
  last_key text not null,
  class integer not null,
  priority integer not null,
  primary key (ws, run_pos, asset_index)
) strict, without rowid;

create index run_assets_ready on run_assets (ws, class, priority desc, run_pos)
where ready > 0;

create index run_assets_running on run_assets (ws, asset_key)
where running > 0;

create table tasks (
  ws integer not null,
  run_pos integer not null,
  task_key integer not null,
  asset_index integer not null,
  asset_key text not null,
  partition_index integer,
  state text not null,
  attempt integer not null,
  failures integer not null,
  worker_id text,
  started_at text,
  started_pos integer,
  retry_at text,
  finished_at text,
  unmet text,
  downstream text,
  error text,
  remaining text,
  skipped text,
  primary key (ws, run_pos, task_key)
) strict, without rowid;

create index tasks_retrying on tasks (ws, retry_at)
where retry_at is not null;

create table pools (
  ws integer not null,
  pool text not null,
  running integer not null,
  primary key (ws, pool)
) strict, without rowid;

create table partition_status (
  ws integer not null,
  asset_key text not null,
  partition_key text not null,
  partition_values text,
  last_materialization_run_id text,
  last_materialization_at text,
  last_materialization_code_version text,
  last_materialization_start_pos integer,
  last_materialization_pos integer,
  metadata text,
  last_attempt_run_id text not null,
  last_attempt_at text not null,
  last_attempt_outcome text not null,
  last_attempt_start_pos integer not null,
  row_version integer not null,
  primary key (ws, asset_key, partition_key)
) strict, without rowid;

create table asset_status (
  ws integer not null,
  asset_key text not null,
  last_materialization_at text not null,
  last_materialization_pos integer not null,
  primary key (ws, asset_key)
) strict, without rowid;

-- Side rows: beside the ledger, lost without harm to it.

create table leases (
  ws integer not null,
  lease_id text not null,
  worker_id text not null,
  granted_at text not null,
  expires_at text not null,
  tasks text not null,
  primary key (ws, lease_id)
) strict, without rowid;

create index leases_by_expiry on leases (ws, expires_at);

create table checkpoints (
  ws integer not null,
  run_pos integer not null,
  task_key integer not null,
  attempt integer not null,
  value text,
  saved_at text not null,
  primary key (ws, run_pos, task_key)
) strict, without rowid;

create table progress (
  ws integer not null,
  run_pos integer not null,
  task_key integer not null,
  attempt integer not null,
  done integer not null,
  total integer,
  note text,
  at text not null,
  primary key (ws, run_pos, task_key)
) strict, without rowid;

create table task_logs (
  ws integer not null,
  run_pos integer not null,
  task_key integer not null,
  line integer not null,
  attempt integer not null,
  at text not null,
  message text not null,
  fields text,
  primary key (ws, run_pos, task_key, line)
) strict, without rowid;

create table answers (
  ws integer not null,
  scope text not null,
  key text not null,
  body_hash text not null,
  status integer not null,
  answer text,
  stored_at text not null,
  primary key (ws, scope, key)
) strict, without rowid;

create table tokens (
  ws integer not null,
  token_id text not null,
  principal text not null,
  secret_hash text not null unique,
  verbs text not null,
  created_at text not null,
  expires_at text,
  revoked_at text,
  primary key (ws, token_id)
) strict, without rowid;

create table tenant_secrets (
  tenant_id text primary key,
  secret text not null
) strict, without rowid;

-- What the planner assumes: many rows in a table, few in its partial indexes. Without it the planner
-- would take the primary key for every look-up and read a workspace's rows from the first to the
-- last. Given here once, not measured, so that plans are the same everywhere and never change.
analyze;

insert into sqlite_stat1 (tbl, idx, stat) values
  ('events', 'events', '1000000 1000000 1'),
  ('events', 'events_by_subject', '1000000 1000000 10 1'),
  ('dynamic_keys', 'dynamic_keys', '1000000 1000000 100000 1'),
  ('dynamic_keys', 'dynamic_keys_by_key', '1000000 1000000 100000 1'),
  ('backfills', 'backfills', '1000 1000 1'),
  ('backfills', 'backfills_by_pos', '1000 1000 1'),
  ('backfills', 'backfills_by_parent', '100 100 2 1'),
  ('backfills', 'backfills_active', '10 10 1'),
  ('chunks', 'chunks', '1000000 1000000 10000 1'),
  ('chunks', 'chunks_unsuccessful', '1000 1000 100 20 1'),
  ('runs', 'runs', '1000000 1000000 1'),
  ('runs', 'runs_by_id', '1000000 1000000 1'),
  ('runs', 'runs_active', '100 100 1'),
  ('runs', 'runs_cancelling', '10 10 1'),
  ('run_assets', 'run_assets', '10000 10000 2 1'),
  ('run_assets', 'run_assets_ready', '1000 1000 500 100 2'),
  ('run_assets', 'run_assets_running', '1000 1000 100'),
  ('tasks', 'tasks', '1000000 1000000 100 1'),
  ('tasks', 'tasks_retrying', '1000 1000 1'),
  ('partition_status', 'partition_status', '1000000 1000000 10000 1'),
  ('leases', 'leases', '1000 1000 1'),
  ('leases', 'leases_by_expiry', '1000 1000 1');

analyze sqlite_schema;
