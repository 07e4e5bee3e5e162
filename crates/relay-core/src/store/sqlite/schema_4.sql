-- Format 4: permissions.

-- What asks under rules of its own. `permissions` are those; `spent` lists the places in their `allowOnce` that were
-- used up.
CREATE TABLE permission_runs (
    no          INTEGER PRIMARY KEY,
    workspace   INTEGER NOT NULL,
    id          BLOB NOT NULL UNIQUE,
    agent       INTEGER NOT NULL,
    session     INTEGER,
    parent      INTEGER,
    depth       INTEGER NOT NULL,
    permissions TEXT,
    spent       TEXT,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER
) STRICT;
CREATE INDEX permission_runs_open ON permission_runs (agent, session) WHERE ended_at IS NULL;
CREATE INDEX permission_runs_by_parent ON permission_runs (parent) WHERE parent IS NOT NULL;

-- State 0 is pending. `is_open` says that it waits for a decision, or may still be run, or runs. `hash` is of what was
-- asked about, `updated_hash` of what may run instead. `notice` is the message that tells those who may decide.
-- `scope` is the run or the session in which `call`, the provider's id of the call, means one call.
CREATE TABLE permissions (
    no           INTEGER PRIMARY KEY,
    workspace    INTEGER NOT NULL,
    id           BLOB NOT NULL UNIQUE,
    agent        INTEGER NOT NULL,
    session      INTEGER,
    run          INTEGER,
    scope        TEXT NOT NULL,
    call         TEXT,
    state        INTEGER NOT NULL,
    is_open      INTEGER NOT NULL,
    body         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    hash         TEXT NOT NULL,
    notice       INTEGER,
    outcome      TEXT,
    updated_hash TEXT,
    response_id  TEXT,
    response     BLOB,
    execution    TEXT,
    start_id     TEXT
) STRICT;
CREATE UNIQUE INDEX permissions_by_call ON permissions (agent, scope, call) WHERE call IS NOT NULL;
CREATE INDEX permissions_of_workspace ON permissions (workspace, no);
CREATE INDEX permissions_by_agent ON permissions (agent, no);
CREATE INDEX permissions_pending ON permissions (workspace, no) WHERE state = 0;
CREATE INDEX permissions_pending_of ON permissions (agent, session) WHERE state = 0;
CREATE INDEX permissions_open ON permissions (agent) WHERE is_open = 1;
CREATE INDEX permissions_open_of_session ON permissions (session) WHERE is_open = 1;
CREATE INDEX permissions_open_of_run ON permissions (run) WHERE is_open = 1;
CREATE INDEX permissions_by_notice ON permissions (notice) WHERE state = 0 AND notice IS NOT NULL;

-- Standing decisions. `agent` is the one whose request it came from, also where it reaches every agent.
CREATE TABLE grants (
    no           INTEGER PRIMARY KEY,
    workspace    INTEGER NOT NULL,
    id           BLOB NOT NULL UNIQUE,
    rule         TEXT NOT NULL,
    effect       INTEGER NOT NULL,
    scope        INTEGER NOT NULL,
    agent        INTEGER NOT NULL,
    session      INTEGER,
    turn         TEXT,
    permission   BLOB NOT NULL,
    decider      TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER,
    revoked_by   TEXT
) STRICT;
CREATE INDEX grants_in_force ON grants (workspace, scope, agent) WHERE revoked_at IS NULL;
CREATE INDEX grants_of_session ON grants (session) WHERE revoked_at IS NULL;

-- Those who may decide: people. Their code is 1.
CREATE INDEX agents_human ON agents (workspace, no) WHERE type = 1 AND released_at IS NULL;
