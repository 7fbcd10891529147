-- Older processes may keep running: no.

-- Rows that change soon after they are made get room beside them (fillfactor): a new version on
-- the same page leaves the indexes alone.

-- Who the workspaces are. Numbers are never given twice.
create table pawl.workspaces (
  ws bigint generated always as identity primary key,
  tenant_id text collate "C" not null,
  workspace_id text collate "C" not null,
  unique (tenant_id, workspace_id)
);

-- The end of each workspace's ledger.
create table pawl.heads (
  ws bigint primary key,
  pos bigint not null,
  hash text collate "C" not null,
  fold_version bigint not null,
  verified_pos bigint not null
) with (fillfactor = 10);

-- The ledger.
create table pawl.events (
  ws bigint not null,
  pos bigint not null,
  v bigint not null,
  event_id text collate "C" not null,
  type text collate "C" not null,
  subject_pos bigint not null,
  idempotency_key text collate "C" not null,
  occurred_at text collate "C" not null,
  actor text collate "C" not null,
  correlation_id text collate "C",
  data text collate "C" not null,
  prev_hash text collate "C" not null,
  hash text collate "C" not null,
  primary key (ws, pos)
);

create unique index events_by_subject on pawl.events (ws, subject_pos, idempotency_key);

create function pawl.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'The ledger is append-only: events are never changed.';
end
$$;

create trigger events_refuse_change before update or delete on pawl.events
for each row execute function pawl.refuse_change();

create trigger events_refuse_truncate before truncate on pawl.events
for each statement execute function pawl.refuse_change();

-- Fails the statement, and with it the transaction, when a write missed rows it knows to be there.
create function pawl.expect_rows(written bigint, expected bigint) returns void
language plpgsql as $$
begin
  if written <> expected then
    raise exception using
      errcode = 'integrity_constraint_violation',
      message = format('%s rows were written where %s were expected.', written, expected);
  end if;
end
$$;

-- A point in time as UTC text of fixed width, as everywhere in the ledger and its rows.
create function pawl.instant(at timestamptz) returns text
language sql immutable as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Tells the other processes of an append, when it commits.
create function pawl.announce(ws bigint, pos bigint) returns void
language sql as $$
  select pg_notify('pawl_appended', ws || ' ' || pos)
$$;

-- Rows that the fold writes.

create table pawl.workspace_state (
  ws bigint not null,
  id text collate "C" not null,
  definition_version bigint not null,
  row_version bigint not null,
  primary key (ws, id)
);

create table pawl.definitions (
  ws bigint not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  spec_hash text collate "C" not null,
  origin text collate "C" not null,
  definition_version bigint not null,
  published_at text collate "C" not null,
  code_version text collate "C",
  code_version_at text collate "C",
  entity_id text collate "C",
  row_version bigint not null,
  primary key (ws, kind, name)
);

create table pawl.specs (
  ws bigint not null,
  spec_hash text collate "C" not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  body text collate "C" not null,
  primary key (ws, spec_hash)
);

create table pawl.dynamic_definitions (
  ws bigint not null,
  definition text collate "C" not null,
  key_count bigint not null,
  row_version bigint not null,
  primary key (ws, definition)
);

create table pawl.dynamic_keys (
  ws bigint not null,
  definition text collate "C" not null,
  ordinal bigint not null,
  partition_key text collate "C" not null,
  added_at text collate "C" not null,
  primary key (ws, definition, ordinal)
);

create unique index dynamic_keys_by_key on pawl.dynamic_keys (ws, definition, partition_key);

create table pawl.request_keys (
  ws bigint not null,
  request_key text collate "C" not null,
  request_fingerprint text collate "C" not null,
  backfill_ids text collate "C" not null,
  primary key (ws, request_key)
);

