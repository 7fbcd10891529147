-- Older processes may keep running: no.

-- The numbers of dynamic partition keys that are removed, as stretches: those of now, and those that a
-- backfill pinned.
alter table pawl.dynamic_definitions add column removed text collate "C";
alter table pawl.backfills add column removed text collate "C";
