-- Levers: bounded transactions that a host asks for.

-- fragment: vacuumed
(SELECT key FROM session WHERE id = :session_id AND key = coalesce(:bound_key, key))

-- name: vacuum_hidden
-- One batch of tombstoned (gone = 0) or formerly shared (gone = 1) nodes: the rows of those that
-- no other session inherited are removed, all of the batch is gone for this session.
DELETE FROM node WHERE key IN (
    SELECT (h.branch << 28) + h.ordinal FROM ({vacuum_batch}) h WHERE {unshared});
UPDATE hidden AS h SET gone = 1 + {unshared}
 WHERE (session, branch, ordinal) IN ({vacuum_batch})
RETURNING branch, ordinal, gone;

-- fragment: vacuum_batch
SELECT h.session, h.branch, h.ordinal FROM hidden h
          WHERE h.session = {vacuumed} AND h.gone = :gone AND (h.gone = 0 OR {unshared})
          ORDER BY h.branch, h.ordinal LIMIT :limit

-- fragment: unshared
(EXISTS (SELECT 1 FROM branch b WHERE b.id = h.branch AND b.owner = h.session)
             AND h.ordinal >= coalesce((SELECT max(i.upto) FROM inherited i
                                         WHERE i.branch = h.branch), 0))

-- name: let_go
-- One batch of what the session inherited and has no use for: the end of a range, as far as every
-- node is gone for it and no path of its own reaches. Its owner may remove these nodes then.
UPDATE inherited SET upto = max(e.start, e.reach, e.upto - e.run)
  FROM (SELECT i.session, i.branch, i.start, i.upto, {reach} AS reach,
               (SELECT count(*) FROM (
                    SELECT g.ordinal, row_number() OVER (ORDER BY g.ordinal DESC) AS place
                      FROM (SELECT h.ordinal FROM hidden h
                             WHERE h.session = i.session AND h.branch = i.branch
                               AND h.ordinal < i.upto AND h.gone > 0
                             ORDER BY h.ordinal DESC LIMIT :limit) g) r
                 WHERE r.ordinal + r.place = i.upto) AS run
          FROM session s JOIN inherited i ON i.session = s.key
         WHERE s.key = {vacuumed} AND i.upto > {reach}
           AND EXISTS (SELECT 1 FROM hidden h
                        WHERE h.session = i.session AND h.branch = i.branch
                          AND h.ordinal = i.upto - 1 AND h.gone > 0)
         LIMIT 1) e
 WHERE inherited.session = e.session AND inherited.branch = e.branch
RETURNING inherited.branch;
DELETE FROM hidden WHERE (session, branch, ordinal) IN (
    SELECT h.session, h.branch, h.ordinal
      FROM inherited i JOIN hidden h ON h.session = i.session AND h.branch = i.branch
                                    AND h.ordinal >= i.upto
     WHERE i.session = {vacuumed});
DELETE FROM inherited WHERE session = {vacuumed} AND upto <= start;

-- fragment: reach
-- How far the paths of session `s` lead along the branch of `i`: its head's, and those of branches
-- that leave this one, its own and inherited ones.
max(CASE WHEN s.branch = i.branch THEN s.length ELSE 0 END,
    coalesce((SELECT max(o.base) FROM branch o INDEXED BY branch_by_owner
               WHERE o.owner = s.key AND o.parent = i.branch AND o.detached = 0), 0),
    coalesce((SELECT max(o.base) FROM inherited j CROSS JOIN branch o NOT INDEXED ON o.id = j.branch
               WHERE j.session = s.key AND +o.parent = i.branch), 0))

-- name: forget_removed
-- Of nodes removed one behind the other, whose places are given, what marks the first and the last
-- is enough: nothing may follow the node before them, and paths end behind them. What marks one
-- between them is kept where a path ends there.
DELETE FROM hidden WHERE (session, branch, ordinal) IN (
    SELECT h.session, h.branch, h.ordinal
      FROM session s
     CROSS JOIN json_each(:places) j
     CROSS JOIN (SELECT -1 AS beside UNION ALL SELECT 0 UNION ALL SELECT 1) d
     CROSS JOIN hidden h ON h.session = s.key AND h.branch = j.value >> 28
                        AND h.ordinal = (j.value & 268435455) + d.beside
     WHERE s.key = {vacuumed} AND h.gone = 2
       AND EXISTS (SELECT 1 FROM hidden k
                    WHERE k.session = h.session AND k.branch = h.branch
                      AND k.ordinal = h.ordinal + 1 AND k.gone = 2)
       AND NOT EXISTS (SELECT 1 FROM node n WHERE n.key = (h.branch << 28) + h.ordinal - 1)
       AND NOT EXISTS (SELECT 1 FROM branch o
                        WHERE o.parent = h.branch AND o.base = h.ordinal + 1)
       AND (s.branch IS NOT h.branch OR s.length <> h.ordinal + 1));