create table pawl.backfills (
  ws bigint not null,
  backfill_id text collate "C" not null,
  created_pos bigint not null,
  client_request_id text collate "C" not null,
  created_by text collate "C" not null,
  asset_selection text collate "C" not null,
  spec_hashes text collate "C" not null,
  partition_selector text collate "C" not null,
  bound text collate "C" not null,
  "order" text collate "C" not null,
  state text collate "C" not null,
  state_version bigint not null,
  reason text collate "C",
  chunk_size bigint not null,
  max_concurrent_runs bigint not null,
  priority bigint not null,
  retry text collate "C",
  failure_limit text collate "C",
  failure_limit_reached bigint not null,
  cancel_runs bigint not null,
  parent_backfill_id text collate "C",
  after_backfill_id text collate "C",
  continue_on_failure bigint not null,
  followers text collate "C" not null,
  code_version text collate "C",
  labels text collate "C" not null,
  config text collate "C",
  total_partitions bigint not null,
  survey_pages bigint not null,
  stale_reasons text collate "C",
  base_chunks bigint not null,
  next_chunk bigint not null,
  pending_tiles text collate "C" not null,
  tiles_made bigint not null,
  total_chunks bigint not null,
  chunks_planned bigint not null,
  chunks_running bigint not null,
  chunks_succeeded bigint not null,
  chunks_failed bigint not null,
  chunks_cancelled bigint not null,
  partitions_total bigint not null,
  partitions_planned bigint not null,
  partitions_running bigint not null,
  partitions_succeeded bigint not null,
  partitions_failed bigint not null,
  partitions_cancelled bigint not null,
  partitions_skipped bigint not null,
  first_error text collate "C",
  created_at text collate "C" not null,
  started_at text collate "C",
  finished_at text collate "C",
  row_version bigint not null,
  primary key (ws, backfill_id)
) with (fillfactor = 50);

create unique index backfills_by_pos on pawl.backfills (ws, created_pos);

create index backfills_by_parent on pawl.backfills (ws, parent_backfill_id, created_pos)
where parent_backfill_id is not null;

create index backfills_active on pawl.backfills (ws, created_pos)
where state in ('PENDING', 'RUNNING', 'PAUSED', 'CANCELLING');

create table pawl.chunks (
  ws bigint not null,
  backfill_id text collate "C" not null,
  chunk_index bigint not null,
  generation bigint not null,
  state text collate "C" not null,
  parts text collate "C" not null,
  partitions bigint not null,
  run_pos bigint,
  run_id text collate "C",
  failed text collate "C",
  skipped text collate "C",
  cancelled text collate "C",
  split_into text collate "C",
  planned_at text collate "C",
  finished_at text collate "C",
  row_version bigint not null,
  primary key (ws, backfill_id, chunk_index)
) with (fillfactor = 70);

create index chunks_unsuccessful on pawl.chunks (ws, backfill_id, state, chunk_index)
where state in ('PENDING', 'FAILED', 'CANCELLED', 'SPLIT');

create table pawl.survey_pages (
  ws bigint not null,
  backfill_id text collate "C" not null,
  page bigint not null,
  first_index bigint not null,
  count bigint not null,
  parts text collate "C" not null,
  primary key (ws, backfill_id, page)
);

create table pawl.runs (
  ws bigint not null,
  run_pos bigint not null,
  run_id text collate "C" not null,
  run_key text collate "C" not null,
  state text collate "C" not null,
  trigger_source_ref text collate "C" not null,
  backfill_id text collate "C",
  chunk_index bigint,
  asset_selection text collate "C" not null,
  partition_keys text collate "C",
  config text collate "C",
  labels text collate "C" not null,
  code_version text collate "C",
  class bigint not null,
  priority bigint not null,
  retry text collate "C",
  tasks_total bigint not null,
  tasks_waiting bigint not null,
  tasks_ready bigint not null,
  tasks_running bigint not null,
  tasks_retry_wait bigint not null,
  tasks_succeeded bigint not null,
  tasks_failed bigint not null,
  tasks_cancelled bigint not null,
  tasks_skipped bigint not null,
  cancel_requested_at text collate "C",
  cancel_deadline_at text collate "C",
  cancel_reason text collate "C",
  first_error text collate "C",
  requested_at text collate "C" not null,
  started_at text collate "C",
  finished_at text collate "C",
  row_version bigint not null,
  primary key (ws, run_pos)
) with (fillfactor = 70);

create unique index runs_by_id on pawl.runs (ws, run_id);

create index runs_active on pawl.runs (ws, run_pos)
where state in ('PENDING', 'RUNNING');

create index runs_cancelling on pawl.runs (ws, cancel_deadline_at)
where cancel_deadline_at is not null and state in ('PENDING', 'RUNNING');

create table pawl.run_keys (
  ws bigint not null,
  run_key text collate "C" not null,
  run_pos bigint not null,
  run_id text collate "C" not null,
  request_fingerprint text collate "C" not null,
  primary key (ws, run_key)
);

create table pawl.run_key_conflicts (
  ws bigint not null,
  pos bigint not null,
  run_key text collate "C" not null,
  run_id text collate "C" not null,
  run_pos bigint not null,
  request_fingerprint text collate "C" not null,
  conflicting_fingerprint text collate "C" not null,
  conflicting_event_id text collate "C" not null,
  detected_at text collate "C" not null,
  primary key (ws, pos)
);

