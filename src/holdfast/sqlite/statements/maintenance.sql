-- Levers: bounded transactions that a host asks for.

-- name: vacuum_hidden
-- One batch of tombstoned (gone = 0) or formerly shared (gone = 1) nodes: the rows of those that
-- no other session inherited are removed, all of the batch is gone for this session.
DELETE FROM node WHERE key IN (
    SELECT (h.branch << 28) + h.ordinal FROM ({vacuum_batch}) h WHERE {unshared});
UPDATE hidden AS h SET gone = 1 + {unshared}
 WHERE (session, branch, ordinal) IN ({vacuum_batch})
RETURNING ordinal;

-- fragment: vacuum_batch
SELECT h.session, h.branch, h.ordinal FROM hidden h
          WHERE h.session = (SELECT key FROM session
                              WHERE id = :session_id AND key = coalesce(:bound_key, key))
            AND h.gone = :gone
            AND (h.gone = 0 OR {unshared})
          ORDER BY h.branch, h.ordinal LIMIT :limit

-- fragment: unshared
(EXISTS (SELECT 1 FROM branch b WHERE b.id = h.branch AND b.owner = h.session)
             AND h.ordinal >= coalesce((SELECT max(i.upto) FROM inherited i
                                         WHERE i.branch = h.branch), 0))

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
