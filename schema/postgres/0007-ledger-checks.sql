-- Older processes may keep running: yes.

-- What was found about the ledger: how far it was really read and is in order, what is damaged (then
-- nothing is appended), and what a person has accepted. JSON, each null while there is nothing.
alter table pawl.heads add column verified text collate "C";
alter table pawl.heads add column damage text collate "C";
alter table pawl.heads add column accepted text collate "C";
