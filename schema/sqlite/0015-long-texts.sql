-- Older processes may keep running: no.

-- Long bodies of events and long lists of keys are kept compressed from here on, which older versions
-- cannot read. Nothing changes in the tables: what was written before stays as it is.
