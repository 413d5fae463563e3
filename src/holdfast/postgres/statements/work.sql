-- Queued work. Whoever judges more than one row locks the section in a statement of its own
-- (`lock_section`), sent in the same trip: what comes behind it sees what was committed meanwhile.

-- Where rows come in order and up to a limit, they are asked for by LATERAL: joined to the session
-- they would all be read first, and sorted. So are single rows by what names them, with LIMIT 1:
-- a planner takes a list of ours to have a hundred entries, and would sooner join all of a queue
-- that it takes to be short, or all of ten thousand sessions.

-- name: lock_section
-- The session's section, without making it present. What has no other guard than the section asks
-- `section` whether it was entered: a session that appears behind this statement was not.
WITH locked AS MATERIALIZED (
    SELECT key FROM holdfast.session WHERE id = %(session_id)s FOR NO KEY UPDATE
)
SELECT key, set_config('holdfast.section', key::text, true) AS entered FROM locked;

-- name: lock_sections
-- Several sections, in id order, so that two callers never wait for each other crosswise.
SELECT key FROM holdfast.session
 WHERE id = ANY (%(session_ids)s::text[]) ORDER BY id FOR NO KEY UPDATE;

-- fragment: batch_columns
w.seq, w.batch_id, w.class, w.delivery, w.slot, w.merge_key, w.source_key, w.dedupe,
       w.available_at_ms, w.enqueued_at_ms, w.digest, w.payloads, w.settled_at_ms

-- fragment: lease_columns
m.key, m.generation, m.owner_id, m.incarnation_id, m.liveness, m.token, m.claimed_at_ms,
       m.expires_at_ms, m.now_ms

-- fragment: moment
-- The session and the one reading of the clock, behind its lock.
moment AS MATERIALIZED (
    SELECT s.*, holdfast.now_ms(%(now_ms)s) AS now_ms
      FROM holdfast.session s WHERE s.id = %(session_id)s
)

-- fragment: section
-- As `moment`, of a session that this transaction has entered by `lock_section`.
moment AS MATERIALIZED (
    SELECT s.*, holdfast.now_ms(%(now_ms)s) AS now_ms
      FROM holdfast.session s
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
       AND s.key::text = current_setting('holdfast.section', true)
)

-- fragment: fence
-- The session, if the lease that was presented is live.
fence AS MATERIALIZED (
    SELECT m.key, m.generation, m.now_ms FROM moment m
     WHERE m.token = %(token)s AND m.generation = %(generation)s
       AND m.owner_id = %(owner_id)s AND m.incarnation_id = %(incarnation_id)s
       AND m.expires_at_ms > m.now_ms AND m.key = coalesce(%(bound_key)s, m.key)
)

-- name: enqueue_work
-- One statement for any number of drafts. The sections are locked before the clock is read and
-- before a sequence number is drawn, so that numbers rise in commit order. A session made by
-- somebody else meanwhile is met in the conflict, and a known source key is found by its index;
-- who has it is told by `known_work`. A commit brings the instant of its section along.
WITH drafts AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(drafts)s::json) AS d (
        place bigint, session_id text COLLATE "C", batch_id text, class text, delivery text, slot text,
        merge_key text, source_key text, dedupe text, available_at_ms bigint, digest text,
        payloads text)
), old AS MATERIALIZED (
    SELECT key, id FROM holdfast.session
     WHERE id = ANY (ARRAY(SELECT session_id FROM drafts)) ORDER BY id FOR NO KEY UPDATE
), made AS (
    INSERT INTO holdfast.session AS s (id)
    SELECT DISTINCT d.session_id FROM drafts d
     WHERE %(bound_key)s::bigint IS NULL AND d.session_id NOT IN (SELECT id FROM old) ORDER BY 1
    ON CONFLICT (id) DO UPDATE SET generation = s.generation
    RETURNING s.key, s.id
), entered AS MATERIALIZED (
    SELECT key, id FROM old WHERE key = coalesce(%(bound_key)s, key)
     UNION ALL SELECT key, id FROM made
), clock AS MATERIALIZED (
    SELECT coalesce(%(at_ms)s::bigint, holdfast.now_ms(%(now_ms)s)) AS now_ms
      FROM (SELECT count(*) FROM entered) locked
), stored AS (
    INSERT INTO holdfast.work AS w (session, batch_id, class, delivery, slot, merge_key,
        source_key, dedupe, available_at_ms, enqueued_at_ms, ready_at_ms, digest, payloads)
    SELECT e.key, d.batch_id, d.class, d.delivery, d.slot, d.merge_key, d.source_key, d.dedupe,
           d.available_at_ms, c.now_ms, greatest(d.available_at_ms, c.now_ms), d.digest, d.payloads
      FROM drafts d JOIN entered e ON e.id = d.session_id CROSS JOIN clock c
     ORDER BY d.place
    ON CONFLICT (session, source_key) WHERE source_key IS NOT NULL DO NOTHING
    RETURNING w.session AS key, w.batch_id, w.seq, w.enqueued_at_ms, w.ready_at_ms,
              w.available_at_ms > w.enqueued_at_ms AS waits
), readied AS (
    INSERT INTO holdfast.readiness AS r (session, id, ready_at_ms, waits)
    SELECT e.key, e.id, min(s.ready_at_ms), bool_and(s.waits)
      FROM stored s JOIN entered e ON e.key = s.key GROUP BY e.key, e.id
    {or_readier}
)
SELECT key, batch_id, seq, enqueued_at_ms FROM stored;

