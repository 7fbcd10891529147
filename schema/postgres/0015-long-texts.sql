-- Older processes may keep running: yes.

-- Nothing to do: PostgreSQL compresses long texts by itself. SQLite does so from this step on.
