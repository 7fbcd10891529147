-- Older processes may keep running: no.

-- The token that claimed a task's last attempt: only who has it may say anything of that.
alter table tasks add column claimed_by text;
