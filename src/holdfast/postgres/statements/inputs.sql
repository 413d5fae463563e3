-- Turn inputs. Claims are those of queued work: pinned to a generation, ended by nothing but its end.

-- fragment: input_columns
i.seq, i.input_id, i.source_key, i.submitted, i.turn_id, i.min_boundary, i.state,
       i.enqueued_at_ms, i.digest, i.body, i.claim_id, i.claim_owner, i.claim_generation,
       i.claim_count

-- name: enqueue_input
-- Locks or makes the session, then draws the sequence number. A known id or key is passed over;
-- `known_inputs` tells who has it.
WITH old AS MATERIALIZED (
    SELECT key, id FROM holdfast.session WHERE id = %(session_id)s FOR NO KEY UPDATE
), made AS (
    INSERT INTO holdfast.session AS s (id)
    SELECT %(session_id)s WHERE %(bound_key)s::bigint IS NULL AND NOT EXISTS (SELECT 1 FROM old)
    ON CONFLICT (id) DO UPDATE SET generation = s.generation
    RETURNING s.key, s.id
), entered AS MATERIALIZED (
    SELECT key, id FROM old WHERE key = coalesce(%(bound_key)s, key)
     UNION ALL SELECT key, id FROM made
), clock AS MATERIALIZED (
    SELECT e.key, e.id, holdfast.now_ms(%(now_ms)s) AS now_ms FROM entered e
), stored AS (
    INSERT INTO holdfast.turn_input AS i (session, input_id, source_key, submitted, turn_id,
        min_boundary, state, enqueued_at_ms, ready_at_ms, digest, body)
    SELECT c.key, %(input_id)s, %(source_key)s, %(submitted)s, %(turn_id)s, %(min_boundary)s,
           %(state)s, c.now_ms,
           CASE WHEN %(turn_id)s::text IS NULL THEN c.now_ms END, %(digest)s, %(body)s
      FROM clock c
    ON CONFLICT DO NOTHING
    RETURNING i.session AS key, {input_columns}, i.ready_at_ms
), readied AS (
    INSERT INTO holdfast.readiness AS r (session, id, ready_at_ms, waits)
    SELECT c.key, c.id, s.ready_at_ms, false FROM stored s JOIN clock c ON c.key = s.key
     WHERE s.ready_at_ms IS NOT NULL
    {or_readier}
)
SELECT * FROM stored;

-- name: known_inputs
-- What is stored under an id or a source key, and the session.
SELECT s.key, {input_columns}
  FROM holdfast.session s
  LEFT JOIN LATERAL (
       SELECT a.* FROM holdfast.turn_input a
        WHERE a.session = s.key AND a.input_id = %(input_id)s
        UNION
       SELECT a.* FROM holdfast.turn_input a
        WHERE a.session = s.key AND a.source_key = %(source_key)s) i ON true
 WHERE s.id = %(session_id)s;

-- fragment: input_claim_is_live
(i.claim_token IS NOT NULL AND i.claim_generation = m.generation AND m.owner_id IS NOT NULL
     AND m.expires_at_ms > m.now_ms)

-- name: list_pending_inputs
WITH {moment}
SELECT i.*
  FROM moment m CROSS JOIN LATERAL (
       SELECT {input_columns}, false AS claim_live FROM holdfast.turn_input i
        WHERE i.session = m.key AND i.ended_at_ms IS NULL AND i.state <> 'accepted'
          AND i.seq > %(after_seq)s AND NOT {input_claim_is_live}
        ORDER BY i.seq LIMIT %(limit)s) i
 ORDER BY i.seq;

-- name: list_inputs
WITH {moment}
SELECT i.*
  FROM moment m CROSS JOIN LATERAL (
       SELECT {input_columns}, {input_claim_is_live} AS claim_live FROM holdfast.turn_input i
        WHERE i.session = m.key AND i.state = ANY (%(states)s::text[])
          AND i.seq > %(after_seq)s
        ORDER BY i.seq LIMIT %(limit)s) i
 ORDER BY i.seq;

-- fragment: cancelled
-- The rows as they were found; those that can be cancelled are.
cancelled AS (
    UPDATE holdfast.turn_input i
       SET state = 'cancelled', ended_at_ms = f.now_ms, ready_at_ms = NULL,
           claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
      FROM found f WHERE i.seq = f.seq AND f.cancellable AND {not_too_many}
)
SELECT * FROM found ORDER BY seq

