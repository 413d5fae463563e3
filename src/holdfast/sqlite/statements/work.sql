-- Queued work. BEGIN IMMEDIATE made us the only writer, so what is read here stays true.

-- name: lock_section
-- The write lock already is the section.
SELECT key FROM session WHERE id = :session_id;

-- name: lock_sections
SELECT key FROM session WHERE id IN (SELECT value FROM json_each(:session_ids)) ORDER BY id;

-- fragment: batch_columns
w.seq, w.batch_id, w.class, w.delivery, w.slot, w.merge_key, w.source_key, w.dedupe,
       w.available_at_ms, w.enqueued_at_ms, w.digest, w.payloads, w.settled_at_ms

-- fragment: lease_columns
s.key, s.generation, s.owner_id, s.incarnation_id, s.liveness, s.token, s.claimed_at_ms,
       s.expires_at_ms, :now_ms AS now_ms

-- fragment: fence
-- The session, if the lease that was presented is live.
fence AS (
    SELECT s.key, s.generation FROM session s
     WHERE s.id = :session_id AND s.token = :token AND s.generation = :generation
       AND s.owner_id = :owner_id AND s.incarnation_id = :incarnation_id
       AND s.expires_at_ms > :now_ms AND s.key = coalesce(:bound_key, s.key)
)

-- name: enqueue_work
-- A known source key is passed over; who has it is told by `known_work`.
INSERT INTO session (id)
SELECT DISTINCT d.value ->> 'session_id' FROM json_each(:drafts) d
 WHERE :bound_key IS NULL
   AND NOT EXISTS (SELECT 1 FROM session s WHERE s.id = d.value ->> 'session_id');
INSERT INTO work (session, batch_id, class, delivery, slot, merge_key, source_key, dedupe,
                  available_at_ms, enqueued_at_ms, ready_at_ms, digest, payloads)
SELECT s.key, d.value ->> 'batch_id', d.value ->> 'class', d.value ->> 'delivery',
       d.value ->> 'slot', d.value ->> 'merge_key', d.value ->> 'source_key',
       d.value ->> 'dedupe', d.value ->> 'available_at_ms', coalesce(:at_ms, :now_ms),
       max(d.value ->> 'available_at_ms', coalesce(:at_ms, :now_ms)), d.value ->> 'digest',
       d.value ->> 'payloads'
  FROM json_each(:drafts) d CROSS JOIN session s ON s.id = d.value ->> 'session_id'
 WHERE s.key = coalesce(:bound_key, s.key)
 ORDER BY d.key
ON CONFLICT (session, source_key) WHERE source_key IS NOT NULL DO NOTHING
RETURNING session AS key, batch_id, seq, enqueued_at_ms;
INSERT INTO readiness (session, id, ready_at_ms, waits)
SELECT s.key, s.id, min(w.ready_at_ms), min(w.available_at_ms > w.enqueued_at_ms)
  FROM json_each(:drafts) d
  CROSS JOIN work w ON w.batch_id = d.value ->> 'batch_id'
  CROSS JOIN session s ON s.key = w.session
 GROUP BY s.key, s.id
{or_readier};

-- fragment: or_readier
ON CONFLICT (session) DO UPDATE
   SET ready_at_ms = min(readiness.ready_at_ms, excluded.ready_at_ms),
       waits = min(readiness.waits, excluded.waits)
 WHERE excluded.ready_at_ms < readiness.ready_at_ms OR excluded.waits < readiness.waits

-- fragment: known
-- What is stored under the source keys of some drafts, and their sessions.
SELECT d.value ->> 'place' AS place, s.key, {batch_columns}
  FROM json_each(:drafts) d
  CROSS JOIN session s ON s.id = d.value ->> 'session_id'
  LEFT JOIN work w ON w.session = s.key AND w.source_key = d.value ->> 'source_key'
 ORDER BY d.key

-- name: known_work
{known};

-- name: held_work
-- A damaged batch is found when the rows are decoded, and that takes the drafts back.
{known};

-- fragment: claim_is_live
(w.claim_token IS NOT NULL AND w.claim_generation = s.generation AND s.owner_id IS NOT NULL
     AND s.expires_at_ms > :now_ms)

-- name: list_work
-- Claimed batches too, unless only those that nobody has are asked for.
SELECT {batch_columns}
  FROM session s CROSS JOIN work w ON w.session = s.key
 WHERE s.id = :session_id AND w.settled_at_ms IS NULL AND w.seq > :after_seq
   AND NOT (:pending AND {claim_is_live})
 ORDER BY w.seq LIMIT :limit;

