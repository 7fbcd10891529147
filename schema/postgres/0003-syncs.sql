-- Older processes may keep running: no.

-- Rows that the fold writes about syncs and their segments.

create table pawl.syncs (
  ws bigint not null,
  sync_id text collate "C" not null,
  name text collate "C" not null,
  target text collate "C" not null,
  target_key text collate "C" not null,
  source text collate "C" not null,
  origin text collate "C" not null,
  state text collate "C" not null,
  status text collate "C" not null,
  state_version bigint not null,
  reason text collate "C",
  from_block bigint not null,
  to_limit bigint,
  max_parallel bigint,
  priority bigint,
  planned_to bigint,
  segment_size bigint,
  next_segment bigint not null,
  synced_to bigint not null,
  segments_total bigint not null,
  segments_pending bigint not null,
  segments_queued bigint not null,
  segments_running bigint not null,
  segments_failed bigint not null,
  segments_complete bigint not null,
  segments_quarantined bigint not null,
  blocks_complete bigint not null,
  rows_stored bigint not null,
  retry_count bigint not null,
  last_error text collate "C",
  last_error_at text collate "C",
  work_blocks bigint not null,
  work_ms bigint not null,
  rewrites_seen bigint not null,
  reopenings bigint not null,
  verifications bigint not null,
  verify_waiting bigint not null,
  verify_active bigint not null,
  created_at text collate "C" not null,
  created_pos bigint not null,
  started_at text collate "C",
  completed_at text collate "C",
  row_version bigint not null,
  primary key (ws, sync_id)
);

create index syncs_by_name on pawl.syncs (ws, name, target_key, sync_id);

create index syncs_by_source on pawl.syncs (ws, name, source, sync_id);

create index syncs_active on pawl.syncs (ws, sync_id)
where state in ('PENDING', 'RUNNING', 'PAUSED', 'FOLLOWING');

create table pawl.segments (
  ws bigint not null,
  sync_id text collate "C" not null,
  segment_index bigint not null,
  kind text collate "C" not null,
  from_block bigint not null,
  to_block bigint not null,
  generation bigint not null,
  status text collate "C" not null,
  run_pos bigint,
  run_id text collate "C",
  last_processed_block bigint,
  retry_count bigint not null,
  error_class text collate "C",
  error_message text collate "C",
  next_retry_at text collate "C",
  worker_id text collate "C",
  attempt bigint not null,
  set_aside text collate "C",
  undo bigint not null,
  was_quarantined bigint not null,
  end_hash text collate "C",
  rows_stored bigint not null,
  verification text collate "C",
  reason text collate "C",
  excluded text collate "C",
  created_at text collate "C" not null,
  started_at text collate "C",
  finished_at text collate "C",
  row_version bigint not null,
  primary key (ws, sync_id, segment_index)
);

create index segments_by_block on pawl.segments (ws, sync_id, from_block);

-- What the longest complete prefix ends before, and what is left to run.
create index segments_open on pawl.segments (ws, sync_id, from_block)
where status in ('PENDING', 'RUNNING', 'FAILED', 'QUARANTINED');

-- Runs that have to be told when a sync is paused.
create index segments_active on pawl.segments (ws, sync_id, segment_index)
where run_pos is not null;

create index segments_quarantined on pawl.segments (ws, sync_id, from_block)
where status = 'QUARANTINED';

create index segments_verifying on pawl.segments (ws, sync_id, segment_index)
where verification is not null;

create table pawl.sync_sources (
  ws bigint not null,
  name text collate "C" not null,
  source text collate "C" not null,
  head bigint not null,
  head_at text collate "C" not null,
  moves bigint not null,
  anchors text collate "C" not null,
  rewrites bigint not null,
  recent_rewrites text collate "C" not null,
  row_version bigint not null,
  primary key (ws, name, source)
);

-- Side rows: what was learnt about sources by asking them, and which workers use them.

create table pawl.learnt_sources (
  ws bigint not null,
  source text collate "C" not null,
  learnt text collate "C" not null,
  learnt_at text collate "C" not null,
  primary key (ws, source)
);

create table pawl.source_users (
  ws bigint not null,
  source text collate "C" not null,
  worker_id text collate "C" not null,
  seen_at text collate "C" not null,
  primary key (ws, source, worker_id)
);
