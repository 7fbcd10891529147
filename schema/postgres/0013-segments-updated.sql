-- Older processes may keep running: no.

-- When a segment of a sync was last changed by an event; null for rows of before this step, until they
-- change or are folded anew.
alter table pawl.segments add column updated_at text collate "C";
