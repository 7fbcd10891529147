-- Older processes may keep running: yes.

-- Whether any sync has a source: only of those it is kept what was learnt about them.
create index syncs_of_source on pawl.syncs (ws, source);
