-- Sessions as such: entering the section, metadata, deletion.

-- fragment: session_columns
-- One by one: a column that a newer library adds must not change what a prepared statement returns.
s.key, s.id, s.generation, s.owner_id, s.incarnation_id, s.liveness, s.token, s.claimed_at_ms,
       s.expires_at_ms, s.displaced, s.head_revision, s.head_tag, s.branch, s.length, s.leaf_id,
       s.checkpoint_ref, s.node_count, s.next_sequence, s.user_message_count,
       s.first_user_sequence, s.first_user_message

-- name: enter_section
-- Lock, then look: the row's lock is the section, and the clock is read once it is held. A row
-- made here is locked by having been made; no row at all means that somebody else is making it.
WITH old AS MATERIALIZED (
    SELECT * FROM holdfast.session WHERE id = %(session_id)s FOR NO KEY UPDATE
), made AS (
    INSERT INTO holdfast.session (id)
    SELECT %(session_id)s WHERE %(create)s AND NOT EXISTS (SELECT 1 FROM old)
    ON CONFLICT (id) DO NOTHING
    RETURNING *
)
SELECT {session_columns}, holdfast.now_ms(%(now_ms)s) AS now_ms
  FROM (SELECT * FROM old UNION ALL SELECT * FROM made) s;

-- name: read_known
-- A statement of its own behind enter_section, whose snapshot is older than the lock it waited
-- for: who made the session known meanwhile would not be seen there.
SELECT s.id FROM holdfast.session s JOIN holdfast.session_meta m ON m.session = s.key
 WHERE s.id = %(session_id)s;

-- name: create_session
-- Insert-if-absent: the first creator's record stays, whoever else asks.
WITH old AS MATERIALIZED (
    SELECT key, id FROM holdfast.session WHERE id = %(session_id)s FOR NO KEY UPDATE
), made AS (
    INSERT INTO holdfast.session (id)
    SELECT %(session_id)s WHERE NOT EXISTS (SELECT 1 FROM old)
    ON CONFLICT (id) DO NOTHING
    RETURNING key, id
), entered AS MATERIALIZED (
    SELECT s.key, s.id, holdfast.now_ms(%(now_ms)s) AS now_ms
      FROM (SELECT * FROM old UNION ALL SELECT * FROM made) s
), described AS (
    INSERT INTO holdfast.session_meta (session, session_name, created_at_ms, model, cwd,
                                       relation, relation_kind, parent_session_id)
    SELECT e.key, %(session_name)s, coalesce(%(created_at_ms)s, e.now_ms), %(model)s, %(cwd)s,
           %(relation)s, %(relation_kind)s, %(parent_session_id)s
      FROM entered e
    ON CONFLICT (session) DO NOTHING
    RETURNING session
), labelled AS (
    INSERT INTO holdfast.label (session, name, value)
    SELECT d.session, l.name, l.value
      FROM described d,
           unnest(%(label_names)s::text[], %(label_values)s::text[]) AS l (name, value)
    ON CONFLICT (session, name) DO NOTHING
), listed AS (
    INSERT INTO holdfast.listing (session, id, scope, activity_us, updated_at_ms)
    SELECT d.session, e.id, %(scope)s, coalesce(%(activity_us)s, e.now_ms * 1000), e.now_ms
      FROM described d JOIN entered e ON e.key = d.session
    ON CONFLICT (session) DO NOTHING
)
SELECT key FROM entered;

-- name: save_meta
-- Behind enter_section, which made the row if need be, so that labels set meanwhile are seen.
WITH entered AS MATERIALIZED (
    SELECT s.key, s.id, holdfast.now_ms(%(now_ms)s) AS now_ms
      FROM holdfast.session s
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
), described AS (
    INSERT INTO holdfast.session_meta (session, session_name, created_at_ms, model, cwd,
                                       relation, relation_kind, parent_session_id)
    SELECT e.key, %(session_name)s, %(created_at_ms)s, %(model)s, %(cwd)s,
           %(relation)s, %(relation_kind)s, %(parent_session_id)s
      FROM entered e
    ON CONFLICT (session) DO UPDATE SET
        session_name = excluded.session_name, created_at_ms = excluded.created_at_ms,
        model = excluded.model, cwd = excluded.cwd, relation = excluded.relation,
        relation_kind = excluded.relation_kind, parent_session_id = excluded.parent_session_id
), unlabelled AS (
    DELETE FROM holdfast.label l USING entered e
     WHERE l.session = e.key AND l.name <> ALL (%(label_names)s::text[])
), labelled AS (
    INSERT INTO holdfast.label (session, name, value)
    SELECT e.key, l.name, l.value
      FROM entered e,
           unnest(%(label_names)s::text[], %(label_values)s::text[]) AS l (name, value)
    ON CONFLICT (session, name) DO UPDATE SET value = excluded.value
), listed AS (
    INSERT INTO holdfast.listing (session, id, scope, activity_us, updated_at_ms)
    SELECT e.key, e.id, %(scope)s, coalesce(%(activity_us)s, e.now_ms * 1000), e.now_ms
      FROM entered e
    ON CONFLICT (session) DO UPDATE SET
        scope = excluded.scope, activity_us = excluded.activity_us,
        updated_at_ms = excluded.updated_at_ms
)
SELECT key FROM entered;