-- fragment: or_readier
ON CONFLICT (session) DO UPDATE
       SET ready_at_ms = least(r.ready_at_ms, excluded.ready_at_ms),
           waits = r.waits AND excluded.waits
     WHERE excluded.ready_at_ms < r.ready_at_ms OR excluded.waits < r.waits

-- fragment: known
-- What is stored under the source keys of some drafts, and their sessions.
SELECT d.place, s.key, {batch_columns}
  FROM json_to_recordset(%(drafts)s::json) AS d (place bigint, session_id text, source_key text)
  CROSS JOIN LATERAL (SELECT key FROM holdfast.session WHERE id = d.session_id LIMIT 1) s
  LEFT JOIN LATERAL (
       SELECT * FROM holdfast.work
        WHERE session = s.key AND source_key = d.source_key LIMIT 1) w ON true

-- name: known_work
{known}
 ORDER BY d.place;

-- name: held_work
-- As `known_work`, in the trip that commits: a damaged batch, which cannot be told, has to fail
-- before that. A receipt has no content left.
{known}
 WHERE CASE WHEN w.seq IS NULL OR w.settled_at_ms IS NOT NULL THEN true ELSE {is_sound} END
 ORDER BY d.place;

-- fragment: claim_is_live
(w.claim_token IS NOT NULL AND w.claim_generation = m.generation AND m.owner_id IS NOT NULL
     AND m.expires_at_ms > m.now_ms)

-- name: list_work
-- Claimed batches too, unless only those that nobody has are asked for.
WITH {moment}
SELECT w.*
  FROM moment m CROSS JOIN LATERAL (
       SELECT {batch_columns} FROM holdfast.work w
        WHERE w.session = m.key AND w.settled_at_ms IS NULL AND w.seq > %(after_seq)s
          AND NOT (%(pending)s AND {claim_is_live})
        ORDER BY w.seq LIMIT %(limit)s) w
 ORDER BY w.seq;

-- name: cancel_work
WITH {section}
DELETE FROM holdfast.work w USING moment m
 WHERE w.session = m.key
   AND w.batch_id = %(batch_id)s AND w.settled_at_ms IS NULL AND NOT {claim_is_live}
RETURNING {batch_columns};

-- fragment: candidate
w.session = f.key AND w.settled_at_ms IS NULL AND w.available_at_ms <= f.now_ms
       AND w.claim_generation IS DISTINCT FROM f.generation

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
       AND (%(boundary)s = 'idle' OR f.delivery = 'earliest_safe_boundary')
), chosen AS MATERIALIZED (
    SELECT seq, 'qwc:' || first_seq || ':' || first_count AS claim_id
      FROM marked WHERE breaks = 0
), sound AS MATERIALIZED (
    SELECT c.seq, c.claim_id, {is_sound} AS is_sound
      FROM chosen c JOIN holdfast.work w ON w.seq = c.seq WHERE {all_of_them}
)

-- fragment: is_asked_for
-- One of a class that we do not know would stop the queue and nobody be told: it fails as damaged.
(f.class = %(class)s OR f.class NOT IN ('session_command', 'turn_work'))

