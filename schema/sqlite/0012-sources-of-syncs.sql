-- Older processes may keep running: yes.

-- Whether any sync has a source: only of those it is kept what was learnt about them.
create index syncs_of_source on syncs (ws, source);

-- What the planner assumes, as in the first step.
insert into sqlite_stat1 (tbl, idx, stat) values
  ('syncs', 'syncs_of_source', '100000 100000 1000');

analyze sqlite_schema;
