-- The manifest of attachments. What writes it stands behind enter_section.

-- name: record_intent
-- A refresh never takes back a commit.
INSERT INTO attachment (session, attachment_id, intent_at_ms, intent_revision,
                        owner_kind, owner_id)
SELECT s.key, :attachment_id, coalesce(:intent_at_ms, :now_ms), s.head_revision,
       :owner_kind, :owner_id
  FROM session s WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key)
ON CONFLICT (session, attachment_id) DO UPDATE SET
    intent_at_ms = excluded.intent_at_ms, intent_revision = excluded.intent_revision,
    owner_kind = excluded.owner_kind, owner_id = excluded.owner_id;

-- name: stamp_attachments
-- The first stamp wins, and an id without a row stays without one. Named ids are found by the key,
-- what the turn owns by its index; the plus keeps the planner from taking that for both.
UPDATE attachment SET committed_at_ms = :now_ms
 WHERE session = {attaching} AND attachment_id IN (SELECT value FROM json_each(:attachment_ids))
   AND +committed_at_ms IS NULL;
UPDATE attachment SET committed_at_ms = :now_ms
 WHERE session = {attaching} AND owner_kind = 'turn' AND owner_id = :turn_id
   AND committed_at_ms IS NULL;

-- fragment: attaching
(SELECT key FROM session WHERE id = :session_id AND key = coalesce(:bound_key, key))

-- name: forget_attachment
DELETE FROM attachment WHERE session = {attaching} AND attachment_id = :attachment_id;

-- name: copy_attachments
-- What a fork takes along is committed at once; what was there of the target stays older.
INSERT INTO attachment (session, attachment_id, intent_at_ms, intent_revision, committed_at_ms)
SELECT :session, a.attachment_id, :now_ms, 0, :now_ms
  FROM json_each(:attachment_ids) j
  JOIN attachment a ON a.session = :source AND a.attachment_id = j.value
 WHERE true
ON CONFLICT (session, attachment_id) DO UPDATE SET
    committed_at_ms = coalesce(attachment.committed_at_ms, excluded.committed_at_ms);

-- name: holds_attachment
SELECT s.key, EXISTS (SELECT 1 FROM attachment a
                       WHERE a.session = s.key AND a.attachment_id = :attachment_id) AS held
  FROM session s WHERE s.id = :session_id;

-- name: list_intents
SELECT s.id AS session_id, a.attachment_id, a.intent_at_ms, a.intent_revision,
       a.owner_kind, a.owner_id
  FROM attachment a JOIN session s ON s.key = a.session
 WHERE a.committed_at_ms IS NULL
   AND a.intent_at_ms >= :after_at_ms AND a.intent_at_ms <= :older_than_ms
   AND (a.intent_at_ms, s.id, a.attachment_id) > (:after_at_ms, :after_session, :after)
 ORDER BY a.intent_at_ms, s.id, a.attachment_id LIMIT :limit;

-- name: list_refs
SELECT DISTINCT a.attachment_id
  FROM attachment a
 WHERE a.attachment_id > :after AND EXISTS (SELECT 1 FROM session s WHERE s.key = a.session)
 ORDER BY a.attachment_id LIMIT :limit;

-- fragment: dead_owner
(a.owner_kind IS NULL
     OR a.owner_kind = 'turn'
        AND EXISTS (SELECT 1 FROM turn_commit t
                     WHERE t.session = a.session AND t.head_revision > a.intent_revision
                       AND t.turn_id <> a.owner_id)
     OR a.owner_kind = 'process'
        AND NOT EXISTS (SELECT 1 FROM process p WHERE p.id = a.owner_id))

-- name: live_attachments
-- Which of these ids some row keeps that may not be forgotten.
SELECT j.value AS attachment_id
  FROM json_each(:attachment_ids) j
 WHERE EXISTS (SELECT 1
                 FROM attachment a CROSS JOIN session s ON s.key = a.session
                WHERE a.attachment_id = j.value
                  AND (a.committed_at_ms IS NOT NULL OR a.intent_at_ms > :cutoff_ms
                       OR NOT {dead_owner}));

-- name: dead_intents
-- Sessions with aged intents whose owners are dead.
SELECT DISTINCT s.id
  FROM (SELECT a.session
          FROM attachment a
         WHERE a.committed_at_ms IS NULL AND a.intent_at_ms <= :cutoff_ms AND {dead_owner}
           AND EXISTS (SELECT 1 FROM session s WHERE s.key = a.session)
         ORDER BY a.intent_at_ms LIMIT :limit) f
  JOIN session s ON s.key = f.session
 ORDER BY s.id;

-- name: forget_dead_intents
-- Judged again, in the section: an intent that was refreshed meanwhile stays.
DELETE FROM attachment WHERE (session, attachment_id) IN (
    SELECT a.session, a.attachment_id
      FROM session s JOIN attachment a ON a.session = s.key
     WHERE s.id = :session_id AND a.committed_at_ms IS NULL
       AND a.intent_at_ms <= :cutoff_ms AND {dead_owner}
     LIMIT :limit)
RETURNING attachment_id;

-- name: read_clock
SELECT :now_ms AS now_ms;

-- name: name_store
-- The first one to ask gives the name.
INSERT INTO store_name (one, id) VALUES (1, lower(hex(randomblob(16))))
ON CONFLICT (one) DO UPDATE SET one = 1
RETURNING id;
