-- Older processes may keep running: no.

-- Rows that the fold writes about what acts by itself.

create table pawl.schedules (
  ws bigint not null,
  schedule_id text collate "C" not null,
  name text collate "C" not null,
  spec_hash text collate "C" not null,
  origin text collate "C" not null,
  definition_version bigint not null,
  state text collate "C" not null,
  state_version bigint not null,
  reason text collate "C",
  overlap text collate "C" not null,
  activated_at text collate "C" not null,
  paused_at text collate "C",
  ticked_through text collate "C" not null,
  last_scheduled_for text collate "C",
  last_tick_id text collate "C",
  last_run_key text collate "C",
  last_run_id text collate "C",
  last_backfill_id text collate "C",
  next_scheduled_for text collate "C",
  next_due_at text collate "C",
  due_at text collate "C",
  active_runs bigint not null,
  last_run_ended_at text collate "C",
  ticks_triggered bigint not null,
  ticks_skipped bigint not null,
  ticks_failed bigint not null,
  stale_place text collate "C",
  created_at text collate "C" not null,
  created_pos bigint not null,
  row_version bigint not null,
  primary key (ws, schedule_id)
);

create index schedules_due on pawl.schedules (ws, due_at)
where due_at is not null;

create index schedules_by_name on pawl.schedules (ws, name, schedule_id);

create table pawl.schedule_ticks (
  ws bigint not null,
  schedule_id text collate "C" not null,
  pos bigint not null,
  tick_id text collate "C",
  scheduled_for text collate "C" not null,
  through text collate "C" not null,
  count bigint not null,
  manual bigint not null,
  status text collate "C" not null,
  reason text collate "C",
  error text collate "C",
  run_key text collate "C",
  run_id text collate "C",
  backfill_id text collate "C",
  partition_keys text collate "C",
  stale_reasons text collate "C",
  definition_version bigint not null,
  decided_at text collate "C" not null,
  primary key (ws, schedule_id, pos)
);

create table pawl.sensors (
  ws bigint not null,
  sensor_id text collate "C" not null,
  name text collate "C" not null,
  spec_hash text collate "C" not null,
  origin text collate "C" not null,
  definition_version bigint not null,
  mode text collate "C" not null,
  state text collate "C" not null,
  state_version bigint not null,
  reason text collate "C",
  cursor text collate "C",
  last_evaluation_at text collate "C",
  last_eval_id text collate "C",
  last_message_at text collate "C",
  error text collate "C",
  evaluations bigint not null,
  runs_requested bigint not null,
  messages_received bigint not null,
  messages_pending bigint not null,
  created_at text collate "C" not null,
  created_pos bigint not null,
  row_version bigint not null,
  primary key (ws, sensor_id)
);

create index sensors_by_name on pawl.sensors (ws, name, sensor_id);

create table pawl.sensor_messages (
  ws bigint not null,
  sensor_id text collate "C" not null,
  message_id text collate "C" not null,
  source text collate "C" not null,
  message_type text collate "C",
  attributes text collate "C",
  payload text collate "C",
  payload_digest text collate "C" not null,
  published_at text collate "C",
  received_at text collate "C" not null,
  received_pos bigint not null,
  state text collate "C" not null,
  eval_id text collate "C",
  primary key (ws, sensor_id, message_id)
);

create index sensor_messages_pending on pawl.sensor_messages (ws, received_pos)
where state = 'PENDING';

create table pawl.sensor_evals (
  ws bigint not null,
  sensor_id text collate "C" not null,
  pos bigint not null,
  eval_id text collate "C" not null,
  trigger_source text collate "C" not null,
  cursor_before text collate "C",
  cursor_after text collate "C",
  status text collate "C" not null,
  error text collate "C",
  run_requests text collate "C" not null,
  evaluated_at text collate "C" not null,
  primary key (ws, sensor_id, pos)
);

create table pawl.webhooks (
  ws bigint not null,
  webhook_id text collate "C" not null,
  name text collate "C" not null,
  spec_hash text collate "C" not null,
  origin text collate "C" not null,
  definition_version bigint not null,
  state text collate "C" not null,
  state_version bigint not null,
  created_at text collate "C" not null,
  created_pos bigint not null,
  row_version bigint not null,
  primary key (ws, webhook_id)
);

-- Side rows: beside the ledger, lost without harm to it.

create table pawl.probes (
  ws bigint not null,
  probe_id text collate "C" not null,
  kind text collate "C" not null,
  subject text collate "C" not null,
  due_at text collate "C" not null,
  attempt bigint not null,
  leased_until text collate "C",
  value text collate "C",
  primary key (ws, probe_id)
);

create index probes_due on pawl.probes (ws, kind, due_at, probe_id);

create index probes_by_subject on pawl.probes (ws, kind, subject, due_at, probe_id);

create table pawl.secrets (
  ws bigint not null,
  kind text collate "C" not null,
  id text collate "C" not null,
  secret text collate "C" not null,
  created_at text collate "C" not null,
  expires_at text collate "C",
  primary key (ws, kind, id, secret)
);
