-- Older processes may keep running: no.

-- Tasks that wait for a partition that they are made from, and the assets of which any is waited for.
create table pawl.waiting_tasks (
  ws bigint not null,
  run_pos bigint not null,
  task_key bigint not null,
  asset_index bigint not null,
  asset_key text collate "C" not null,
  awaited_asset text collate "C" not null,
  awaited_key text collate "C" not null,
  deferred_pos bigint not null,
  primary key (ws, run_pos, task_key)
);

create index waiting_tasks_awaited
  on pawl.waiting_tasks (ws, awaited_asset, awaited_key, run_pos, task_key);
create index waiting_tasks_asset on pawl.waiting_tasks (ws, asset_key, run_pos, task_key);

create table pawl.awaited_assets (
  ws bigint not null,
  asset_key text collate "C" not null,
  awaited text collate "C" not null,
  arrived text collate "C",
  arrived_pos bigint not null,
  primary key (ws, asset_key)
);

create index awaited_assets_arrived on pawl.awaited_assets (ws, asset_key)
  where arrived is not null;
