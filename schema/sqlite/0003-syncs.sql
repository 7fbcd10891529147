-- Older processes may keep running: no.

-- Rows that the fold writes about syncs and their segments.

create table syncs (
  ws integer not null,
  sync_id text not null,
  name text not null,
  target text not null,
  target_key text not null,
  source text not null,
  origin text not null,
  state text not null,
  status text not null,
  state_version integer not null,
  reason text,
  from_block integer not null,
  to_limit integer,
  max_parallel integer,
  priority integer,
  planned_to integer,
  segment_size integer,
  next_segment integer not null,
  synced_to integer not null,
  segments_total integer not null,
  segments_pending integer not null,
  segments_queued integer not null,
  segments_running integer not null,
  segments_failed integer not null,
  segments_complete integer not null,
  segments_quarantined integer not null,
  blocks_complete integer not null,
  rows_stored integer not null,
  retry_count integer not null,
  last_error text,
  last_error_at text,
  work_blocks integer not null,
  work_ms integer not null,
  rewrites_seen integer not null,
  reopenings integer not null,
  verifications integer not null,
  verify_waiting integer not null,
  verify_active integer not null,
  created_at text not null,
  created_pos integer not null,
  started_at text,
  completed_at text,
  row_version integer not null,
  primary key (ws, sync_id)
) strict, without rowid;

create index syncs_by_name on syncs (ws, name, target_key, sync_id);

create index syncs_by_source on syncs (ws, name, source, sync_id);

create index syncs_active on syncs (ws, sync_id)
where state in ('PENDING', 'RUNNING', 'PAUSED', 'FOLLOWING');

create table segments (
  ws integer not null,
  sync_id text not null,
  segment_index integer not null,
  kind text not null,
  from_block integer not null,
  to_block integer not null,
  generation integer not null,
  status text not null,
  run_pos integer,
  run_id text,
  last_processed_block integer,
  retry_count integer not null,
  error_class text,
  error_message text,
  next_retry_at text,
  worker_id text,
  attempt integer not null,
  set_aside text,
  undo integer not null,
  was_quarantined integer not null,
  end_hash text,
  rows_stored integer not null,
  verification text,
  reason text,
  excluded text,
  created_at text not null,
  started_at text,
  finished_at text,
  row_version integer not null,
  primary key (ws, sync_id, segment_index)
) strict, without rowid;

create index segments_by_block on segments (ws, sync_id, from_block);

-- What the longest complete prefix ends before, and what is left to run.
create index segments_open on segments (ws, sync_id, from_block)
where status in ('PENDING', 'RUNNING', 'FAILED', 'QUARANTINED');

-- Runs that have to be told when a sync is paused.
create index segments_active on segments (ws, sync_id, segment_index)
where run_pos is not null;

create index segments_quarantined on segments (ws, sync_id, from_block)
where status = 'QUARANTINED';

create index segments_verifying on segments (ws, sync_id, segment_index)
where verification is not null;

create table sync_sources (
  ws integer not null,
  name text not null,
  source text not null,
  head integer not null,
  head_at text not null,
  moves integer not null,
  anchors text not null,
  rewrites integer not null,
  recent_rewrites text not null,
  row_version integer not null,
  primary key (ws, name, source)
) strict, without rowid;

-- Side rows: what was learnt about sources by asking them, and which workers use them.

create table learnt_sources (
  ws integer not null,
  source text not null,
  learnt text not null,
  learnt_at text not null,
  primary key (ws, source)
) strict, without rowid;

create table source_users (
  ws integer not null,
  source text not null,
  worker_id text not null,
  seen_at text not null,
  primary key (ws, source, worker_id)
) strict, without rowid;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('syncs', 'syncs', '10000 10000 1'),
  ('syncs', 'syncs_by_name', '10000 10000 2000 1 1'),
  ('syncs', 'syncs_by_source', '10000 10000 2000 500 1'),
  ('syncs', 'syncs_active', '1000 1000 1'),
  ('segments', 'segments', '1000000 1000000 400 1'),
  ('segments', 'segments_by_block', '1000000 1000000 400 1'),
  ('segments', 'segments_open', '100000 100000 100 1'),
  ('segments', 'segments_active', '1000 1000 4 1'),
  ('segments', 'segments_quarantined', '100 100 10 1'),
  ('segments', 'segments_verifying', '1000 1000 100 1'),
  ('sync_sources', 'sync_sources', '1000 1000 10 1'),
  ('learnt_sources', 'learnt_sources', '1000 1000 1'),
  ('source_users', 'source_users', '10000 10000 10 1');

analyze sqlite_schema;
