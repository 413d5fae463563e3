-- oldest_reader: 1
-- oldest_writer: 2
-- Queued work, turn inputs, and which sessions have something to do. An older writer would delete
-- sessions without their work.

-- A batch, or what is left of it: the receipt of a settled source key is the batch's own row,
-- emptied, so that both stand in one unique index. A claim is live while the session's lease is
-- live with the claim's generation; nothing is ever written to end one.
CREATE TABLE work (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    batch_id TEXT NOT NULL UNIQUE,
    class TEXT NOT NULL,
    delivery TEXT NOT NULL,
    slot TEXT NOT NULL,
    merge_key TEXT NOT NULL,
    source_key TEXT,
    dedupe TEXT NOT NULL,
    available_at_ms INTEGER NOT NULL,
    enqueued_at_ms INTEGER NOT NULL,
    -- when it became, or becomes, available
    ready_at_ms INTEGER NOT NULL,
    -- of everything above that the draft said; it tells damage, and equal content
    digest TEXT NOT NULL,
    payloads TEXT,
    settled_at_ms INTEGER,
    claim_id TEXT,
    claim_token TEXT,
    claim_owner TEXT,
    claim_generation INTEGER,
    claim_count INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX work_by_source ON work (session, source_key) WHERE source_key IS NOT NULL;
CREATE INDEX work_in_order ON work (session, seq) WHERE settled_at_ms IS NULL;
CREATE INDEX work_by_claim ON work (session, claim_token) WHERE claim_token IS NOT NULL;
-- Apart, so that it is told by one look whether any was available at once.
CREATE INDEX work_available_at_once ON work (session, ready_at_ms)
    WHERE settled_at_ms IS NULL AND available_at_ms <= enqueued_at_ms;
CREATE INDEX work_delayed ON work (session, ready_at_ms)
    WHERE settled_at_ms IS NULL AND available_at_ms > enqueued_at_ms;
CREATE INDEX work_by_availability ON work (available_at_ms)
    WHERE settled_at_ms IS NULL AND available_at_ms > 0;
CREATE INDEX work_settled ON work (session, settled_at_ms) WHERE settled_at_ms IS NOT NULL;

-- User text that was admitted. Where it is bound to now (turn_id and min_boundary, none for the
-- next turn) may change; what was submitted never does.
CREATE TABLE turn_input (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    input_id TEXT NOT NULL,
    source_key TEXT,
    submitted TEXT NOT NULL,
    turn_id TEXT,
    min_boundary TEXT,
    state TEXT NOT NULL,
    enqueued_at_ms INTEGER NOT NULL,
    -- since when it has been due for the next turn
    ready_at_ms INTEGER,
    ended_at_ms INTEGER,
    -- of what was submitted
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    claim_id TEXT,
    claim_token TEXT,
    claim_owner TEXT,
    claim_generation INTEGER,
    claim_count INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX turn_input_by_id ON turn_input (session, input_id);
CREATE UNIQUE INDEX turn_input_by_source ON turn_input (session, source_key)
    WHERE source_key IS NOT NULL;
CREATE INDEX turn_input_in_order ON turn_input (session, seq);
CREATE INDEX turn_input_open ON turn_input (session, seq) WHERE ended_at_ms IS NULL;
CREATE INDEX turn_input_of_turn ON turn_input (session, turn_id, seq)
    WHERE ended_at_ms IS NULL AND turn_id IS NOT NULL;
CREATE INDEX turn_input_by_claim ON turn_input (session, claim_token)
    WHERE claim_token IS NOT NULL;
CREATE INDEX turn_input_by_readiness ON turn_input (session, ready_at_ms)
    WHERE state = 'deferred_next_turn';
CREATE INDEX turn_input_ended ON turn_input (session, ended_at_ms) WHERE ended_at_ms IS NOT NULL;

-- Sessions with something to do, now or later: the earliest of their batches and deferred inputs.
CREATE TABLE readiness (
    session INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    ready_at_ms INTEGER NOT NULL,
    -- whether all of it was enqueued for later: if not, no clock that steps back may hide it
    waits INTEGER NOT NULL
);
CREATE INDEX readiness_in_order ON readiness (ready_at_ms, id) WHERE NOT waits;
CREATE INDEX readiness_to_come ON readiness (ready_at_ms, id) WHERE waits;
