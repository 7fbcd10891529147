-- Older processes may keep running: no.

-- How much each run has logged: its log is kept within a quota, and dropped when it is old.
create table pawl.run_logs (
  ws bigint not null,
  run_pos bigint not null,
  began_at text collate "C" not null,
  last_at text collate "C" not null,
  bytes bigint not null,
  dropped bigint not null,
  primary key (ws, run_pos)
) with (fillfactor = 70);

create index run_logs_by_age on pawl.run_logs (ws, began_at);

-- All of a workspace's logs, as the sum of a few rows: so that those who write at once rarely wait.
create table pawl.log_totals (
  ws bigint not null,
  slot bigint not null,
  bytes bigint not null,
  primary key (ws, slot)
) with (fillfactor = 20);

-- A line counts as its texts and 100 bytes more.
insert into pawl.run_logs (ws, run_pos, began_at, last_at, bytes, dropped)
select ws, run_pos, min(at), max(at),
  sum(100 + octet_length(message) + coalesce(octet_length(fields), 0)), 0
from pawl.task_logs
group by ws, run_pos;

insert into pawl.log_totals (ws, slot, bytes)
select ws, 0, sum(bytes) from pawl.run_logs group by ws;
