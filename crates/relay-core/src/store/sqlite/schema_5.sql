-- Format 5: since when a session has its status.

ALTER TABLE sessions ADD COLUMN status_at INTEGER;
