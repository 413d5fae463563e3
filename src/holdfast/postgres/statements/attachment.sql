-- The manifest of attachments. What writes it stands behind enter_section.

-- name: record_intent
-- A refresh never takes back a commit.
INSERT INTO holdfast.attachment (session, attachment_id, intent_at_ms, intent_revision,
                                 owner_kind, owner_id)
SELECT s.key, %(attachment_id)s, coalesce(%(intent_at_ms)s, holdfast.now_ms(%(now_ms)s)),
       s.head_revision, %(owner_kind)s, %(owner_id)s
  FROM holdfast.session s
 WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
ON CONFLICT (session, attachment_id) DO UPDATE SET
    intent_at_ms = excluded.intent_at_ms, intent_revision = excluded.intent_revision,
    owner_kind = excluded.owner_kind, owner_id = excluded.owner_id;

-- name: stamp_attachments
-- The first stamp wins, and an id without a row stays without one. The union keeps each half on
-- its own index.
WITH target AS MATERIALIZED (
    SELECT s.key, holdfast.now_ms(%(now_ms)s) AS now_ms
      FROM holdfast.session s
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
), wanted AS (
    SELECT t.key, unnest(%(attachment_ids)s::text[]) AS attachment_id, t.now_ms FROM target t
     UNION
    SELECT t.key, a.attachment_id, t.now_ms
      FROM target t
      JOIN holdfast.attachment a ON a.session = t.key AND a.owner_kind = 'turn'
                                AND a.owner_id = %(turn_id)s AND a.committed_at_ms IS NULL
)
UPDATE holdfast.attachment a SET committed_at_ms = w.now_ms
  FROM wanted w
 WHERE a.session = w.key AND a.attachment_id = w.attachment_id AND a.committed_at_ms IS NULL;

-- name: forget_attachment
DELETE FROM holdfast.attachment
 WHERE session = (SELECT key FROM holdfast.session
                   WHERE id = %(session_id)s AND key = coalesce(%(bound_key)s, key))
   AND attachment_id = %(attachment_id)s;

-- name: copy_attachments
-- What a fork takes along is committed at once; what was there of the target stays older.
INSERT INTO holdfast.attachment AS b (session, attachment_id, intent_at_ms, intent_revision,
                                      committed_at_ms)
SELECT %(session)s, a.attachment_id, t.now_ms, 0, t.now_ms
  FROM (SELECT holdfast.now_ms(%(now_ms)s) AS now_ms) t
 CROSS JOIN (SELECT DISTINCT unnest(%(attachment_ids)s::text[]) AS id) j
  JOIN holdfast.attachment a ON a.session = %(source)s AND a.attachment_id = j.id
ON CONFLICT (session, attachment_id) DO UPDATE SET
    committed_at_ms = coalesce(b.committed_at_ms, excluded.committed_at_ms);

-- name: holds_attachment
SELECT s.key, EXISTS (SELECT 1 FROM holdfast.attachment a
                       WHERE a.session = s.key AND a.attachment_id = %(attachment_id)s) AS held
  FROM holdfast.session s WHERE s.id = %(session_id)s;

-- name: list_intents
SELECT s.id AS session_id, a.attachment_id, a.intent_at_ms, a.intent_revision,
       a.owner_kind, a.owner_id
  FROM holdfast.attachment a JOIN holdfast.session s ON s.key = a.session
 WHERE a.committed_at_ms IS NULL
   AND a.intent_at_ms >= %(after_at_ms)s AND a.intent_at_ms <= %(older_than_ms)s
   AND (a.intent_at_ms, s.id, a.attachment_id)
       > (%(after_at_ms)s, %(after_session)s, %(after)s)
 ORDER BY a.intent_at_ms, s.id, a.attachment_id LIMIT %(limit)s;

-- name: list_refs
SELECT DISTINCT a.attachment_id
  FROM holdfast.attachment a
 WHERE a.attachment_id > %(after)s
   AND EXISTS (SELECT 1 FROM holdfast.session s WHERE s.key = a.session)
 ORDER BY a.attachment_id LIMIT %(limit)s;

-- fragment: dead_owner
-- A process is looked up by itself: as NOT EXISTS the planner might read all of them first.
(a.owner_kind IS NULL
     OR a.owner_kind = 'turn'
        AND EXISTS (SELECT 1 FROM holdfast.turn_commit t
                     WHERE t.session = a.session AND t.head_revision > a.intent_revision
                       AND t.turn_id <> a.owner_id)
     OR a.owner_kind = 'process'
        AND (SELECT p.id FROM holdfast.process p WHERE p.id = a.owner_id) IS NULL)

-- name: live_attachments
-- Which of these ids some row keeps that may not be forgotten.
SELECT j.id AS attachment_id
  FROM unnest(%(attachment_ids)s::text[]) AS j (id)
 CROSS JOIN LATERAL (
       SELECT 1
         FROM holdfast.attachment a JOIN holdfast.session s ON s.key = a.session
        WHERE a.attachment_id = j.id
          AND (a.committed_at_ms IS NOT NULL OR a.intent_at_ms > %(cutoff_ms)s
               OR NOT {dead_owner})
        LIMIT 1) kept;

-- name: dead_intents
-- Sessions with aged intents whose owners are dead.
SELECT DISTINCT s.id
  FROM (SELECT a.session
          FROM holdfast.attachment a
         WHERE a.committed_at_ms IS NULL AND a.intent_at_ms <= %(cutoff_ms)s AND {dead_owner}
           AND EXISTS (SELECT 1 FROM holdfast.session s WHERE s.key = a.session)
         ORDER BY a.intent_at_ms LIMIT %(limit)s) f
  JOIN holdfast.session s ON s.key = f.session
 ORDER BY s.id;

-- name: forget_dead_intents
-- Judged again, in the section: an intent that was refreshed meanwhile stays.
DELETE FROM holdfast.attachment d USING (
    SELECT a.session, a.attachment_id
      FROM holdfast.session s JOIN holdfast.attachment a ON a.session = s.key
     WHERE s.id = %(session_id)s AND a.committed_at_ms IS NULL
       AND a.intent_at_ms <= %(cutoff_ms)s AND {dead_owner}
     LIMIT %(limit)s) t
 WHERE d.session = t.session AND d.attachment_id = t.attachment_id
RETURNING d.attachment_id;

-- name: read_clock
SELECT holdfast.now_ms(%(now_ms)s) AS now_ms;

-- name: name_store
-- The first one to ask gives the name.
INSERT INTO holdfast.store_name (one, id) VALUES (1, replace(gen_random_uuid()::text, '-', ''))
ON CONFLICT (one) DO UPDATE SET one = 1
RETURNING id;
