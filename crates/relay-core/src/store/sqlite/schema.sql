-- The store's tables. Hot tables have few indexes, and those that do leave finished rows out.
-- A `position` is a place in the log (workspace number and sequence number in one integer); ids of
-- messages, deliveries and events are computed from it. See store/position.rs.

CREATE TABLE workspaces (
    no          INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    policy      TEXT NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    hash        BLOB PRIMARY KEY,
    id          BLOB NOT NULL,
    kind        INTEGER NOT NULL,
    workspace   INTEGER,
    agent       INTEGER,
    created_at  INTEGER NOT NULL,
    valid_until INTEGER,
    name        TEXT,
    scope       TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_agent ON tokens (agent) WHERE agent IS NOT NULL;
-- `scope` is what an observer's token may see; other tokens have none.
CREATE INDEX tokens_of_observers ON tokens (workspace, id) WHERE scope IS NOT NULL;

CREATE TABLE agents (
    no          INTEGER PRIMARY KEY,
    workspace   INTEGER NOT NULL,
    id          BLOB NOT NULL UNIQUE,
    name        TEXT NOT NULL,
    folded      TEXT NOT NULL,
    type        INTEGER NOT NULL,
    metadata    TEXT,
    created_at  INTEGER NOT NULL,
    released_at INTEGER
) STRICT;
CREATE UNIQUE INDEX agents_by_name ON agents (workspace, folded) WHERE released_at IS NULL;

-- Channels and conversations. `name` is a channel's, `participants` a conversation's sorted members.
CREATE TABLE rooms (
    no           INTEGER PRIMARY KEY,
    workspace    INTEGER NOT NULL,
    kind         INTEGER NOT NULL,
    id           BLOB NOT NULL,
    name         TEXT NOT NULL,
    folded       TEXT,
    participants BLOB,
    topic        TEXT,
    created_at   INTEGER NOT NULL,
    archived_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX rooms_by_id ON rooms (id, kind);
CREATE UNIQUE INDEX rooms_by_name ON rooms (workspace, folded) WHERE folded IS NOT NULL;
CREATE UNIQUE INDEX rooms_by_participants ON rooms (workspace, participants, kind)
    WHERE participants IS NOT NULL;

CREATE TABLE members (
    agent       INTEGER NOT NULL,
    room        INTEGER NOT NULL,
    joined_at   INTEGER NOT NULL,
    read_to     INTEGER NOT NULL,
    read_at     INTEGER,
    PRIMARY KEY (agent, room)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_room ON members (room, agent);

-- Current version of each message; earlier ones are in `message_versions`. `depth` says how many replies
-- by agents, one upon the other, lead to it.
CREATE TABLE messages (
    position    INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    room        INTEGER NOT NULL,
    author      INTEGER,
    author_name TEXT,
    parent      INTEGER,
    parent_at   INTEGER,
    thread      INTEGER,
    depth       INTEGER NOT NULL,
    recipients  INTEGER NOT NULL,
    text        TEXT NOT NULL,
    extra       TEXT,
    version     INTEGER NOT NULL,
    version_at  INTEGER,
    version_position INTEGER
) STRICT;
CREATE INDEX messages_by_thread ON messages (thread, position) WHERE thread IS NOT NULL;

-- Which messages are in a room: three levels of one index, see room_index.rs.
CREATE TABLE room_new (
    room        INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (room, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE room_recent (
    room        INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (room, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE room_messages (
    room        INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (room, position)
) STRICT, WITHOUT ROWID;

-- Keyed by the log position at which the version was written.
CREATE TABLE message_versions (
    position    INTEGER PRIMARY KEY,
    message     INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    text        TEXT NOT NULL,
    extra       TEXT
) STRICT;
CREATE INDEX message_versions_by_message ON message_versions (message, version);

-- Keyed by the log position of its `delivery.created`. States below 4 are not finished. `flags`: see
-- delivery_rows.rs. `at` is of those that were not made by a send; NULL: the message's. `history` counts
-- the entries that were ever made in `delivery_history`.
CREATE TABLE deliveries (
    position     INTEGER PRIMARY KEY,
    message      INTEGER NOT NULL,
    agent        INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    mode         INTEGER,
    used_mode    INTEGER,
    flags        INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    reason       INTEGER NOT NULL,
    deadline     INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    history      INTEGER NOT NULL,
    not_before   INTEGER,
    only_session INTEGER,
    holder       INTEGER,
    epoch        INTEGER,
    surfaced     INTEGER,
    at           INTEGER,
    error        TEXT
) STRICT;

-- What happened to a delivery: each row holds the entries of one change, from the `n`th on.
CREATE TABLE delivery_history (
    delivery    INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (delivery, n)
) STRICT, WITHOUT ROWID;

-- Deliveries that were not made by the send of their message.
CREATE TABLE extra_deliveries (
    message     INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (message, position)
) STRICT, WITHOUT ROWID;

-- Deliveries that are not finished, up to the workspace's mark, by the queue they wait in and by the next
-- time that matters to them; newer ones are found in `deliveries`. See waiting.rs.
CREATE TABLE waiting (
    agent       INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    room        INTEGER NOT NULL,
    message     INTEGER NOT NULL,
    PRIMARY KEY (agent, lane, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX waiting_by_message ON waiting (agent, room, message);
CREATE TABLE wakes (
    at          INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (at, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE waiting_marks (
    workspace   INTEGER PRIMARY KEY,
    position    INTEGER NOT NULL
) STRICT;

-- `token` is the hash of what a session comes back with.
CREATE TABLE sessions (
    no             INTEGER PRIMARY KEY,
    workspace      INTEGER NOT NULL,
    id             BLOB NOT NULL UNIQUE,
    agent          INTEGER NOT NULL,
    token          BLOB NOT NULL UNIQUE,
    harness        TEXT NOT NULL,
    link           INTEGER NOT NULL,
    webhook        TEXT,
    capabilities   TEXT NOT NULL,
    safe_states    TEXT NOT NULL,
    status         INTEGER NOT NULL,
    status_before  INTEGER,
    reason         TEXT,
    parent         BLOB,
    addressed_only INTEGER NOT NULL,
    acked          INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    seen_at        INTEGER NOT NULL,
    ended_at       INTEGER
) STRICT;
CREATE INDEX sessions_by_agent ON sessions (agent, no);
CREATE INDEX sessions_open ON sessions (agent, no) WHERE ended_at IS NULL;

-- How often the runner began.
CREATE TABLE runs (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    number      INTEGER NOT NULL
) STRICT;

CREATE TABLE reactions (
    message     INTEGER NOT NULL,
    emoji       TEXT NOT NULL,
    agent       INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (message, emoji, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachments (
    no          INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE,
    workspace   INTEGER NOT NULL,
    owner       INTEGER,
    kind        INTEGER NOT NULL,
    media_type  TEXT NOT NULL,
    name        TEXT,
    created_at  INTEGER NOT NULL,
    data        BLOB NOT NULL
) STRICT;

-- Which rooms show an attachment; uploads without a row here are garbage after a day.
CREATE TABLE attachment_uses (
    attachment  INTEGER NOT NULL,
    message     INTEGER NOT NULL,
    room        INTEGER NOT NULL,
    PRIMARY KEY (attachment, message)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    workspace   INTEGER NOT NULL,
    principal   INTEGER NOT NULL,
    route       TEXT NOT NULL,
    key         TEXT NOT NULL,
    request     BLOB NOT NULL,
    at          INTEGER NOT NULL,
    message     INTEGER NOT NULL,
    answer      TEXT NOT NULL,
    PRIMARY KEY (workspace, principal, route, key)
) STRICT, WITHOUT ROWID;

-- One row may stand for several consecutive events. `content` says where its payload is: 0 here,
-- 1 in the message and its deliveries, 2 in one version of a message. `digest` is filled, and payload
-- and salt are not, once the payload was erased.
CREATE TABLE log (
    position    INTEGER PRIMARY KEY,
    count       INTEGER NOT NULL,
    type        TEXT NOT NULL,
    at          INTEGER NOT NULL,
    content     INTEGER NOT NULL,
    message     INTEGER,
    payload     TEXT,
    salt        BLOB,
    digest      BLOB,
    hash        BLOB NOT NULL
) STRICT;

-- Where a workspace's log begins after its oldest part was cut off.
CREATE TABLE log_cuts (
    workspace   INTEGER PRIMARY KEY,
    position    INTEGER NOT NULL,
    hash        BLOB NOT NULL
) STRICT;
