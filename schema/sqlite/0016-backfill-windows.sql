-- Older processes may keep running: no.

-- When a backfill may plan chunks: not before a time, and only in a part of each day; whether that is
-- so, and when it changes next.
alter table backfills add column start_at text;
alter table backfills add column "window" text;
alter table backfills add column window_open integer not null default 1;
alter table backfills add column window_changes_at text;
create index backfills_by_window on backfills (ws, window_changes_at)
  where window_changes_at is not null;

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values ('backfills', 'backfills_by_window', '10 10 1');

analyze sqlite_schema;