-- name: drop_emptied
-- Branches of the session whose nodes were all removed, and through which no path leads.
DELETE FROM branch WHERE id IN (
    SELECT b.id
      FROM session s
      CROSS JOIN (SELECT DISTINCT h.branch FROM hidden h WHERE h.session = {vacuumed}) h
      JOIN branch b ON b.id = h.branch AND b.owner = s.key AND b.detached = 0
     WHERE s.key = {vacuumed} AND s.branch IS NOT b.id
       AND NOT EXISTS (SELECT 1 FROM node n WHERE n.key BETWEEN (b.id << 28)
                                                    AND (b.id << 28) + 268435455)
       AND NOT EXISTS (SELECT 1 FROM branch o WHERE o.parent = b.id)
     LIMIT :limit)
RETURNING id;

-- name: forget_tails
-- One batch of what marks removed nodes behind everything that is left of a branch of the session:
-- the next node may stand there. Of a branch that is there with nothing left, all is kept, or it
-- would not be found any more.
DELETE FROM hidden WHERE (session, branch, ordinal) IN (
    SELECT h.session, h.branch, h.ordinal
      FROM (SELECT e.session, e.branch, b.id, max(
                CASE WHEN s.branch = e.branch THEN s.length ELSE 0 END,
                coalesce((SELECT (max(n.key) & 268435455) + 1 FROM node n
                           WHERE n.key BETWEEN (e.branch << 28)
                                           AND (e.branch << 28) + 268435455), 0),
                coalesce((SELECT max(o.base) FROM branch o WHERE o.parent = e.branch), 0))
                AS upto
              FROM (SELECT DISTINCT session, branch FROM hidden WHERE session = {vacuumed}) e
             CROSS JOIN session s ON s.key = e.session
              LEFT JOIN branch b ON b.id = e.branch
             WHERE b.id IS NULL OR b.owner = s.key) t
     CROSS JOIN hidden h ON h.session = t.session AND h.branch = t.branch
                        AND h.ordinal >= t.upto
     WHERE t.id IS NULL OR t.upto > 0
     LIMIT :limit)
RETURNING ordinal;

-- name: sessions_with_hidden
-- A page of sessions that may have something to vacuum, by their keys, with the ids of those that
-- do: none for one that was deleted. It steps along an index from session to session, over
-- whatever each has, and meets none that has nothing. Else it would go by the primary key, which
-- holds what is removed already as well.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(h.session) FROM hidden h INDEXED BY hidden_to_vacuum
             WHERE h.gone < 2 AND h.session > :after), 1
     UNION ALL
    SELECT (SELECT min(h.session) FROM hidden h INDEXED BY hidden_to_vacuum
             WHERE h.gone < 2 AND h.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < :limit
)
SELECT f.session AS key,
       (SELECT s.id FROM session s WHERE s.key = f.session) AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: sessions_with_ended_inputs
-- As above, with ids where something ended early enough.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(i.session) FROM turn_input i
             WHERE i.ended_at_ms IS NOT NULL AND i.session > :after), 1
     UNION ALL
    SELECT (SELECT min(i.session) FROM turn_input i
             WHERE i.ended_at_ms IS NOT NULL AND i.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < :limit
)
SELECT f.session AS key,
       CASE WHEN EXISTS (SELECT 1 FROM turn_input i
                          WHERE i.session = f.session
                            AND i.ended_at_ms < coalesce(:terminal_before_ms, 9223372036854775807))
            THEN (SELECT s.id FROM session s WHERE s.key = f.session) END AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: sessions_with_receipts
-- As above, with ids where something was settled early enough.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(w.session) FROM work w
             WHERE w.settled_at_ms IS NOT NULL AND w.session > :after), 1
     UNION ALL
    SELECT (SELECT min(w.session) FROM work w
             WHERE w.settled_at_ms IS NOT NULL AND w.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < :limit
)
SELECT f.session AS key,
       CASE WHEN EXISTS (SELECT 1 FROM work w
                          WHERE w.session = f.session AND w.settled_at_ms < :older_than_ms)
            THEN (SELECT s.id FROM session s WHERE s.key = f.session) END AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: sessions_with_stamps
