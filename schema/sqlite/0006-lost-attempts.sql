-- Older processes may keep running: no.

-- Attempts that were lost with their worker, in a row, and where the last lease ran out.
alter table tasks add column lost_attempts integer not null default 0;
alter table tasks add column lost_pos integer;
