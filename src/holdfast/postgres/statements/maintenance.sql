-- Levers: bounded transactions that a host asks for.

-- fragment: vacuumed
(SELECT key FROM holdfast.session WHERE id = %(session_id)s AND key = coalesce(%(bound_key)s, key))

-- name: vacuum_hidden
-- One batch of tombstoned (gone = 0) or formerly shared (gone = 1) nodes: the rows of those that
-- no other session inherited are removed, all of the batch is gone for this session.
WITH batch AS MATERIALIZED (
    SELECT h.session, h.branch, h.ordinal, {unshared} AS unshared
      FROM holdfast.hidden h
     WHERE h.session = {vacuumed} AND h.gone = %(gone)s AND (h.gone = 0 OR {unshared})
     ORDER BY h.branch, h.ordinal LIMIT %(limit)s
), removed AS (
    DELETE FROM holdfast.node n USING batch t
     WHERE t.unshared AND n.branch = t.branch AND n.ordinal = t.ordinal
)
UPDATE holdfast.hidden h SET gone = CASE WHEN t.unshared THEN 2 ELSE 1 END
  FROM batch t
 WHERE h.session = t.session AND h.branch = t.branch AND h.ordinal = t.ordinal
RETURNING h.branch, h.ordinal, h.gone;

-- fragment: unshared
(EXISTS (SELECT 1 FROM holdfast.branch b WHERE b.id = h.branch AND b.owner = h.session)
             AND h.ordinal >= coalesce((SELECT max(i.upto) FROM holdfast.inherited i
                                         WHERE i.branch = h.branch), 0))

-- name: let_go
-- One batch of what the session inherited and has no use for: the end of a range, as far as every
-- node is gone for it and no path of its own reaches. Its owner may remove these nodes then.
WITH ends AS MATERIALIZED (
    SELECT i.session, i.branch, i.start, i.upto, {reach} AS reach
      FROM holdfast.session s JOIN holdfast.inherited i ON i.session = s.key
     WHERE s.key = {vacuumed} AND i.upto > {reach}
       AND EXISTS (SELECT 1 FROM holdfast.hidden h
                    WHERE h.session = i.session AND h.branch = i.branch
                      AND h.ordinal = i.upto - 1 AND h.gone > 0)
     LIMIT 1
), kept AS MATERIALIZED (
    SELECT e.session, e.branch, e.start, greatest(e.start, e.reach, e.upto - (
               SELECT count(*) FROM (
                   SELECT g.ordinal, row_number() OVER (ORDER BY g.ordinal DESC) AS place
                     FROM (SELECT h.ordinal FROM holdfast.hidden h
                            WHERE h.session = e.session AND h.branch = e.branch
                              AND h.ordinal < e.upto AND h.gone > 0
                            ORDER BY h.ordinal DESC LIMIT %(limit)s) g) r
                WHERE r.ordinal + r.place = e.upto)) AS upto
      FROM ends e
), shown AS (
    DELETE FROM holdfast.hidden h USING kept k
     WHERE h.session = k.session AND h.branch = k.branch AND h.ordinal >= k.upto
), narrowed AS (
    UPDATE holdfast.inherited i SET upto = k.upto FROM kept k
     WHERE i.session = k.session AND i.branch = k.branch AND k.upto > k.start
), disinherited AS (
    DELETE FROM holdfast.inherited i USING kept k
     WHERE i.session = k.session AND i.branch = k.branch AND k.upto <= k.start
)
SELECT branch FROM kept;

-- fragment: reach
-- How far the paths of session `s` lead along the branch of `i`: its head's, and those of branches
-- that leave this one, its own and inherited ones.
greatest(CASE WHEN s.branch = i.branch THEN s.length ELSE 0 END,
         (SELECT max(o.base) FROM holdfast.branch o
           WHERE o.owner = s.key AND o.parent = i.branch AND o.detached = 0),
         (SELECT max(o.base) FROM holdfast.inherited j JOIN holdfast.branch o ON o.id = j.branch
           WHERE j.session = s.key AND o.parent = i.branch))

