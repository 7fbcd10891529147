-- Older processes may keep running: yes.

-- The latest time that this store is known to have had: its time goes on from there, also when the
-- machine's clock is set back between two processes.
create table clock (
  id integer primary key check (id = 1),
  seen_at text not null
) strict;