create table pawl.run_assets (
  ws bigint not null,
  run_pos bigint not null,
  asset_index bigint not null,
  asset_key text collate "C" not null,
  spec_hash text collate "C" not null,
  pool text collate "C",
  batch bigint not null,
  partition_indexes text collate "C",
  first_task bigint not null,
  task_count bigint not null,
  ready bigint not null,
  running bigint not null,
  first_key text collate "C" not null,
  last_key text collate "C" not null,
  class bigint not null,
  priority bigint not null,
  primary key (ws, run_pos, asset_index)
) with (fillfactor = 50);

create index run_assets_ready on pawl.run_assets (ws, class, priority desc, run_pos)
where ready > 0;

create index run_assets_running on pawl.run_assets (ws, asset_key)
where running > 0;

create table pawl.tasks (
  ws bigint not null,
  run_pos bigint not null,
  task_key bigint not null,
  asset_index bigint not null,
  asset_key text collate "C" not null,
  partition_index bigint,
  state text collate "C" not null,
  attempt bigint not null,
  failures bigint not null,
  worker_id text collate "C",
  started_at text collate "C",
  started_pos bigint,
  retry_at text collate "C",
  finished_at text collate "C",
  unmet text collate "C",
  downstream text collate "C",
  error text collate "C",
  remaining text collate "C",
  skipped text collate "C",
  primary key (ws, run_pos, task_key)
) with (fillfactor = 50);

create index tasks_retrying on pawl.tasks (ws, retry_at)
where retry_at is not null;

create table pawl.pools (
  ws bigint not null,
  pool text collate "C" not null,
  running bigint not null,
  primary key (ws, pool)
);

create table pawl.partition_status (
  ws bigint not null,
  asset_key text collate "C" not null,
  partition_key text collate "C" not null,
  partition_values text collate "C",
  last_materialization_run_id text collate "C",
  last_materialization_at text collate "C",
  last_materialization_code_version text collate "C",
  last_materialization_start_pos bigint,
  last_materialization_pos bigint,
  metadata text collate "C",
  last_attempt_run_id text collate "C" not null,
  last_attempt_at text collate "C" not null,
  last_attempt_outcome text collate "C" not null,
  last_attempt_start_pos bigint not null,
  row_version bigint not null,
  primary key (ws, asset_key, partition_key)
);

create table pawl.asset_status (
  ws bigint not null,
  asset_key text collate "C" not null,
  last_materialization_at text collate "C" not null,
  last_materialization_pos bigint not null,
  primary key (ws, asset_key)
);

-- Side rows: beside the ledger, lost without harm to it.

create table pawl.leases (
  ws bigint not null,
  lease_id text collate "C" not null,
  worker_id text collate "C" not null,
  granted_at text collate "C" not null,
  expires_at text collate "C" not null,
  tasks text collate "C" not null,
  primary key (ws, lease_id)
) with (fillfactor = 50);

create index leases_by_expiry on pawl.leases (ws, expires_at);

create table pawl.checkpoints (
  ws bigint not null,
  run_pos bigint not null,
  task_key bigint not null,
  attempt bigint not null,
  value text collate "C",
  saved_at text collate "C" not null,
  primary key (ws, run_pos, task_key)
);

create table pawl.progress (
  ws bigint not null,
  run_pos bigint not null,
  task_key bigint not null,
  attempt bigint not null,
  done bigint not null,
  total bigint,
  note text collate "C",
  at text collate "C" not null,
  primary key (ws, run_pos, task_key)
);

create table pawl.task_logs (
  ws bigint not null,
  run_pos bigint not null,
  task_key bigint not null,
  line bigint generated always as identity,
  attempt bigint not null,
  at text collate "C" not null,
  message text collate "C" not null,
  fields text collate "C",
  primary key (ws, run_pos, task_key, line)
);

create table pawl.answers (
  ws bigint not null,
  scope text collate "C" not null,
  key text collate "C" not null,
  body_hash text collate "C" not null,
  status bigint not null,
  answer text collate "C",
  stored_at text collate "C" not null,
  primary key (ws, scope, key)
);

create table pawl.tokens (
  ws bigint not null,
  token_id text collate "C" not null,
  principal text collate "C" not null,
  secret_hash text collate "C" not null unique,
  verbs text collate "C" not null,
  created_at text collate "C" not null,
  expires_at text collate "C",
  revoked_at text collate "C",
  primary key (ws, token_id)
);

create table pawl.tenant_secrets (
  tenant_id text collate "C" primary key,
  secret text collate "C" not null
);