-- name: forget_removed
-- Of nodes removed one behind the other, whose places are given, what marks the first and the last
-- is enough: nothing may follow the node before them, and paths end behind them. What marks one
-- between them is kept where a path ends there. OFFSET 0 and subqueries for single values: as
-- joins, and with old figures, all that a session hides would be met again for each place.
WITH entered AS MATERIALIZED (
    SELECT key, branch, length FROM holdfast.session WHERE key = {vacuumed}
), places AS MATERIALIZED (
    SELECT DISTINCT j.place >> 28 AS branch, (j.place & 268435455) + d.beside AS ordinal
      FROM unnest(%(places)s::bigint[]) AS j (place)
     CROSS JOIN (VALUES (-1), (0), (1)) AS d (beside)
), needless AS MATERIALIZED (
    SELECT h.session, h.branch, h.ordinal
      FROM entered s CROSS JOIN places p CROSS JOIN LATERAL (
           SELECT * FROM holdfast.hidden h
            WHERE h.session = s.key AND h.branch = p.branch AND h.ordinal = p.ordinal
              AND h.gone = 2
           OFFSET 0) h
     WHERE (SELECT k.gone FROM holdfast.hidden k
             WHERE k.session = h.session AND k.branch = h.branch
               AND k.ordinal = h.ordinal + 1) = 2
       AND (SELECT n.ordinal FROM holdfast.node n
             WHERE n.branch = h.branch AND n.ordinal = h.ordinal - 1) IS NULL
       AND (SELECT o.id FROM holdfast.branch o
             WHERE o.parent = h.branch AND o.base = h.ordinal + 1 LIMIT 1) IS NULL
       AND (s.branch IS DISTINCT FROM h.branch OR s.length <> h.ordinal + 1)
)
DELETE FROM holdfast.hidden h USING needless t
 WHERE h.session = t.session AND h.branch = t.branch AND h.ordinal = t.ordinal;

-- name: drop_emptied
-- Branches of the session whose nodes were all removed, and through which no path leads.
DELETE FROM holdfast.branch x USING (
    SELECT b.id
      FROM holdfast.session s
     CROSS JOIN (SELECT DISTINCT branch FROM holdfast.hidden WHERE session = {vacuumed}) h
      JOIN holdfast.branch b ON b.id = h.branch AND b.owner = s.key AND b.detached = 0
     WHERE s.key = {vacuumed} AND s.branch IS DISTINCT FROM b.id
       AND NOT EXISTS (SELECT 1 FROM holdfast.node n WHERE n.branch = b.id)
       AND NOT EXISTS (SELECT 1 FROM holdfast.branch o WHERE o.parent = b.id)
     LIMIT %(limit)s) t
 WHERE x.id = t.id
RETURNING x.id;

-- name: forget_tails
-- One batch of what marks removed nodes behind everything that is left of a branch of the session:
-- the next node may stand there. Of a branch that is there with nothing left, all is kept, or it
-- would not be found any more.
WITH ends AS MATERIALIZED (
    SELECT s.key AS session, e.branch,
           (SELECT b.owner FROM holdfast.branch b WHERE b.id = e.branch) AS owner,
           greatest(CASE WHEN s.branch = e.branch THEN s.length ELSE 0 END,
                    (SELECT max(n.ordinal) + 1 FROM holdfast.node n WHERE n.branch = e.branch),
                    (SELECT max(o.base) FROM holdfast.branch o WHERE o.parent = e.branch)) AS upto
      FROM holdfast.session s
     CROSS JOIN (SELECT DISTINCT branch FROM holdfast.hidden WHERE session = {vacuumed}) e
     WHERE s.key = {vacuumed}
), tails AS MATERIALIZED (
    SELECT h.session, h.branch, h.ordinal
      FROM ends e CROSS JOIN LATERAL (
           SELECT * FROM holdfast.hidden h
            WHERE h.session = e.session AND h.branch = e.branch AND h.ordinal >= e.upto
           OFFSET 0) h
     WHERE e.owner IS NULL OR e.owner = e.session AND e.upto > 0
     LIMIT %(limit)s
)
DELETE FROM holdfast.hidden h USING tails t
 WHERE h.session = t.session AND h.branch = t.branch AND h.ordinal = t.ordinal
RETURNING h.ordinal;

-- name: sessions_with_hidden
-- A page of sessions that may have something to vacuum, by their keys, with the ids of those that
-- do: none for one that was deleted. It steps along an index from session to session, over
-- whatever each has, and meets none that has nothing.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(h.session) FROM holdfast.hidden h
             WHERE h.gone < 2 AND h.session > %(after)s), 1
     UNION ALL
    SELECT (SELECT min(h.session) FROM holdfast.hidden h
             WHERE h.gone < 2 AND h.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < %(limit)s
)
SELECT f.session AS key,
       (SELECT s.id FROM holdfast.session s WHERE s.key = f.session) AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: sessions_with_ended_inputs
