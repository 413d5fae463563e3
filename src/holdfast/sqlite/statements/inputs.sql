-- Turn inputs. Claims are those of queued work: pinned to a generation, ended by nothing but its end.

-- fragment: input_columns
i.seq, i.input_id, i.source_key, i.submitted, i.turn_id, i.min_boundary, i.state,
       i.enqueued_at_ms, i.digest, i.body, i.claim_id, i.claim_owner, i.claim_generation,
       i.claim_count

-- name: enqueue_input
-- A known id or key is passed over; `known_inputs` tells who has it.
INSERT INTO session (id)
SELECT :session_id
 WHERE :bound_key IS NULL AND NOT EXISTS (SELECT 1 FROM session WHERE id = :session_id);
INSERT INTO turn_input (session, input_id, source_key, submitted, turn_id, min_boundary, state,
                        enqueued_at_ms, ready_at_ms, digest, body)
SELECT s.key, :input_id, :source_key, :submitted, :turn_id, :min_boundary, :state, :now_ms,
       CASE WHEN :turn_id IS NULL THEN :now_ms END, :digest, :body
  FROM session s WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)
ON CONFLICT DO NOTHING
RETURNING session AS key, seq, input_id, source_key, submitted, turn_id, min_boundary, state,
          enqueued_at_ms, digest, body, claim_id, claim_owner, claim_generation, claim_count;
INSERT INTO readiness (session, id, ready_at_ms, waits)
SELECT s.key, s.id, i.ready_at_ms, 0
  FROM session s CROSS JOIN turn_input i ON i.session = s.key AND i.input_id = :input_id
 WHERE s.id = :session_id AND i.state = 'deferred_next_turn'
{or_readier};

-- name: known_inputs
-- What is stored under an id or a source key, and the session.
SELECT s.key, {input_columns}
  FROM session s
  LEFT JOIN turn_input i ON i.seq IN (
       SELECT a.seq FROM turn_input a WHERE a.session = s.key AND a.input_id = :input_id
        UNION ALL
       SELECT a.seq FROM turn_input a WHERE a.session = s.key AND a.source_key = :source_key)
 WHERE s.id = :session_id;

-- fragment: input_claim_is_live
(i.claim_token IS NOT NULL AND i.claim_generation = s.generation AND s.owner_id IS NOT NULL
     AND s.expires_at_ms > :now_ms)

-- name: list_pending_inputs
SELECT {input_columns}, 0 AS claim_live
  FROM session s CROSS JOIN turn_input i ON i.session = s.key
 WHERE s.id = :session_id AND i.ended_at_ms IS NULL AND i.state <> 'accepted'
   AND i.seq > :after_seq AND NOT {input_claim_is_live}
 ORDER BY i.seq LIMIT :limit;

-- name: list_inputs
SELECT {input_columns}, {input_claim_is_live} AS claim_live
  FROM session s CROSS JOIN turn_input i ON i.session = s.key
 WHERE s.id = :session_id AND i.state IN (SELECT value FROM json_each(:states))
   AND i.seq > :after_seq
 ORDER BY i.seq LIMIT :limit;

-- fragment: found_columns
{input_columns}, {input_claim_is_live} AS claim_live, {cancellable} AS cancellable

-- fragment: cancellable
(i.state IN ('pending_active', 'deferred_next_turn') AND NOT {input_claim_is_live})

-- fragment: cancel
SET state = 'cancelled', ended_at_ms = :now_ms, ready_at_ms = NULL,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL

-- fragment: named
-- By one index and by the other: asked for together, all inputs of the session would be read.
session s CROSS JOIN turn_input i ON i.seq IN (
       SELECT a.seq FROM turn_input a
        WHERE a.session = s.key AND a.input_id IN (SELECT value FROM json_each(:input_ids))
        UNION ALL
       SELECT a.seq FROM turn_input a
        WHERE a.session = s.key AND a.source_key IN (SELECT value FROM json_each(:source_keys)))
 WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)

-- name: cancel_inputs
-- The rows as they are found; then those that can be cancelled are.
SELECT {found_columns} FROM {named} ORDER BY i.seq;
UPDATE turn_input {cancel}
 WHERE seq IN (SELECT i.seq FROM {named} AND {cancellable}) AND :maximum > 0;

-- fragment: behind
-- The anchor and all behind it.
session s CROSS JOIN turn_input i ON i.session = s.key
 WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)
   AND i.seq >= coalesce(
       (SELECT a.seq FROM turn_input a WHERE a.session = s.key AND a.input_id = :input_id),
       (SELECT a.seq FROM turn_input a WHERE a.session = s.key AND a.source_key = :source_key))

-- name: cancel_input_suffix
-- Nothing is cancelled where there are more than allowed.
SELECT {found_columns} FROM {behind} ORDER BY i.seq LIMIT :maximum + 1;
UPDATE turn_input {cancel}
 WHERE seq IN (SELECT i.seq FROM {behind} AND {cancellable})
   AND (SELECT count(*) FROM (SELECT 1 FROM {behind} LIMIT :maximum + 1)) <= :maximum;

-- fragment: for_the_turn
-- Admitted at a checkpoint of their turn.
i.session = f.key AND i.ended_at_ms IS NULL AND i.turn_id = :turn_id
       AND i.state = 'pending_active' AND i.claim_generation IS NOT f.generation
       AND (i.min_boundary = 'after_work' OR :checkpoint = 'before_completion')

-- fragment: for_the_next
i.session = f.key AND i.ended_at_ms IS NULL
       AND i.state = 'deferred_next_turn' AND i.claim_generation IS NOT f.generation

