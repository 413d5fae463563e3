-- The session lease. It stands on the session's row, with what it guards.

-- name: claim_lease
-- One upsert: take over what is not live, re-enter what is one's own, and touch nothing else.
-- A holder that was observed to be dead counts as not live, if it is still the same.
INSERT INTO session (id, generation, owner_id, incarnation_id, liveness, token,
                     claimed_at_ms, expires_at_ms)
SELECT :session_id, 1, :owner_id, :incarnation_id, :liveness, :token, :now_ms, :now_ms + :ttl_ms
 WHERE :bound_key IS NULL
    OR EXISTS (SELECT 1 FROM session WHERE id = :session_id AND key = :bound_key)
ON CONFLICT (id) DO UPDATE SET
    generation = CASE WHEN {reentry} THEN session.generation ELSE session.generation + 1 END,
    token = CASE WHEN {reentry} THEN session.token ELSE excluded.token END,
    claimed_at_ms =
        CASE WHEN {reentry} THEN session.claimed_at_ms ELSE excluded.claimed_at_ms END,
    expires_at_ms =
        CASE WHEN {reentry} THEN max(session.expires_at_ms, excluded.expires_at_ms)
             ELSE excluded.expires_at_ms END,
    displaced =
        CASE WHEN {reentry} OR session.owner_id IS NULL THEN NULL
             ELSE json_object('owner_id', session.owner_id,
                              'incarnation_id', session.incarnation_id,
                              'liveness', session.liveness,
                              'generation', session.generation,
                              'claimed_at_ms', session.claimed_at_ms,
                              'expires_at_ms', session.expires_at_ms) END,
    owner_id = excluded.owner_id,
    incarnation_id = excluded.incarnation_id,
    liveness = excluded.liveness
 WHERE session.expires_at_ms <= excluded.claimed_at_ms
    OR {reentry}
    OR (session.owner_id = :dead_owner_id AND session.incarnation_id = :dead_incarnation_id
        AND session.generation = :dead_generation
        AND session.liveness = :dead_liveness)
RETURNING key, generation, token, claimed_at_ms, expires_at_ms, displaced;

-- fragment: reentry
(session.expires_at_ms > excluded.claimed_at_ms
     AND session.owner_id = excluded.owner_id
     AND session.incarnation_id = excluded.incarnation_id)

-- name: renew_lease
UPDATE session
   SET expires_at_ms = max(expires_at_ms, :now_ms + :ttl_ms)
 WHERE id = :session_id AND token = :token AND generation = :generation
   AND owner_id = :owner_id AND incarnation_id = :incarnation_id
   AND key = coalesce(:bound_key, key)
   AND expires_at_ms > :now_ms
RETURNING key, expires_at_ms;

-- name: release_lease
UPDATE session
   SET owner_id = NULL, incarnation_id = NULL, liveness = NULL, token = NULL,
       claimed_at_ms = 0, expires_at_ms = 0, displaced = NULL
 WHERE id = :session_id AND token = :token AND generation = :generation
   AND owner_id = :owner_id AND incarnation_id = :incarnation_id
   AND key = coalesce(:bound_key, key)
RETURNING key;

-- name: read_lease
SELECT key, generation, owner_id, incarnation_id, liveness, token, claimed_at_ms, expires_at_ms,
       :now_ms AS now_ms
  FROM session WHERE id = :session_id;
