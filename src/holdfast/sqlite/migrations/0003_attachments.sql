-- oldest_reader: 1
-- oldest_writer: 3
-- Attachments: the manifest of who refers to which, and the bytes of those the database keeps. A
-- library that knows nothing of it would settle turns without stamping what they made.

-- A session's reference to an attachment: an intent until it is committed. A row of a session that
-- was deleted counts for nothing and is removed by vacuum.
CREATE TABLE attachment (
    session INTEGER NOT NULL,
    attachment_id TEXT NOT NULL,
    intent_at_ms INTEGER NOT NULL,
    intent_revision INTEGER NOT NULL,
    committed_at_ms INTEGER,
    owner_kind TEXT,
    owner_id TEXT,
    PRIMARY KEY (session, attachment_id)
) WITHOUT ROWID;
CREATE INDEX attachment_by_id ON attachment (attachment_id, session);
CREATE INDEX attachment_by_intent ON attachment (intent_at_ms) WHERE committed_at_ms IS NULL;
CREATE INDEX attachment_by_owner ON attachment (session, owner_kind, owner_id)
    WHERE committed_at_ms IS NULL;

-- Which processes there are, as far as attachments have to know; all else of a process is added
-- when processes are built.
CREATE TABLE process (
    id TEXT PRIMARY KEY
) WITHOUT ROWID;

-- Bytes under the hash of their content, in chunks of one size. They are no blobs: nothing but the
-- lever for attachments removes them.
CREATE TABLE attachment_bytes (
    id TEXT PRIMARY KEY,
    chunks INTEGER NOT NULL,
    byte_len INTEGER NOT NULL,
    modified_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE attachment_chunk (
    chunks INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (chunks, number)
);

-- Chunks that have no id: being written (open = 1), to be removed (open = 0), or, within a
-- transaction, about to be given one (open = 2).
CREATE TABLE attachment_staging (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    open INTEGER NOT NULL DEFAULT 1,
    byte_len INTEGER NOT NULL DEFAULT 0,
    touched_at_ms INTEGER NOT NULL
);
CREATE INDEX attachment_staging_by_age ON attachment_staging (open, touched_at_ms);

-- What this store is called where others may keep bytes beside it. A copy of the database has the
-- same name, and so the same bytes.
CREATE TABLE store_name (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL
);