-- name: cancel_work
DELETE FROM work AS w
 WHERE w.batch_id = :batch_id AND w.settled_at_ms IS NULL
   AND EXISTS (SELECT 1 FROM session s
                WHERE s.id = :session_id AND s.key = w.session
                  AND s.key = coalesce(:bound_key, s.key) AND NOT {claim_is_live})
RETURNING seq, batch_id, class, delivery, slot, merge_key, source_key, dedupe, available_at_ms,
          enqueued_at_ms, digest, payloads, settled_at_ms;

-- fragment: candidate
w.session = f.key AND w.settled_at_ms IS NULL AND w.available_at_ms <= :now_ms
       AND w.claim_generation IS NOT f.generation

-- fragment: candidate_columns
w.seq, w.class, w.delivery, w.slot, w.merge_key, w.claim_count

-- fragment: joined
-- The first candidate, if it is what is asked for, and those directly behind it that join it.
marked AS (
    SELECT r.seq, f.seq AS first_seq, f.claim_count + 1 AS first_count,
           sum(CASE WHEN r.seq = f.seq
                      OR f.slot = 'join' AND r.slot = 'join' AND r.class = f.class
                     AND f.class = 'turn_work' AND r.delivery = f.delivery
                     AND r.merge_key = f.merge_key AND f.merge_key <> '"never"'
                    THEN 0 ELSE 1 END) OVER (ORDER BY r.seq) AS breaks
      FROM ready r CROSS JOIN (SELECT * FROM ready ORDER BY seq LIMIT 1) f
     WHERE {is_asked_for}
       AND (:boundary = 'idle' OR f.delivery = 'earliest_safe_boundary')
), chosen AS (
    SELECT seq, 'qwc:' || first_seq || ':' || first_count AS claim_id
      FROM marked WHERE breaks = 0
)

-- fragment: is_asked_for
-- One of a class that we do not know would stop the queue and nobody be told: it fails as damaged.
(f.class = :class OR f.class NOT IN ('session_command', 'turn_work'))

-- fragment: claimed
UPDATE work AS w
   SET claim_id = c.claim_id, claim_token = :claim_token, claim_owner = :owner_id,
       claim_generation = :generation, claim_count = w.claim_count + 1
  FROM chosen c
 WHERE w.seq = c.seq AND {all_of_them};
SELECT {lease_columns}, w.claim_id, w.claim_count, {batch_columns}
  FROM session s LEFT JOIN work w ON w.session = s.key AND w.claim_token = :claim_token
 WHERE s.id = :session_id ORDER BY w.seq

-- fragment: all_of_them
:count IN (0, (SELECT count(*) FROM chosen))

-- name: claim_work
-- A damaged batch is found when the rows are decoded, and that takes the claim back.
WITH {fence},
ready AS MATERIALIZED (
    SELECT {candidate_columns} FROM fence f CROSS JOIN work w ON {candidate}
     ORDER BY w.seq LIMIT :max_batches
),
{joined}
{claimed};

-- name: claim_work_exactly
-- All of the batches named, or none.
WITH {fence},
ready AS MATERIALIZED (
    SELECT {candidate_columns}
      FROM fence f CROSS JOIN json_each(:batch_ids) j
      CROSS JOIN work w ON w.batch_id = j.value AND {candidate}
),
{joined}
{claimed};

-- name: abandon_work
UPDATE work AS w
   SET claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
  FROM json_each(:claims) c
  JOIN session s ON s.id = c.value ->> 'session_id' AND s.key = coalesce(:bound_key, s.key)
 WHERE w.session = s.key AND w.claim_token = c.value ->> 'claim_token'
   AND w.claim_id = c.value ->> 'claim_id'
RETURNING seq;

-- name: claimed_work
-- What the claims of a commit still own.
SELECT w.seq, w.batch_id, w.claim_id, w.claim_token
  FROM session s CROSS JOIN work w ON w.session = s.key
 WHERE s.id = :session_id AND w.claim_token IN (SELECT value FROM json_each(:claim_tokens))
 ORDER BY w.seq;

-- name: complete_work
-- A source key that counts once leaves a receipt.
DELETE FROM work
 WHERE seq IN (SELECT value FROM json_each(:seqs)) AND (source_key IS NULL OR dedupe = 'pending');
UPDATE work
   SET settled_at_ms = :at_ms, payloads = NULL,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: refresh_readiness
-- When the session has something to do, after something was settled or deferred.
DELETE FROM readiness
 WHERE session = (SELECT key FROM session WHERE id = :session_id)
   AND NOT EXISTS (SELECT 1 FROM ({due}));
