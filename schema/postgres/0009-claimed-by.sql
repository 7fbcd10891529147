-- Older processes may keep running: no.

-- The token that claimed a task's last attempt: only who has it may say anything of that.
alter table pawl.tasks add column claimed_by text collate "C";