-- fragment: chosen_inputs
chosen AS (
    SELECT r.seq, f.claim_id
      FROM ready r
      CROSS JOIN (SELECT 'tic:' || seq || ':' || (claim_count + 1) AS claim_id
                    FROM ready ORDER BY seq LIMIT 1) f
)

-- fragment: claim_them
-- The end of both claims, from what they set alike to what they answer.
claim_id = c.claim_id, claim_token = :claim_token, claim_owner = :owner_id,
       claim_generation = :generation, claim_count = i.claim_count + 1
  FROM chosen c WHERE i.seq = c.seq;
SELECT {lease_columns}, {input_columns}
  FROM session s LEFT JOIN turn_input i ON i.session = s.key AND i.claim_token = :claim_token
 WHERE s.id = :session_id ORDER BY i.seq

-- name: claim_turn_inputs
-- A damaged input is found when the rows are decoded, and that takes the claim back.
WITH {fence},
ready AS MATERIALIZED (
    SELECT i.seq, i.claim_count FROM fence f CROSS JOIN turn_input i ON {for_the_turn}
     ORDER BY i.seq LIMIT :max_inputs
),
{chosen_inputs}
UPDATE turn_input AS i SET state = 'accepted', {claim_them};

-- name: claim_next_inputs
-- Their state stays as it is.
WITH {fence},
ready AS MATERIALIZED (
    SELECT i.seq, i.claim_count FROM fence f CROSS JOIN turn_input i ON {for_the_next}
     ORDER BY i.seq LIMIT :max_inputs
),
{chosen_inputs}
UPDATE turn_input AS i SET {claim_them};

-- name: abandon_inputs
UPDATE turn_input AS i
   SET state = CASE WHEN i.state = 'accepted' THEN 'pending_active' ELSE i.state END,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
  FROM json_each(:claims) c
  JOIN session s ON s.id = c.value ->> 'session_id' AND s.key = coalesce(:bound_key, s.key)
 WHERE i.session = s.key AND i.claim_token = c.value ->> 'claim_token'
   AND i.claim_id = c.value ->> 'claim_id'
RETURNING seq;

-- name: recover_inputs
-- Accepted under another generation than the lease's: those of the turn go back to it. The rows
-- come first, as they are going to be.
WITH {fence}
SELECT {lease_columns}, i.seq, i.input_id, i.source_key, i.submitted,
       CASE WHEN i.turn_id = :turn_id THEN i.turn_id END AS turn_id,
       CASE WHEN i.turn_id = :turn_id THEN i.min_boundary END AS min_boundary,
       CASE WHEN i.turn_id = :turn_id THEN 'pending_active' ELSE 'deferred_next_turn' END AS state,
       i.enqueued_at_ms, i.digest, i.body, NULL AS claim_id, NULL AS claim_owner,
       NULL AS claim_generation, i.claim_count
  FROM session s LEFT JOIN fence f ON f.key = s.key LEFT JOIN turn_input i ON {orphaned}
 WHERE s.id = :session_id ORDER BY i.seq;
WITH {fence}
UPDATE turn_input
   SET state = CASE WHEN turn_id = :turn_id THEN 'pending_active' ELSE 'deferred_next_turn' END,
       turn_id = CASE WHEN turn_id = :turn_id THEN turn_id END,
       min_boundary = CASE WHEN turn_id = :turn_id THEN min_boundary END,
       ready_at_ms = CASE WHEN turn_id = :turn_id THEN NULL ELSE :now_ms END,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE seq IN (SELECT i.seq FROM fence f CROSS JOIN turn_input i ON {orphaned});

-- fragment: orphaned
i.session = f.key AND i.ended_at_ms IS NULL AND i.state = 'accepted'
       AND i.claim_generation IS NOT f.generation

-- name: claimed_inputs
-- What the claims of a commit still own.
SELECT i.seq, i.input_id, i.claim_id, i.claim_token
  FROM session s CROSS JOIN turn_input i ON i.session = s.key
 WHERE s.id = :session_id AND i.claim_token IN (SELECT value FROM json_each(:claim_tokens));

-- name: complete_inputs
UPDATE turn_input
   SET state = 'completed', ended_at_ms = :at_ms, ready_at_ms = NULL,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: defer_inputs
-- What a turn left over is for the next one; it keeps its place.
UPDATE turn_input
   SET state = 'deferred_next_turn', turn_id = NULL, min_boundary = NULL, ready_at_ms = :at_ms,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE session = :session AND ended_at_ms IS NULL AND turn_id = :turn_id;

-- name: probe_checkpoint
-- Whether a claim at a checkpoint would find anything, as far as can be told without a lock. Work of
-- a class that we do not know it does find, and fails as damaged.
WITH f AS (SELECT s.key, :generation AS generation FROM session s WHERE s.id = :session_id)
SELECT f.key,
       :wants_inputs AND EXISTS (SELECT 1 FROM turn_input i WHERE {for_the_turn}) AS has_inputs,
       :wants_work AND coalesce(
           (SELECT w.class <> 'session_command' AND w.delivery = 'earliest_safe_boundary'
              FROM work w WHERE {candidate} ORDER BY w.seq LIMIT 1), 0) AS has_work
  FROM f;

-- name: vacuum_inputs
DELETE FROM turn_input WHERE seq IN (
    SELECT i.seq FROM session s CROSS JOIN turn_input i ON i.session = s.key
     WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)
       AND i.ended_at_ms IS NOT NULL
       AND i.ended_at_ms < coalesce(:terminal_before_ms, 9223372036854775807)
     LIMIT :limit)
RETURNING seq;
