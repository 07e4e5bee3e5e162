-- Format 2: actions and their calls.

CREATE TABLE actions (
    no          INTEGER PRIMARY KEY,
    workspace   INTEGER NOT NULL,
    name        TEXT NOT NULL,
    owner       INTEGER,
    version     INTEGER NOT NULL,
    body        TEXT NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX actions_by_name ON actions (workspace, name);
CREATE INDEX actions_by_owner ON actions (owner) WHERE owner IS NOT NULL;

-- Keyed by the log position of the call's first event. State 0 has not ended. `flags`: 1 at most once,
-- 2 the caller is told how it ended. `caller` is what events tell of the caller.
CREATE TABLE invocations (
    position    INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    action      INTEGER NOT NULL,
    name        TEXT NOT NULL,
    owner       INTEGER,
    caller_no   INTEGER,
    caller      TEXT NOT NULL,
    state       INTEGER NOT NULL,
    flags       INTEGER NOT NULL,
    offers      INTEGER NOT NULL,
    deadline    INTEGER NOT NULL,
    ended_at    INTEGER,
    input       TEXT,
    output      TEXT,
    error       TEXT,
    retryable   INTEGER
) STRICT;
CREATE INDEX invocations_open ON invocations (action, position) WHERE state = 0;
