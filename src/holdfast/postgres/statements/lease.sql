-- The session lease. It stands on the session's row, with what it guards.

-- name: claim_lease
-- Lock, read the clock, then one upsert: take over what is not live, re-enter what is one's own,
-- and touch nothing else. A holder that was observed to be dead counts as not live, if it is
-- still the same. Without a row yet, racing claimants meet in the conflict of the insert. Whom a
-- takeover displaced has to be told, so it is left alone where that cannot be read any more.
WITH old AS MATERIALIZED (
    SELECT key FROM holdfast.session WHERE id = %(session_id)s FOR NO KEY UPDATE
), clock AS MATERIALIZED (
    SELECT (SELECT key FROM old) AS key, holdfast.now_ms(%(now_ms)s) AS now_ms
)
INSERT INTO holdfast.session AS session (id, generation, owner_id, incarnation_id, liveness,
                                         token, claimed_at_ms, expires_at_ms)
SELECT %(session_id)s, 1, %(owner_id)s, %(incarnation_id)s, %(liveness)s, %(token)s,
       clock.now_ms, clock.now_ms + %(ttl_ms)s
  FROM clock
 WHERE %(bound_key)s::bigint IS NULL OR clock.key = %(bound_key)s
ON CONFLICT (id) DO UPDATE SET
    generation = CASE WHEN {reentry} THEN session.generation ELSE session.generation + 1 END,
    token = CASE WHEN {reentry} THEN session.token ELSE excluded.token END,
    claimed_at_ms =
        CASE WHEN {reentry} THEN session.claimed_at_ms ELSE excluded.claimed_at_ms END,
    expires_at_ms =
        CASE WHEN {reentry} THEN greatest(session.expires_at_ms, excluded.expires_at_ms)
             ELSE excluded.expires_at_ms END,
    displaced =
        CASE WHEN {reentry} OR session.owner_id IS NULL THEN NULL
             ELSE json_build_object('owner_id', session.owner_id,
                                    'incarnation_id', session.incarnation_id,
                                    'liveness', session.liveness,
                                    'generation', session.generation,
                                    'claimed_at_ms', session.claimed_at_ms,
                                    'expires_at_ms', session.expires_at_ms)::text END,
    owner_id = excluded.owner_id,
    incarnation_id = excluded.incarnation_id,
    liveness = excluded.liveness
 WHERE session.expires_at_ms <= excluded.claimed_at_ms
       AND (session.owner_id IS NULL OR {readable})
    OR {reentry}
    OR (session.owner_id = %(dead_owner_id)s AND session.incarnation_id = %(dead_incarnation_id)s
        AND session.generation = %(dead_generation)s
        AND session.liveness = %(dead_liveness)s)
RETURNING key, generation, token, claimed_at_ms, expires_at_ms, displaced;

-- fragment: reentry
(session.expires_at_ms > excluded.claimed_at_ms
     AND session.owner_id = excluded.owner_id
     AND session.incarnation_id = excluded.incarnation_id)

-- fragment: readable
-- Whether the liveness is what `encode_liveness` writes: all that `decode_liveness` takes.
-- Spelled here as well because this statement commits by itself: on SQLite an answer that cannot
-- be read takes the claim back.
(session.liveness = '{"kind":"opaque"}'
        OR (regexp_match(session.liveness, replace(
               '^\{"boot_id":TEXT,"host_id":TEXT,"kind":"local_process","pid":(0|[1-9]\d{0,9}),"process_start":TEXT\}$',
               'TEXT',
               '"(?:[^"\\\u0001-\u001f]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))*"'
           )))[1]::bigint <= 2147483647)

-- name: renew_lease
WITH old AS MATERIALIZED (
    SELECT key FROM holdfast.session WHERE id = %(session_id)s FOR NO KEY UPDATE
), clock AS MATERIALIZED (
    SELECT old.key, holdfast.now_ms(%(now_ms)s) AS now_ms FROM old
)
UPDATE holdfast.session s
   SET expires_at_ms = greatest(s.expires_at_ms, clock.now_ms + %(ttl_ms)s)
  FROM clock
 WHERE s.key = clock.key AND s.token = %(token)s AND s.generation = %(generation)s
   AND s.owner_id = %(owner_id)s AND s.incarnation_id = %(incarnation_id)s
   AND s.key = coalesce(%(bound_key)s, s.key)
   AND s.expires_at_ms > clock.now_ms
RETURNING s.key, s.expires_at_ms;

-- name: release_lease
UPDATE holdfast.session
   SET owner_id = NULL, incarnation_id = NULL, liveness = NULL, token = NULL,
       claimed_at_ms = 0, expires_at_ms = 0, displaced = NULL
 WHERE id = %(session_id)s AND token = %(token)s AND generation = %(generation)s
   AND owner_id = %(owner_id)s AND incarnation_id = %(incarnation_id)s
   AND key = coalesce(%(bound_key)s, key)
RETURNING key;

-- name: read_lease
SELECT key, generation, owner_id, incarnation_id, liveness, token, claimed_at_ms, expires_at_ms,
       holdfast.now_ms(%(now_ms)s) AS now_ms
  FROM holdfast.session WHERE id = %(session_id)s;
