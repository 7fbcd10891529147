-- Older processes may keep running: no.

-- Attempts that were lost with their worker, in a row, and where the last lease ran out.
alter table pawl.tasks add column lost_attempts bigint not null default 0;
alter table pawl.tasks add column lost_pos bigint;