-- name: write_labels
-- Behind enter_section. Refused as a whole when too many labels would be left; the count says so.
WITH target AS MATERIALIZED (
    SELECT l.session, (SELECT count(*) FROM (
                           SELECT name FROM holdfast.label
                            WHERE session = l.session AND name <> ALL (%(remove)s::text[])
                           UNION SELECT unnest(%(label_names)s::text[])) left_over) AS count,
           holdfast.now_ms(%(now_ms)s) AS now_ms
      FROM holdfast.session s JOIN holdfast.listing l ON l.session = s.key
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
), unlabelled AS (
    DELETE FROM holdfast.label l USING target t
     WHERE l.session = t.session AND t.count <= %(maximum)s
       AND l.name = ANY (%(remove)s::text[]) AND l.name <> ALL (%(label_names)s::text[])
), labelled AS (
    INSERT INTO holdfast.label (session, name, value)
    SELECT t.session, l.name, l.value
      FROM target t,
           unnest(%(label_names)s::text[], %(label_values)s::text[]) AS l (name, value)
     WHERE t.count <= %(maximum)s
    ON CONFLICT (session, name) DO UPDATE SET value = excluded.value
), touched AS (
    UPDATE holdfast.listing l SET updated_at_ms = t.now_ms, activity_us = t.now_ms * 1000
      FROM target t WHERE l.session = t.session AND t.count <= %(maximum)s
)
SELECT t.count,
       (SELECT json_object_agg(name, value)::text FROM (
            SELECT name, value FROM holdfast.label
             WHERE session = t.session AND name <> ALL (%(remove)s::text[])
               AND name <> ALL (%(label_names)s::text[])
            UNION ALL
            SELECT * FROM unnest(%(label_names)s::text[], %(label_values)s::text[])) kept
            (name, value)) AS labels
  FROM target t;

-- fragment: labels
(SELECT json_object_agg(lb.name, lb.value)::text FROM holdfast.label lb WHERE lb.session = s.key)

-- name: read_meta
SELECT s.key, s.id, m.session_name, m.created_at_ms, l.updated_at_ms, m.model, m.cwd, m.relation,
       l.scope, l.activity_us, {labels} AS labels, m.session IS NOT NULL AS known
  FROM holdfast.session s
  LEFT JOIN holdfast.session_meta m ON m.session = s.key
  LEFT JOIN holdfast.listing l ON l.session = s.key
 WHERE s.id = %(session_id)s;

-- name: insert_meta
-- The metadata a first commit or a fork brings along; `at_ms` is when it entered the section.
WITH described AS (
    INSERT INTO holdfast.session_meta (session, session_name, created_at_ms, model, cwd,
                                       relation, relation_kind, parent_session_id)
    VALUES (%(session)s, %(session_name)s, coalesce(%(created_at_ms)s, %(at_ms)s), %(model)s,
            %(cwd)s, %(relation)s, %(relation_kind)s, %(parent_session_id)s)
), listed AS (
    INSERT INTO holdfast.listing (session, id, scope, activity_us, updated_at_ms)
    VALUES (%(session)s, %(session_id)s, %(scope)s, coalesce(%(activity_us)s, %(at_ms)s * 1000),
            %(at_ms)s)
)
INSERT INTO holdfast.label (session, name, value)
SELECT %(session)s, l.name, l.value
  FROM unnest(%(label_names)s::text[], %(label_values)s::text[]) AS l (name, value);

-- name: touch_listing
UPDATE holdfast.listing
   SET updated_at_ms = %(at_ms)s, activity_us = coalesce(%(activity_us)s, %(at_ms)s * 1000)
 WHERE session = %(session)s;

-- name: family
-- The session and, where asked for, every session below it by child relations.
WITH RECURSIVE below (id) AS (
    SELECT %(session_id)s::text COLLATE "C"
     UNION
    SELECT s.id
      FROM below
      JOIN holdfast.session_meta m
        ON m.parent_session_id = below.id AND m.relation_kind = 'child'
      JOIN holdfast.session s ON s.key = m.session
     WHERE %(with_children)s
)
SELECT s.id
  FROM below JOIN holdfast.session s ON s.id = below.id
 ORDER BY s.id LIMIT %(limit)s;

-- name: enter_sections
-- The full lock, which only deletion takes, in id order.
WITH locked AS MATERIALIZED (
    SELECT * FROM holdfast.session
     WHERE id = ANY (%(session_ids)s::text[]) ORDER BY id FOR UPDATE
)
SELECT {session_columns}, holdfast.now_ms(%(now_ms)s) AS now_ms
  FROM locked s ORDER BY s.id;

-- name: delete_sessions
-- What a listing, a lookup or the collector could still find goes at once; rows that nothing
-- can reach without the session's row are left to vacuum (FAC-10). Work for later goes at once too:
-- whoever asks when there will be more to do would meet it until its time has come.
WITH gone AS (
    DELETE FROM holdfast.session WHERE key = ANY (%(sessions)s::bigint[])
), undescribed AS (
    DELETE FROM holdfast.session_meta WHERE session = ANY (%(sessions)s::bigint[])
), unlisted AS (
    DELETE FROM holdfast.listing WHERE session = ANY (%(sessions)s::bigint[])
), unlabelled AS (
    DELETE FROM holdfast.label WHERE session = ANY (%(sessions)s::bigint[])
), unready AS (
    DELETE FROM holdfast.readiness WHERE session = ANY (%(sessions)s::bigint[])
), unplanned AS (
    DELETE FROM holdfast.work
     WHERE session = ANY (%(sessions)s::bigint[])
       AND settled_at_ms IS NULL AND available_at_ms > enqueued_at_ms
), stateless AS (
    DELETE FROM holdfast.head_state WHERE session = ANY (%(sessions)s::bigint[])
), unreferenced AS (
    DELETE FROM holdfast.blob_ref WHERE session = ANY (%(sessions)s::bigint[])
)
INSERT INTO holdfast.removal (session) SELECT unnest(%(sessions)s::bigint[]);