-- As above, with ids where a stamp is old enough and none of the newest.
WITH RECURSIVE found (session, number) AS (
    SELECT (SELECT min(t.session) FROM turn_commit t
             WHERE t.session > :after), 1
     UNION ALL
    SELECT (SELECT min(t.session) FROM turn_commit t
             WHERE t.session > f.session), f.number + 1
      FROM found f WHERE f.session IS NOT NULL AND f.number < :limit
)
SELECT f.session AS key,
       CASE WHEN EXISTS (SELECT 1 FROM turn_commit t
                          WHERE t.session = f.session AND t.committed_at_ms < :older_than_ms
                            AND t.head_revision < (SELECT min(k.head_revision) FROM (
                                SELECT head_revision FROM turn_commit
                                 WHERE session = f.session
                                 ORDER BY head_revision DESC LIMIT :keep_latest) k))
            THEN (SELECT s.id FROM session s WHERE s.key = f.session) END AS id
  FROM found f WHERE f.session IS NOT NULL ORDER BY f.session;

-- name: next_removal
SELECT session FROM removal ORDER BY session LIMIT 1;

-- name: lock_removal
-- The write lock already keeps other vacuums out.
SELECT session FROM removal WHERE session = :session;

-- name: remove_rows
-- One batch of what a deleted session left behind; its branches become nobody's.
DELETE FROM hidden WHERE (session, branch, ordinal) IN (
    SELECT session, branch, ordinal FROM hidden WHERE session = :session LIMIT :limit)
RETURNING session;
DELETE FROM turn_commit WHERE (session, turn_id) IN (
    SELECT session, turn_id FROM turn_commit WHERE session = :session LIMIT :limit)
RETURNING session;
DELETE FROM usage WHERE (session, pair) IN (
    SELECT session, pair FROM usage WHERE session = :session LIMIT :limit)
RETURNING session;
DELETE FROM inherited WHERE (session, branch) IN (
    SELECT session, branch FROM inherited WHERE session = :session LIMIT :limit)
RETURNING session;
DELETE FROM work WHERE seq IN (
    SELECT seq FROM work WHERE session = :session AND settled_at_ms IS NULL LIMIT :limit)
RETURNING session;
DELETE FROM work WHERE seq IN (
    SELECT seq FROM work WHERE session = :session AND settled_at_ms IS NOT NULL LIMIT :limit)
RETURNING session;
DELETE FROM turn_input WHERE seq IN (
    SELECT seq FROM turn_input WHERE session = :session LIMIT :limit)
RETURNING session;
DELETE FROM attachment WHERE (session, attachment_id) IN (
    SELECT session, attachment_id FROM attachment WHERE session = :session LIMIT :limit)
RETURNING session;
UPDATE branch SET detached = 1 WHERE id IN (
    SELECT id FROM branch WHERE owner = :session AND detached = 0 LIMIT :limit)
RETURNING owner;

-- name: finish_removal
DELETE FROM removal WHERE session = :session;

-- name: detached_branches
SELECT id FROM branch WHERE detached = 1 AND id > :after ORDER BY id LIMIT :limit;

-- name: trim_branches
-- One batch of nodes of detached branches that nobody inherited.
DELETE FROM node WHERE key IN (
    SELECT n.key
      FROM json_each(:branches) j
      JOIN node n ON n.key BETWEEN (j.value << 28)
                   + coalesce((SELECT max(i.upto) FROM inherited i WHERE i.branch = j.value), 0)
                   AND (j.value << 28) + 268435455
     LIMIT :limit)
RETURNING key;

-- name: drop_branches
-- Detached branches without nodes that no path can lead through.
DELETE FROM branch
 WHERE id IN (SELECT value FROM json_each(:branches)) AND detached = 1
   AND NOT EXISTS (SELECT 1 FROM inherited i WHERE i.branch = branch.id)
   AND NOT EXISTS (SELECT 1 FROM node n WHERE n.key BETWEEN (branch.id << 28)
                                                AND (branch.id << 28) + 268435455)
RETURNING id;

-- name: prune_turn_commits
-- The newest `keep_latest` stamps of the session always stay, and those that prove the death of
-- an uncommitted intent's owner.
DELETE FROM turn_commit WHERE (session, turn_id) IN (
    SELECT t.session, t.turn_id FROM session s JOIN turn_commit t ON t.session = s.key
     WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)
       AND t.committed_at_ms < :older_than_ms
       AND t.head_revision < (SELECT min(k.head_revision) FROM (
               SELECT head_revision FROM turn_commit
                WHERE session = s.key ORDER BY head_revision DESC LIMIT :keep_latest) k)
       AND NOT EXISTS (SELECT 1 FROM attachment a
                        WHERE a.session = t.session AND a.committed_at_ms IS NULL
                          AND a.owner_kind = 'turn' AND a.owner_id <> t.turn_id
                          AND a.intent_revision < t.head_revision)
     LIMIT :limit)
RETURNING turn_id;