-- As above, with ids where something ended early enough.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(i.session) FROM holdfast.turn_input i
             WHERE i.ended_at_ms IS NOT NULL AND i.session > %(after)s), 1
     UNION ALL
    SELECT (SELECT min(i.session) FROM holdfast.turn_input i
             WHERE i.ended_at_ms IS NOT NULL AND i.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < %(limit)s
)
SELECT f.session AS key,
       CASE WHEN EXISTS (SELECT 1 FROM holdfast.turn_input i
                          WHERE i.session = f.session
                            AND i.ended_at_ms
                                < coalesce(%(terminal_before_ms)s, 9223372036854775807))
            THEN (SELECT s.id FROM holdfast.session s WHERE s.key = f.session) END AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: sessions_with_receipts
-- As above, with ids where something was settled early enough.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(w.session) FROM holdfast.work w
             WHERE w.settled_at_ms IS NOT NULL AND w.session > %(after)s), 1
     UNION ALL
    SELECT (SELECT min(w.session) FROM holdfast.work w
             WHERE w.settled_at_ms IS NOT NULL AND w.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < %(limit)s
)
SELECT f.session AS key,
       CASE WHEN EXISTS (SELECT 1 FROM holdfast.work w
                          WHERE w.session = f.session AND w.settled_at_ms < %(older_than_ms)s)
            THEN (SELECT s.id FROM holdfast.session s WHERE s.key = f.session) END AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: sessions_with_stamps
-- As above, with ids where a stamp is old enough and none of the newest.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(t.session) FROM holdfast.turn_commit t
             WHERE t.session > %(after)s), 1
     UNION ALL
    SELECT (SELECT min(t.session) FROM holdfast.turn_commit t
             WHERE t.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < %(limit)s
)
SELECT f.session AS key,
       CASE WHEN EXISTS (SELECT 1 FROM holdfast.turn_commit t
                          WHERE t.session = f.session AND t.committed_at_ms < %(older_than_ms)s
                            AND t.head_revision < (SELECT min(k.head_revision) FROM (
                                SELECT head_revision FROM holdfast.turn_commit
                                 WHERE session = f.session
                                 ORDER BY head_revision DESC LIMIT %(keep_latest)s) k))
            THEN (SELECT s.id FROM holdfast.session s WHERE s.key = f.session) END AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: next_removal
SELECT session FROM holdfast.removal ORDER BY session LIMIT 1;

-- name: lock_removal
-- By itself, so that the batch behind it sees what a vacuum it waited for has left.
SELECT session FROM holdfast.removal WHERE session = %(session)s FOR UPDATE;

