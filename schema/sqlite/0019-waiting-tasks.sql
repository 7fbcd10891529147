-- Older processes may keep running: no.

-- Tasks that wait for a partition that they are made from, and the assets of which any is waited for.
create table waiting_tasks (
  ws integer not null,
  run_pos integer not null,
  task_key integer not null,
  asset_index integer not null,
  asset_key text not null,
  awaited_asset text not null,
  awaited_key text not null,
  deferred_pos integer not null,
  primary key (ws, run_pos, task_key)
) strict, without rowid;

create index waiting_tasks_awaited on waiting_tasks (ws, awaited_asset, awaited_key, run_pos, task_key);
create index waiting_tasks_asset on waiting_tasks (ws, asset_key, run_pos, task_key);

create table awaited_assets (
  ws integer not null,
  asset_key text not null,
  awaited text not null,
  arrived text,
  arrived_pos integer not null,
  primary key (ws, asset_key)
) strict, without rowid;

create index awaited_assets_arrived on awaited_assets (ws, asset_key) where arrived is not null;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('waiting_tasks', 'waiting_tasks', '1000 1000 10 1'),
  ('waiting_tasks', 'waiting_tasks_awaited', '1000 1000 100 10 2 1'),
  ('waiting_tasks', 'waiting_tasks_asset', '1000 1000 100 10 1'),
  ('awaited_assets', 'awaited_assets', '10 10 1'),
  ('awaited_assets', 'awaited_assets_arrived', '10 10 1');

analyze sqlite_schema;