-- fragment: is_sound
-- A damaged batch has to fail before the claim commits, and only if the claim would take it; its
-- digest and the words that are known are those of rules/queue.py.
CASE WHEN w.digest = encode(sha256(convert_to(concat_ws(chr(10),
             w.class, w.delivery, w.slot, w.merge_key, w.available_at_ms::text, w.payloads),
             'UTF8')), 'hex')
          AND w.class IN ('session_command', 'turn_work')
          AND w.delivery IN ('earliest_safe_boundary', 'after_current_turn_commit')
          AND w.slot IN ('join', 'exclusive') AND w.dedupe IN ('once', 'pending')
          AND (w.merge_key IN ('"never"', '"payload_default"') OR w.merge_key LIKE '{"group":%')
         THEN true ELSE holdfast.damaged('queued_work', w.batch_id) END

-- fragment: claimed
claimed AS (
    UPDATE holdfast.work w
       SET claim_id = c.claim_id, claim_token = %(claim_token)s, claim_owner = %(owner_id)s,
           claim_generation = %(generation)s, claim_count = w.claim_count + 1
      FROM sound c
     WHERE w.seq = c.seq AND c.is_sound
    RETURNING w.claim_id, w.claim_count, {batch_columns}
)
SELECT {lease_columns}, w.*
  FROM moment m LEFT JOIN claimed w ON true ORDER BY w.seq

-- fragment: all_of_them
%(count)s IN (0, (SELECT count(*) FROM chosen))

-- name: claim_work
WITH {moment}, {fence},
ready AS MATERIALIZED (
    SELECT w.* FROM fence f CROSS JOIN LATERAL (
        SELECT {candidate_columns} FROM holdfast.work w
         WHERE {candidate} ORDER BY w.seq LIMIT %(max_batches)s) w
),
{joined},
{claimed};

-- name: claim_work_exactly
-- All of the batches named, or none.
WITH {moment}, {fence},
ready AS MATERIALIZED (
    SELECT {candidate_columns}
      FROM fence f CROSS JOIN unnest(%(batch_ids)s::text[]) AS b (id)
      JOIN LATERAL (SELECT * FROM holdfast.work WHERE batch_id = b.id LIMIT 1) w ON {candidate}
),
{joined},
{claimed};

-- name: abandon_work
UPDATE holdfast.work w
   SET claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
  FROM {claims}
 WHERE w.session = s.key AND s.key = coalesce(%(bound_key)s, s.key)
   AND w.claim_token = c.claim_token AND w.claim_id = c.claim_id
RETURNING w.seq;

-- fragment: claims
-- Claims by their session, id and token.
json_to_recordset(%(claims)s::json) AS c (session_id text, claim_id text, claim_token text)
 CROSS JOIN LATERAL (SELECT key FROM holdfast.session WHERE id = c.session_id LIMIT 1) s

-- name: claimed_work
-- What the claims of a commit still own.
SELECT w.seq, w.batch_id, w.claim_id, w.claim_token
  FROM holdfast.session s JOIN holdfast.work w ON w.session = s.key
 WHERE s.id = %(session_id)s AND w.claim_token = ANY (%(claim_tokens)s::text[])
 ORDER BY w.seq;

-- name: complete_work
-- A source key that counts once leaves a receipt.
WITH gone AS (
    DELETE FROM holdfast.work w
     WHERE w.seq = ANY (%(seqs)s::bigint[]) AND (w.source_key IS NULL OR w.dedupe = 'pending')
)
UPDATE holdfast.work w
   SET settled_at_ms = %(at_ms)s, payloads = NULL,
       claim_id = NULL, claim_token = NULL, claim_owner = NULL, claim_generation = NULL
 WHERE w.seq = ANY (%(seqs)s::bigint[]) AND w.source_key IS NOT NULL AND w.dedupe <> 'pending';

-- name: refresh_readiness
-- When the session has something to do, after something was settled or deferred.
WITH {due}
INSERT INTO holdfast.readiness AS r (session, id, ready_at_ms, waits)
SELECT key, id, ready_at_ms, waits FROM due WHERE ready_at_ms IS NOT NULL
ON CONFLICT (session) DO UPDATE SET ready_at_ms = excluded.ready_at_ms, waits = excluded.waits
 WHERE (r.ready_at_ms, r.waits) <> (excluded.ready_at_ms, excluded.waits);

