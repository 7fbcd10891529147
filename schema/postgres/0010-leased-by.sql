-- Older processes may keep running: no.

-- The token that leased a probe last: only who has it may say anything of that.
alter table pawl.probes add column leased_by text collate "C";