-- name: remove_rows
-- One batch of what a deleted session left behind; its branches become nobody's. A session may have
-- much of a table, so the order is an index's: else the table would be read until a batch is full.
-- Batches are asked for in a range of one session, since in the order of `seq` alone all would be.
WITH hidden_batch AS (
    SELECT session, branch, ordinal FROM holdfast.hidden
     WHERE session = %(session)s ORDER BY branch, ordinal LIMIT %(limit)s
), shown AS (
    DELETE FROM holdfast.hidden h USING hidden_batch t
     WHERE h.session = t.session AND h.branch = t.branch AND h.ordinal = t.ordinal
    RETURNING h.session
), stamp_batch AS (
    SELECT session, turn_id FROM holdfast.turn_commit
     WHERE session = %(session)s ORDER BY turn_id LIMIT %(limit)s
), unstamped AS (
    DELETE FROM holdfast.turn_commit c USING stamp_batch t
     WHERE c.session = t.session AND c.turn_id = t.turn_id
    RETURNING c.session
), usage_batch AS (
    SELECT session, pair FROM holdfast.usage
     WHERE session = %(session)s ORDER BY pair LIMIT %(limit)s
), unused AS (
    DELETE FROM holdfast.usage u USING usage_batch t
     WHERE u.session = t.session AND u.pair = t.pair
    RETURNING u.session
), inherited_batch AS (
    SELECT session, branch FROM holdfast.inherited
     WHERE session = %(session)s ORDER BY branch LIMIT %(limit)s
), disinherited AS (
    DELETE FROM holdfast.inherited i USING inherited_batch t
     WHERE i.session = t.session AND i.branch = t.branch
    RETURNING i.session
), work_batch AS (
    SELECT seq FROM holdfast.work
     WHERE session BETWEEN %(session)s AND %(session)s AND settled_at_ms IS NULL
     ORDER BY session, seq LIMIT %(limit)s
), emptied AS (
    DELETE FROM holdfast.work w USING work_batch t WHERE w.seq = t.seq RETURNING w.session
), receipt_batch AS (
    SELECT seq FROM holdfast.work
     WHERE session = %(session)s AND settled_at_ms IS NOT NULL
     ORDER BY settled_at_ms LIMIT %(limit)s
), forgotten AS (
    DELETE FROM holdfast.work w USING receipt_batch t WHERE w.seq = t.seq RETURNING w.session
), input_batch AS (
    SELECT seq FROM holdfast.turn_input
     WHERE session = %(session)s ORDER BY input_id LIMIT %(limit)s
), unheard AS (
    DELETE FROM holdfast.turn_input i USING input_batch t WHERE i.seq = t.seq RETURNING i.session
), attachment_batch AS (
    SELECT session, attachment_id FROM holdfast.attachment
     WHERE session = %(session)s ORDER BY attachment_id LIMIT %(limit)s
), unattached AS (
    DELETE FROM holdfast.attachment a USING attachment_batch t
     WHERE a.session = t.session AND a.attachment_id = t.attachment_id
    RETURNING a.session
), branch_batch AS (
    SELECT id FROM holdfast.branch
     WHERE owner = %(session)s AND detached = 0 LIMIT %(limit)s
), detached AS (
    UPDATE holdfast.branch b SET detached = 1 FROM branch_batch t WHERE b.id = t.id
    RETURNING b.owner AS session
)
SELECT session FROM shown UNION ALL SELECT session FROM unstamped
 UNION ALL SELECT session FROM unused UNION ALL SELECT session FROM disinherited
 UNION ALL SELECT session FROM emptied UNION ALL SELECT session FROM forgotten
 UNION ALL SELECT session FROM unheard UNION ALL SELECT session FROM detached
 UNION ALL SELECT session FROM unattached;

-- name: finish_removal
DELETE FROM holdfast.removal WHERE session = %(session)s;

-- name: detached_branches
SELECT id FROM holdfast.branch
 WHERE detached = 1 AND id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: trim_branches
-- One batch of nodes of detached branches that nobody inherited.
WITH kept AS MATERIALIZED (
    SELECT j.branch, coalesce((SELECT max(i.upto) FROM holdfast.inherited i
                                WHERE i.branch = j.branch), 0) AS upto
      FROM unnest(%(branches)s::bigint[]) AS j (branch)
), batch AS (
    SELECT n.branch, n.ordinal
      FROM kept k CROSS JOIN LATERAL (
           SELECT branch, ordinal FROM holdfast.node
            WHERE branch = k.branch AND ordinal >= k.upto) n
     LIMIT %(limit)s
)
DELETE FROM holdfast.node n USING batch t
 WHERE n.branch = t.branch AND n.ordinal = t.ordinal
RETURNING n.ordinal;

-- name: drop_branches
-- Detached branches without nodes that no path can lead through.
DELETE FROM holdfast.branch b
 WHERE b.id = ANY (%(branches)s::bigint[]) AND b.detached = 1
   AND NOT EXISTS (SELECT 1 FROM holdfast.inherited i WHERE i.branch = b.id)
   AND NOT EXISTS (SELECT 1 FROM holdfast.node n WHERE n.branch = b.id)
RETURNING b.id;

-- name: prune_turn_commits
-- The newest `keep_latest` stamps of the session always stay, and those that prove the death of
-- an uncommitted intent's owner.
DELETE FROM holdfast.turn_commit c USING (
    SELECT t.session, t.turn_id
      FROM holdfast.session s JOIN holdfast.turn_commit t ON t.session = s.key
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
       AND t.committed_at_ms < %(older_than_ms)s
       AND t.head_revision < (SELECT min(k.head_revision) FROM (
               SELECT head_revision FROM holdfast.turn_commit
                WHERE session = s.key ORDER BY head_revision DESC LIMIT %(keep_latest)s) k)
       AND NOT EXISTS (SELECT 1 FROM holdfast.attachment a
                        WHERE a.session = t.session AND a.committed_at_ms IS NULL
                          AND a.owner_kind = 'turn' AND a.owner_id <> t.turn_id
                          AND a.intent_revision < t.head_revision)
     LIMIT %(limit)s) t
 WHERE c.session = t.session AND c.turn_id = t.turn_id
RETURNING c.turn_id;
