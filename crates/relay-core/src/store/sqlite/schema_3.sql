-- Format 3: webhooks.

-- Webhooks that events go out to. All up to the log position `cursor` was sent, or is in `webhook_retries`, or was not
-- wanted. `body` is what is called for what. The old secret signs, too, until its time is over.
CREATE TABLE webhooks (
    no              INTEGER PRIMARY KEY,
    workspace       INTEGER NOT NULL,
    id              BLOB NOT NULL UNIQUE,
    body            TEXT NOT NULL,
    secret          TEXT NOT NULL,
    old_secret      TEXT,
    old_until       INTEGER,
    state           INTEGER NOT NULL,
    cursor          INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    last_success_at INTEGER,
    last_error      TEXT
) STRICT;

-- Events that are to be sent again, or by replay. `since` is when that began.
CREATE TABLE webhook_retries (
    webhook     INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    since       INTEGER NOT NULL,
    next_at     INTEGER NOT NULL,
    PRIMARY KEY (webhook, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_retries_by_time ON webhook_retries (webhook, next_at);

-- The newest calls of each webhook, numbered.
CREATE TABLE webhook_attempts (
    webhook     INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    event_at    INTEGER NOT NULL,
    event_type  TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    status      INTEGER,
    error       TEXT,
    duration_ms INTEGER NOT NULL,
    next_at     INTEGER,
    PRIMARY KEY (webhook, n)
) STRICT, WITHOUT ROWID;

-- Ways for messages to come in. The credential is in `tokens`, under the same id.
CREATE TABLE inbound_webhooks (
    no          INTEGER PRIMARY KEY,
    workspace   INTEGER NOT NULL,
    id          BLOB NOT NULL UNIQUE,
    room        INTEGER NOT NULL,
    name        TEXT,
    created_at  INTEGER NOT NULL
) STRICT;