-- fragment: found_columns
-- One in a state that we do not know cannot be told: it has to fail before others are cancelled.
{input_columns}, m.now_ms, {input_claim_is_live} AS claim_live,
           CASE WHEN i.state IN ('pending_active', 'deferred_next_turn')
                THEN NOT {input_claim_is_live}
                WHEN i.state IN ('accepted', 'cancelled', 'completed') THEN false
                ELSE holdfast.damaged('turn_input', i.input_id) END AS cancellable

-- fragment: not_too_many
(SELECT count(*) FROM found) <= %(maximum)s

-- name: cancel_inputs
-- By one index and by the other: asked for together, all inputs of the session would be read.
WITH {section}, named AS MATERIALIZED (
    SELECT a.seq FROM moment m JOIN holdfast.turn_input a ON a.session = m.key
     WHERE a.input_id = ANY (%(input_ids)s::text[])
     UNION
    SELECT a.seq FROM moment m JOIN holdfast.turn_input a ON a.session = m.key
     WHERE a.source_key = ANY (%(source_keys)s::text[])
), found AS MATERIALIZED (
    SELECT {found_columns}
      FROM moment m CROSS JOIN named n JOIN holdfast.turn_input i ON i.seq = n.seq
), {cancelled};

-- name: cancel_input_suffix
-- The anchor and all behind it; nothing is cancelled where that is more than allowed.
WITH {section}, anchor AS MATERIALIZED (
    SELECT coalesce(
               (SELECT a.seq FROM holdfast.turn_input a
                 WHERE a.session = m.key AND a.input_id = %(input_id)s),
               (SELECT a.seq FROM holdfast.turn_input a
                 WHERE a.session = m.key AND a.source_key = %(source_key)s)) AS seq
      FROM moment m
), found AS MATERIALIZED (
    SELECT i.*
      FROM moment m CROSS JOIN anchor a CROSS JOIN LATERAL (
           SELECT {found_columns} FROM holdfast.turn_input i
            WHERE i.session = m.key AND i.seq >= a.seq
            ORDER BY i.seq LIMIT %(maximum)s + 1) i
), {cancelled};

-- fragment: for_the_turn
-- Admitted at a checkpoint of their turn.
i.session = f.key AND i.ended_at_ms IS NULL AND i.turn_id = %(turn_id)s
       AND i.state = 'pending_active' AND i.claim_generation IS DISTINCT FROM f.generation
       AND (i.min_boundary = 'after_work' OR %(checkpoint)s = 'before_completion')

-- fragment: for_the_next
i.session = f.key AND i.ended_at_ms IS NULL
       AND i.state = 'deferred_next_turn' AND i.claim_generation IS DISTINCT FROM f.generation

-- fragment: is_sound_input
-- A damaged input has to fail before the claim commits; the rule is that of rules/inputs.py.
CASE WHEN i.digest <> encode(sha256(convert_to(concat_ws(chr(10), i.submitted, i.body),
                                               'UTF8')), 'hex')
         THEN holdfast.damaged('turn_input', i.input_id)
         WHEN i.turn_id IS NULL THEN true
         WHEN i.submitted::json ->> 'turn_id' = i.turn_id
          AND i.submitted::json ->> 'min_boundary' = i.min_boundary THEN true
         ELSE holdfast.damaged('turn_input', i.input_id) END

-- fragment: chosen_inputs
chosen AS MATERIALIZED (
    SELECT r.seq, f.claim_id, {is_sound_input} AS is_sound
      FROM ready r
      CROSS JOIN (SELECT 'tic:' || seq || ':' || claim_count + 1 AS claim_id
                    FROM ready ORDER BY seq LIMIT 1) f
      JOIN holdfast.turn_input i ON i.seq = r.seq
)

-- fragment: claim_them
-- The end of both claims, from what they set alike to what they answer.
claim_id = c.claim_id, claim_token = %(claim_token)s, claim_owner = %(owner_id)s,
           claim_generation = %(generation)s, claim_count = i.claim_count + 1
      FROM chosen c
     WHERE i.seq = c.seq AND c.is_sound
    RETURNING {input_columns}
)
SELECT {lease_columns}, i.*
  FROM moment m LEFT JOIN claimed i ON true ORDER BY i.seq