-- name: trim_readiness
-- The same after a cancellation, which never makes ready what was not. A row is not made here:
-- where the section's lock found no session, there is no lock to make one under.
WITH {due}
UPDATE holdfast.readiness r SET ready_at_ms = d.ready_at_ms, waits = d.waits
  FROM due d
 WHERE r.session = d.key AND d.ready_at_ms IS NOT NULL
   AND (r.ready_at_ms, r.waits) <> (d.ready_at_ms, d.waits);

-- fragment: due
-- When it has, or the end of that.
due AS MATERIALIZED (
    SELECT s.key, s.id, least(t.at_once, t.delayed, t.deferred) AS ready_at_ms,
           t.at_once IS NULL AND t.deferred IS NULL AS waits
      FROM holdfast.session s CROSS JOIN LATERAL (
           SELECT (SELECT min(w.ready_at_ms) FROM holdfast.work w
                    WHERE w.session = s.key AND w.settled_at_ms IS NULL
                      AND w.available_at_ms <= w.enqueued_at_ms) AS at_once,
                  (SELECT min(w.ready_at_ms) FROM holdfast.work w
                    WHERE w.session = s.key AND w.settled_at_ms IS NULL
                      AND w.available_at_ms > w.enqueued_at_ms) AS delayed,
                  (SELECT min(i.ready_at_ms) FROM holdfast.turn_input i
                    WHERE i.session = s.key AND i.state = 'deferred_next_turn') AS deferred) t
     WHERE s.id = %(session_id)s
), idle AS (
    DELETE FROM holdfast.readiness r USING due d
     WHERE r.session = d.key AND d.ready_at_ms IS NULL
)

-- name: ready_sessions
-- Longest ready first; sessions at work are passed over. What was enqueued for later is ready when
-- its instant has come. What was not is ready at once, unless the clock was set back since: then
-- its instants order it, and whether it is available is looked up.
WITH clock AS MATERIALIZED (SELECT holdfast.now_ms(%(now_ms)s) AS now_ms)
SELECT * FROM (
    (SELECT r.id, r.ready_at_ms
       FROM {serving}
      WHERE r.waits AND r.ready_at_ms <= (SELECT now_ms FROM clock) AND {on_the_page}
      ORDER BY r.ready_at_ms, r.id LIMIT %(limit)s)
     UNION ALL
    (SELECT r.id, r.ready_at_ms
       FROM {serving}
      WHERE NOT r.waits AND (r.ready_at_ms <= (SELECT now_ms FROM clock) OR {available})
        AND {on_the_page}
      ORDER BY r.ready_at_ms, r.id LIMIT %(limit)s)) r
 ORDER BY r.ready_at_ms, r.id LIMIT %(limit)s;

-- fragment: serving
holdfast.readiness r CROSS JOIN LATERAL (
            SELECT owner_id, expires_at_ms FROM holdfast.session WHERE key = r.session LIMIT 1) s

-- fragment: on_the_page
(r.ready_at_ms, r.id) > (%(after_ready)s, %(after_id)s)
        AND NOT (s.owner_id IS NOT NULL AND s.expires_at_ms > (SELECT now_ms FROM clock))

-- fragment: available
EXISTS (SELECT 1 FROM holdfast.work w
                 WHERE w.session = r.session AND w.settled_at_ms IS NULL
                   AND w.available_at_ms <= w.enqueued_at_ms
                   AND w.available_at_ms <= (SELECT now_ms FROM clock))
             OR EXISTS (SELECT 1 FROM holdfast.turn_input i
                         WHERE i.session = r.session AND i.state = 'deferred_next_turn')

-- name: next_ready
-- What a deletion leaves for a vacuum is passed over, and little: it takes delayed batches along.
WITH clock AS MATERIALIZED (SELECT holdfast.now_ms(%(now_ms)s) AS now_ms)
SELECT w.available_at_ms AS ready_at_ms
  FROM holdfast.work w CROSS JOIN LATERAL (
       SELECT 1 FROM holdfast.session WHERE key = w.session LIMIT 1) s
 WHERE w.settled_at_ms IS NULL AND w.available_at_ms > 0
   AND w.available_at_ms > (SELECT now_ms FROM clock)
 ORDER BY w.available_at_ms LIMIT 1;

-- name: prune_receipts
DELETE FROM holdfast.work w USING (
    SELECT w.seq FROM holdfast.session s JOIN holdfast.work w ON w.session = s.key
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
       AND w.settled_at_ms < %(older_than_ms)s LIMIT %(limit)s) t
 WHERE w.seq = t.seq
RETURNING w.seq;
