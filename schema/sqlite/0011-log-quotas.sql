-- Older processes may keep running: no.

-- How much each run has logged: its log is kept within a quota, and dropped when it is old.
create table run_logs (
  ws integer not null,
  run_pos integer not null,
  began_at text not null,
  last_at text not null,
  bytes integer not null,
  dropped integer not null,
  primary key (ws, run_pos)
) strict, without rowid;

create index run_logs_by_age on run_logs (ws, began_at);

-- All of a workspace's logs, as the sum of a few rows.
create table log_totals (
  ws integer not null,
  slot integer not null,
  bytes integer not null,
  primary key (ws, slot)
) strict, without rowid;

-- A line counts as its texts and 100 bytes more.
insert into run_logs (ws, run_pos, began_at, last_at, bytes, dropped)
select ws, run_pos, min(at), max(at),
  sum(100 + octet_length(message) + coalesce(octet_length(fields), 0)), 0
from task_logs
group by ws, run_pos;

insert into log_totals (ws, slot, bytes)
select ws, 0, sum(bytes) from run_logs group by ws;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('run_logs', 'run_logs', '1000000 1000000 1'),
  ('run_logs', 'run_logs_by_age', '1000000 1000000 1'),
  ('task_logs', 'task_logs', '1000000 1000000 1000 100 1');

analyze sqlite_schema;
