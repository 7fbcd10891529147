-- Older processes may keep running: no.

-- When a backfill may plan chunks: not before a time, and only in a part of each day; whether that is
-- so, and when it changes next.
alter table pawl.backfills
  add column start_at text collate "C",
  add column "window" text collate "C",
  add column window_open bigint not null default 1,
  add column window_changes_at text collate "C";
create index backfills_by_window on pawl.backfills (ws, window_changes_at)
  where window_changes_at is not null;