-- name: claim_turn_inputs
WITH {moment}, {fence}, ready AS MATERIALIZED (
    SELECT i.* FROM fence f CROSS JOIN LATERAL (
        SELECT i.seq, i.claim_count FROM holdfast.turn_input i
         WHERE {for_the_turn} ORDER BY i.seq LIMIT %(max_inputs)s) i
), {chosen_inputs}, claimed AS (
    UPDATE holdfast.turn_input i
       SET state = 'accepted', {claim_them};

-- name: claim_next_inputs
-- Their state stays as it is.
WITH {moment}, {fence}, ready AS MATERIALIZED (
    SELECT i.* FROM fence f CROSS JOIN LATERAL (
        SELECT i.seq, i.claim_count FROM holdfast.turn_input i
         WHERE {for_the_next} ORDER BY i.seq LIMIT %(max_inputs)s) i
), {chosen_inputs}, claimed AS (
    UPDATE holdfast.turn_input i
       SET {claim_them};

-- name: abandon_inputs
UPDATE holdfast.turn_input i
   SET state = CASE WHEN i.state = 'accepted' THEN 'pending_active' ELSE i.state END,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
  FROM {claims}
 WHERE i.session = s.key AND s.key = coalesce(%(bound_key)s, s.key)
   AND i.claim_token = c.claim_token AND i.claim_id = c.claim_id
RETURNING i.seq;

-- name: recover_inputs
-- Accepted under another generation than the lease's: those of the turn go back to it.
WITH {moment}, {fence}, orphaned AS MATERIALIZED (
    SELECT i.seq, (i.turn_id = %(turn_id)s::text) IS TRUE AS returns, f.now_ms,
           {is_sound_input} AS is_sound
      FROM fence f JOIN holdfast.turn_input i
        ON i.session = f.key AND i.ended_at_ms IS NULL AND i.state = 'accepted'
       AND i.claim_generation IS DISTINCT FROM f.generation
), recovered AS (
    UPDATE holdfast.turn_input i
       SET state = CASE WHEN o.returns THEN 'pending_active' ELSE 'deferred_next_turn' END,
           turn_id = CASE WHEN o.returns THEN i.turn_id END,
           min_boundary = CASE WHEN o.returns THEN i.min_boundary END,
           ready_at_ms = CASE WHEN o.returns THEN NULL ELSE o.now_ms END,
           claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
      FROM orphaned o WHERE i.seq = o.seq AND o.is_sound
    RETURNING {input_columns}
)
SELECT {lease_columns}, i.*
  FROM moment m LEFT JOIN recovered i ON true ORDER BY i.seq;

-- name: claimed_inputs
-- What the claims of a commit still own.
SELECT i.seq, i.input_id, i.claim_id, i.claim_token
  FROM holdfast.session s JOIN holdfast.turn_input i ON i.session = s.key
 WHERE s.id = %(session_id)s AND i.claim_token = ANY (%(claim_tokens)s::text[]);

-- name: complete_inputs
UPDATE holdfast.turn_input i
   SET state = 'completed', ended_at_ms = %(at_ms)s, ready_at_ms = NULL,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE i.seq = ANY (%(seqs)s::bigint[]);

-- name: defer_inputs
-- What a turn left over is for the next one; it keeps its place.
UPDATE holdfast.turn_input i
   SET state = 'deferred_next_turn', turn_id = NULL, min_boundary = NULL, ready_at_ms = %(at_ms)s,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE i.session = %(session)s AND i.ended_at_ms IS NULL AND i.turn_id = %(turn_id)s;

-- name: probe_checkpoint
-- Whether a claim at a checkpoint would find anything, as far as can be told without a lock. Work of
-- a class that we do not know it does find, and fails as damaged.
WITH {moment}, f AS MATERIALIZED (
    SELECT m.key, %(generation)s::bigint AS generation, m.now_ms FROM moment m
)
SELECT f.key,
       %(wants_inputs)s AND EXISTS (SELECT 1 FROM holdfast.turn_input i WHERE {for_the_turn})
           AS has_inputs,
       %(wants_work)s AND coalesce(
           (SELECT w.class <> 'session_command' AND w.delivery = 'earliest_safe_boundary'
              FROM holdfast.work w WHERE {candidate} ORDER BY w.seq LIMIT 1), false) AS has_work
  FROM f;

-- name: vacuum_inputs
DELETE FROM holdfast.turn_input i USING (
    SELECT i.seq FROM holdfast.session s JOIN holdfast.turn_input i ON i.session = s.key
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
       AND i.ended_at_ms IS NOT NULL
       AND (%(terminal_before_ms)s::bigint IS NULL OR i.ended_at_ms < %(terminal_before_ms)s)
     LIMIT %(limit)s) t
 WHERE i.seq = t.seq
RETURNING i.seq;
