-- Older processes may keep running: no.

-- The numbers of dynamic partition keys that are removed, as stretches: those of now, and those that a
-- backfill pinned.
alter table dynamic_definitions add column removed text;
alter table backfills add column removed text;
