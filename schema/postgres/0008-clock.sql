-- Older processes may keep running: yes.

-- The latest time that this store is known to have had: its time goes on from there, also when the
-- server's clock is set back between two processes.
create table pawl.clock (
  id bigint primary key check (id = 1),
  seen_at text collate "C" not null
);
