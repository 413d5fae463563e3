-- Sessions as such: entering the section, metadata, deletion.

-- name: enter_section
-- The write lock taken by BEGIN IMMEDIATE is the section; this makes and reads the row.
INSERT INTO session (id)
SELECT :session_id WHERE :create AND NOT EXISTS (SELECT 1 FROM session WHERE id = :session_id);
SELECT s.*, :now_ms AS now_ms FROM session s WHERE s.id = :session_id;

-- name: read_known
SELECT s.id FROM session s JOIN session_meta m ON m.session = s.key WHERE s.id = :session_id;

-- name: create_session
-- Insert-if-absent: the first creator's record stays, whoever else asks.
INSERT INTO session (id)
SELECT :session_id WHERE NOT EXISTS (SELECT 1 FROM session WHERE id = :session_id);
INSERT INTO session_meta (session, session_name, created_at_ms, model, cwd,
                          relation, relation_kind, parent_session_id)
SELECT s.key, :session_name, coalesce(:created_at_ms, :now_ms), :model, :cwd,
       :relation, :relation_kind, :parent_session_id
  FROM session s
 WHERE s.id = :session_id AND NOT EXISTS (SELECT 1 FROM session_meta m WHERE m.session = s.key);
INSERT INTO label (session, name, value)
SELECT s.key, n.value, v.value
  FROM session s, json_each(:label_names) n JOIN json_each(:label_values) v ON v.key = n.key
 WHERE s.id = :session_id AND NOT EXISTS (SELECT 1 FROM listing l WHERE l.session = s.key);
INSERT INTO listing (session, id, scope, activity_us, updated_at_ms)
SELECT s.key, s.id, :scope, coalesce(:activity_us, :now_ms * 1000), :now_ms
  FROM session s
 WHERE s.id = :session_id AND NOT EXISTS (SELECT 1 FROM listing l WHERE l.session = s.key);
SELECT key FROM session WHERE id = :session_id;

-- name: save_meta
-- Behind enter_section, which made the row if need be.
INSERT OR REPLACE INTO session_meta (session, session_name, created_at_ms, model, cwd,
                                     relation, relation_kind, parent_session_id)
SELECT s.key, :session_name, :created_at_ms, :model, :cwd,
       :relation, :relation_kind, :parent_session_id
  FROM session s WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key);
DELETE FROM label WHERE session = (SELECT key FROM session
                                    WHERE id = :session_id AND key = coalesce(:bound_key, key));
INSERT INTO label (session, name, value)
SELECT s.key, n.value, v.value
  FROM session s, json_each(:label_names) n JOIN json_each(:label_values) v ON v.key = n.key
 WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key);
INSERT OR REPLACE INTO listing (session, id, scope, activity_us, updated_at_ms)
SELECT s.key, s.id, :scope, coalesce(:activity_us, :now_ms * 1000), :now_ms
  FROM session s WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key);
SELECT key FROM session WHERE id = :session_id AND key = coalesce(:bound_key, key);

-- name: write_labels
-- Refused as a whole when too many labels would be left; the count says so.
DELETE FROM label
 WHERE session = {target}
   AND name IN (SELECT value FROM json_each(:remove)
                 UNION ALL SELECT value FROM json_each(:label_names))
   AND {labels_left} <= :maximum;
INSERT INTO label (session, name, value)
SELECT l.session, n.value, v.value
  FROM listing l, json_each(:label_names) n JOIN json_each(:label_values) v ON v.key = n.key
 WHERE l.session = {target} AND {labels_left} <= :maximum;
UPDATE listing
   SET updated_at_ms = :now_ms, activity_us = :now_ms * 1000
 WHERE session = {target} AND {labels_left} <= :maximum;
SELECT {labels_left} AS count, {labels} AS labels
  FROM session s JOIN session_meta m ON m.session = s.key WHERE s.key = {target};

-- fragment: target
(SELECT key FROM session WHERE id = :session_id AND key = coalesce(:bound_key, key))

-- fragment: labels_left
(SELECT count(*) FROM (
        SELECT name FROM label
         WHERE session = {target} AND name NOT IN (SELECT value FROM json_each(:remove))
         UNION SELECT value FROM json_each(:label_names)))

-- fragment: labels
(SELECT json_group_object(lb.name, lb.value) FROM label lb WHERE lb.session = s.key)

-- name: read_meta
SELECT s.key, s.id, m.session_name, m.created_at_ms, l.updated_at_ms, m.model, m.cwd, m.relation,
       l.scope, l.activity_us, {labels} AS labels, m.session IS NOT NULL AS known
  FROM session s
  LEFT JOIN session_meta m ON m.session = s.key
  LEFT JOIN listing l ON l.session = s.key
 WHERE s.id = :session_id;

-- name: insert_meta
-- The metadata a first commit or a fork brings along; `at_ms` is when it entered the section.
INSERT INTO session_meta (session, session_name, created_at_ms, model, cwd,
                          relation, relation_kind, parent_session_id)
VALUES (:session, :session_name, coalesce(:created_at_ms, :at_ms), :model, :cwd,
        :relation, :relation_kind, :parent_session_id);
INSERT INTO listing (session, id, scope, activity_us, updated_at_ms)
VALUES (:session, :session_id, :scope, coalesce(:activity_us, :at_ms * 1000), :at_ms);
INSERT INTO label (session, name, value)
SELECT :session, n.value, v.value
  FROM json_each(:label_names) n JOIN json_each(:label_values) v ON v.key = n.key;

-- name: touch_listing
UPDATE listing
   SET updated_at_ms = :at_ms, activity_us = coalesce(:activity_us, :at_ms * 1000)
 WHERE session = :session;

-- name: family
-- The session and, where asked for, every session below it by child relations. CROSS JOIN keeps
-- the order: the planner would rather walk all sessions, which are sorted already.
WITH RECURSIVE below (id) AS (
    SELECT :session_id
     UNION
    SELECT s.id
      FROM below
      CROSS JOIN session_meta m ON m.parent_session_id = below.id AND m.relation_kind = 'child'
      CROSS JOIN session s ON s.key = m.session
     WHERE :with_children
)
SELECT s.id
  FROM below CROSS JOIN session s ON s.id = below.id
 ORDER BY s.id LIMIT :limit;

-- name: enter_sections
SELECT s.*, :now_ms AS now_ms
  FROM session s WHERE s.id IN (SELECT value FROM json_each(:session_ids)) ORDER BY s.id;

-- name: delete_sessions
-- What a listing, a lookup or the collector could still find goes at once; rows that nothing
-- can reach without the session's row are left to vacuum (FAC-10). Work for later goes at once too:
-- whoever asks when there will be more to do would meet it until its time has come.
DELETE FROM session WHERE key IN (SELECT value FROM json_each(:sessions));
DELETE FROM session_meta WHERE session IN (SELECT value FROM json_each(:sessions));
DELETE FROM listing WHERE session IN (SELECT value FROM json_each(:sessions));
DELETE FROM label WHERE session IN (SELECT value FROM json_each(:sessions));
DELETE FROM readiness WHERE session IN (SELECT value FROM json_each(:sessions));
DELETE FROM work
 WHERE session IN (SELECT value FROM json_each(:sessions))
   AND settled_at_ms IS NULL AND available_at_ms > enqueued_at_ms;
DELETE FROM head_state WHERE session IN (SELECT value FROM json_each(:sessions));
DELETE FROM blob_ref WHERE session IN (SELECT value FROM json_each(:sessions));
INSERT INTO removal (session) SELECT value FROM json_each(:sessions);
