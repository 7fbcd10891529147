-- Older processes may keep running: yes.

-- What was found about the ledger: how far it was really read and is in order, what is damaged (then
-- nothing is appended), and what a person has accepted. JSON, each null while there is nothing.
alter table heads add column verified text;
alter table heads add column damage text;
alter table heads add column accepted text;
