-- oldest_reader: 1
-- oldest_writer: 1
-- Sessions, their graphs, checkpoints, usage and turn stamps.

-- The hot row of a session: lease, head and counters, so that what guards a write stands on
-- the row the write locks. Its key is the session's incarnation: never used twice.
CREATE TABLE session (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    -- lease: expires_at_ms is 0 and the owner NULL while nobody is recorded as holder
    generation INTEGER NOT NULL DEFAULT 0,
    owner_id TEXT,
    incarnation_id TEXT,
    liveness TEXT,
    token TEXT,
    claimed_at_ms INTEGER NOT NULL DEFAULT 0,
    expires_at_ms INTEGER NOT NULL DEFAULT 0,
    -- the holder that the present one found expired and unreleased, as JSON
    displaced TEXT,
    -- head: a position on a branch; the leaf is the last node before it
    head_revision INTEGER NOT NULL DEFAULT 0,
    head_tag TEXT,
    branch INTEGER,
    length INTEGER NOT NULL DEFAULT 0,
    leaf_id TEXT,
    checkpoint_ref TEXT,
    -- counters and the listing's summary, kept by arithmetic
    node_count INTEGER NOT NULL DEFAULT 0,
    next_sequence INTEGER NOT NULL DEFAULT 1,
    user_message_count INTEGER NOT NULL DEFAULT 0,
    first_user_sequence INTEGER,
    first_user_message TEXT NOT NULL DEFAULT ''
);

-- A session is known when it has this row.
CREATE TABLE session_meta (
    session INTEGER PRIMARY KEY,
    session_name TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    model TEXT NOT NULL,
    cwd TEXT,
    relation TEXT NOT NULL,
    relation_kind TEXT NOT NULL,
    parent_session_id TEXT
);
CREATE INDEX session_meta_by_parent ON session_meta (parent_session_id)
    WHERE parent_session_id IS NOT NULL;

-- What listings sort and filter by, in a row narrow enough to change with every commit.
CREATE TABLE listing (
    session INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    scope BLOB NOT NULL,
    activity_us INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
);
CREATE INDEX listing_by_activity ON listing (activity_us DESC, id);
CREATE INDEX listing_by_scope ON listing (scope, activity_us DESC, id);

CREATE TABLE label (
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session, name)
) WITHOUT ROWID;
CREATE INDEX label_by_value ON label (name, value, session);

-- What a commit may keep: written only when it is given.
CREATE TABLE head_state (
    session INTEGER PRIMARY KEY,
    config_enc INTEGER NOT NULL DEFAULT 0,
    config_tag TEXT,
    config BLOB,
    frames TEXT,
    current_frame_id TEXT NOT NULL DEFAULT ''
);

-- A branch leaves its parent after `base` nodes and goes on by itself. Its owner made it and alone
-- appends to it; a session that replaced its graph has detached what was left of those it had.
CREATE TABLE branch (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    parent INTEGER,
    base INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    detached INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX branch_by_owner ON branch (owner) WHERE detached = 0;
CREATE INDEX branch_detached ON branch (id) WHERE detached = 1;
CREATE INDEX branch_by_parent ON branch (parent, base) WHERE parent IS NOT NULL;

-- What a session may see of branches it does not own: ordinals `start` to `upto`, left out.
-- These rows keep other sessions' nodes from being removed.
CREATE TABLE inherited (
    session INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    start INTEGER NOT NULL,
    upto INTEGER NOT NULL,
    PRIMARY KEY (session, branch)
) WITHOUT ROWID;
CREATE INDEX inherited_by_branch ON inherited (branch, upto);

-- key = branch << 28 | ordinal: one integer key keeps a path in one run of pages.
CREATE TABLE node (
    key INTEGER PRIMARY KEY,
    branch INTEGER GENERATED ALWAYS AS (key >> 28) VIRTUAL,
    ordinal INTEGER GENERATED ALWAYS AS (key & 268435455) VIRTUAL,
    -- the branch's owner, so that an id is looked up without meeting unrelated sessions
    owner INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    node_id TEXT,
    parent_id TEXT,
    kind TEXT NOT NULL,
    enc INTEGER NOT NULL,
    tag TEXT,
    body BLOB NOT NULL,
    caused_by TEXT,
    agent_frame_id TEXT,
    role TEXT,
    preview TEXT,
    at_us INTEGER,
    -- the listing's text of a user message; NULL for every other node
    user_text TEXT
);
CREATE UNIQUE INDEX node_by_id ON node (node_id, owner, branch) WHERE node_id IS NOT NULL;
CREATE INDEX node_by_sequence ON node (branch, sequence);
CREATE INDEX node_of_user ON node (owner, sequence) WHERE user_text IS NOT NULL;

-- Nodes a session no longer sees. gone: 0 tombstoned, it may be revived; 1 gone, although the row
-- may still serve other sessions; 2 gone and removed.
CREATE TABLE hidden (
    session INTEGER NOT NULL,
    branch INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    PRIMARY KEY (session, branch, ordinal)
) WITHOUT ROWID;
CREATE INDEX hidden_to_vacuum ON hidden (session) WHERE gone < 2;

CREATE TABLE turn_commit (
    session INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    result TEXT NOT NULL,
    head_revision INTEGER NOT NULL,
    committed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (session, turn_id)
) WITHOUT ROWID;
CREATE INDEX turn_commit_by_revision ON turn_commit (session, head_revision);

-- One row per (source, model) pair of a session; `pair` is the hash of the two labels.
CREATE TABLE usage (
    session INTEGER NOT NULL,
    pair TEXT NOT NULL,
    position INTEGER NOT NULL,
    source TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_input_tokens INTEGER NOT NULL,
    cache_write_input_tokens INTEGER NOT NULL,
    reasoning_output_tokens INTEGER NOT NULL,
    PRIMARY KEY (session, pair)
) WITHOUT ROWID;

-- Bytes under the hash of their uncompressed content.
CREATE TABLE blob (
    key INTEGER PRIMARY KEY,
    ref TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    codec INTEGER NOT NULL,
    raw_len INTEGER NOT NULL,
    stored_len INTEGER NOT NULL,
    stored_at_ms INTEGER NOT NULL,
    body BLOB NOT NULL
);

-- Who refers to which blob: slot is `checkpoint`, `component:<role>` or `frame:<index>`.
CREATE TABLE blob_ref (
    session INTEGER NOT NULL,
    slot TEXT NOT NULL,
    ref TEXT NOT NULL,
    PRIMARY KEY (session, slot)
) WITHOUT ROWID;
CREATE INDEX blob_ref_by_ref ON blob_ref (ref);

CREATE TABLE artifact (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    ref TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
CREATE INDEX artifact_by_ref ON artifact (ref);

-- Deleted sessions whose bulk rows are still to be removed (FAC-10).
CREATE TABLE removal (
    session INTEGER PRIMARY KEY
);