INSERT INTO readiness (session, id, ready_at_ms, waits)
SELECT * FROM ({due}) WHERE true
ON CONFLICT (session) DO UPDATE SET ready_at_ms = excluded.ready_at_ms, waits = excluded.waits
 WHERE (excluded.ready_at_ms, excluded.waits) <> (readiness.ready_at_ms, readiness.waits);

-- name: trim_readiness
-- The same after a cancellation, which never makes ready what was not.
DELETE FROM readiness
 WHERE session = (SELECT key FROM session WHERE id = :session_id)
   AND NOT EXISTS (SELECT 1 FROM ({due}));
UPDATE readiness SET ready_at_ms = d.ready_at_ms, waits = d.waits
  FROM ({due}) d
 WHERE session = d.key
   AND (d.ready_at_ms, d.waits) <> (readiness.ready_at_ms, readiness.waits);

-- fragment: due
SELECT s.key, s.id, min(t.ready_at_ms) AS ready_at_ms, min(t.waits) AS waits
       FROM session s
       CROSS JOIN (
            SELECT (SELECT w.ready_at_ms FROM work w
                     WHERE w.session = (SELECT key FROM session WHERE id = :session_id)
                       AND w.settled_at_ms IS NULL AND w.available_at_ms <= w.enqueued_at_ms
                     ORDER BY w.ready_at_ms LIMIT 1) AS ready_at_ms, 0 AS waits
             UNION ALL
            SELECT (SELECT w.ready_at_ms FROM work w
                     WHERE w.session = (SELECT key FROM session WHERE id = :session_id)
                       AND w.settled_at_ms IS NULL AND w.available_at_ms > w.enqueued_at_ms
                     ORDER BY w.ready_at_ms LIMIT 1), 1
             UNION ALL
            SELECT (SELECT i.ready_at_ms FROM turn_input i
                     WHERE i.session = (SELECT key FROM session WHERE id = :session_id)
                       AND i.state = 'deferred_next_turn'
                     ORDER BY i.ready_at_ms LIMIT 1), 0) t
      WHERE s.id = :session_id AND t.ready_at_ms IS NOT NULL
      GROUP BY s.key, s.id

-- name: ready_sessions
-- Longest ready first; sessions at work are passed over. What was enqueued for later is ready when
-- its instant has come. What was not is ready at once, unless the clock was set back since: then
-- its instants order it, and whether it is available is looked up.
SELECT * FROM (
    SELECT r.id, r.ready_at_ms
      FROM readiness r CROSS JOIN session s ON s.key = r.session
     WHERE r.waits AND r.ready_at_ms <= :now_ms AND {on_the_page}
     ORDER BY r.ready_at_ms, r.id LIMIT :limit)
 UNION ALL
SELECT * FROM (
    SELECT r.id, r.ready_at_ms
      FROM readiness r CROSS JOIN session s ON s.key = r.session
     WHERE NOT r.waits AND (r.ready_at_ms <= :now_ms OR {available}) AND {on_the_page}
     ORDER BY r.ready_at_ms, r.id LIMIT :limit)
 ORDER BY ready_at_ms, id LIMIT :limit;

-- fragment: on_the_page
(r.ready_at_ms, r.id) > (:after_ready, :after_id)
       AND NOT (s.owner_id IS NOT NULL AND s.expires_at_ms > :now_ms)

-- fragment: available
EXISTS (SELECT 1 FROM work w
              WHERE w.session = r.session AND w.settled_at_ms IS NULL
                AND w.available_at_ms <= w.enqueued_at_ms AND w.available_at_ms <= :now_ms)
       OR EXISTS (SELECT 1 FROM turn_input i
                   WHERE i.session = r.session AND i.state = 'deferred_next_turn')

-- name: next_ready
-- What a deletion leaves for a vacuum is passed over, and little: it takes delayed batches along.
SELECT w.available_at_ms AS ready_at_ms
  FROM work w INDEXED BY work_by_availability CROSS JOIN session s ON s.key = w.session
 WHERE w.settled_at_ms IS NULL AND w.available_at_ms > 0 AND w.available_at_ms > :now_ms
 ORDER BY w.available_at_ms LIMIT 1;

-- name: prune_receipts
DELETE FROM work WHERE seq IN (
    SELECT w.seq FROM session s CROSS JOIN work w ON w.session = s.key
     WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)
       AND w.settled_at_ms < :older_than_ms LIMIT :limit)
RETURNING seq;
