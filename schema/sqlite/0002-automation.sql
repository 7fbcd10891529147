-- Older processes may keep running: no.

-- Rows that the fold writes about what acts by itself.

create table schedules (
  ws integer not null,
  schedule_id text not null,
  name text not null,
  spec_hash text not null,
  origin text not null,
  definition_version integer not null,
  state text not null,
  state_version integer not null,
  reason text,
  overlap text not null,
  activated_at text not null,
  paused_at text,
  ticked_through text not null,
  last_scheduled_for text,
  last_tick_id text,
  last_run_key text,
  last_run_id text,
  last_backfill_id text,
  next_scheduled_for text,
  next_due_at text,
  due_at text,
  active_runs integer not null,
  last_run_ended_at text,
  ticks_triggered integer not null,
  ticks_skipped integer not null,
  ticks_failed integer not null,
  stale_place text,
  created_at text not null,
  created_pos integer not null,
  row_version integer not null,
  primary key (ws, schedule_id)
) strict, without rowid;

create index schedules_due on schedules (ws, due_at)
where due_at is not null;

create index schedules_by_name on schedules (ws, name, schedule_id);

create table schedule_ticks (
  ws integer not null,
  schedule_id text not null,
  pos integer not null,
  tick_id text,
  scheduled_for text not null,
  through text not null,
  count integer not null,
  manual integer not null,
  status text not null,
  reason text,
  error text,
  run_key text,
  run_id text,
  backfill_id text,
  partition_keys text,
  stale_reasons text,
  definition_version integer not null,
  decided_at text not null,
  primary key (ws, schedule_id, pos)
) strict, without rowid;

create table sensors (
  ws integer not null,
  sensor_id text not null,
  name text not null,
  spec_hash text not null,
  origin text not null,
  definition_version integer not null,
  mode text not null,
  state text not null,
  state_version integer not null,
  reason text,
  cursor text,
  last_evaluation_at text,
  last_eval_id text,
  last_message_at text,
  error text,
  evaluations integer not null,
  runs_requested integer not null,
  messages_received integer not null,
  messages_pending integer not null,
  created_at text not null,
  created_pos integer not null,
  row_version integer not null,
  primary key (ws, sensor_id)
) strict, without rowid;

create index sensors_by_name on sensors (ws, name, sensor_id);

create table sensor_messages (
  ws integer not null,
  sensor_id text not null,
  message_id text not null,
  source text not null,
  message_type text,
  attributes text,
  payload text,
  payload_digest text not null,
  published_at text,
  received_at text not null,
  received_pos integer not null,
  state text not null,
  eval_id text,
  primary key (ws, sensor_id, message_id)
) strict, without rowid;

create index sensor_messages_pending on sensor_messages (ws, received_pos)
where state = 'PENDING';

create table sensor_evals (
  ws integer not null,
  sensor_id text not null,
  pos integer not null,
  eval_id text not null,
  trigger_source text not null,
  cursor_before text,
  cursor_after text,
  status text not null,
  error text,
  run_requests text not null,
  evaluated_at text not null,
  primary key (ws, sensor_id, pos)
) strict, without rowid;

create table webhooks (
  ws integer not null,
  webhook_id text not null,
  name text not null,
  spec_hash text not null,
  origin text not null,
  definition_version integer not null,
  state text not null,
  state_version integer not null,
  created_at text not null,
  created_pos integer not null,
  row_version integer not null,
  primary key (ws, webhook_id)
) strict, without rowid;

-- Side rows: beside the ledger, lost without harm to it.

create table probes (
  ws integer not null,
  probe_id text not null,
  kind text not null,
  subject text not null,
  due_at text not null,
  attempt integer not null,
  leased_until text,
  value text,
  primary key (ws, probe_id)
) strict, without rowid;

create index probes_due on probes (ws, kind, due_at, probe_id);

create index probes_by_subject on probes (ws, kind, subject, due_at, probe_id);

create table secrets (
  ws integer not null,
  kind text not null,
  id text not null,
  secret text not null,
  created_at text not null,
  expires_at text,
  primary key (ws, kind, id, secret)
) strict, without rowid;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('schedules', 'schedules', '10000 10000 1'),
  ('schedules', 'schedules_due', '1000 1000 1'),
  ('schedules', 'schedules_by_name', '10000 10000 2 1'),
  ('schedule_ticks', 'schedule_ticks', '1000000 1000000 1000 1'),
  ('sensors', 'sensors', '10000 10000 1'),
  ('sensors', 'sensors_by_name', '10000 10000 2 1'),
  ('sensor_messages', 'sensor_messages', '1000000 1000000 10000 1'),
  ('sensor_messages', 'sensor_messages_pending', '100 100 1'),
  ('sensor_evals', 'sensor_evals', '1000000 1000000 1000 1'),
  ('probes', 'probes', '10000 10000 1'),
  ('probes', 'probes_due', '10000 10000 5000 2 1'),
  ('probes', 'probes_by_subject', '10000 10000 5000 100 2 1'),
  ('secrets', 'secrets', '1000 1000 500 2 1');

analyze sqlite_schema;
