-- Blobs, who refers to them, and their collection.

-- name: share_blob_guard
-- The write lock already keeps the collector out.
SELECT 1 AS guarded;

-- name: take_blob_guard
SELECT 1 AS guarded;

-- name: present_blobs
SELECT b.ref FROM json_each(:refs) j JOIN blob b ON b.ref = j.value;

-- name: insert_blobs
-- bulk: ref, kind, codec, raw_len, stored_len, stored_at_ms, body
-- The first descriptor and encoding of equal content stay.
INSERT INTO blob (ref, kind, codec, raw_len, stored_len, stored_at_ms, body) VALUES :rows
ON CONFLICT (ref) DO NOTHING;

-- name: put_blob
-- Known content keeps what it has and gets a new grace period: its caller is about to refer to it.
INSERT INTO blob (ref, kind, codec, raw_len, stored_len, stored_at_ms, body)
VALUES (:ref, :kind, :codec, :raw_len, :stored_len, :now_ms, :body)
ON CONFLICT (ref) DO UPDATE SET stored_at_ms = max(stored_at_ms, excluded.stored_at_ms);

-- name: read_blob
SELECT ref, codec, raw_len, body FROM blob WHERE ref = :ref;

-- name: has_blob
SELECT 1 AS present FROM blob WHERE ref = :ref;

-- name: read_checkpoint
-- Every ref of the head's checkpoint; bodies of the manifest and of the roles asked for.
SELECT r.slot, r.ref, b.ref IS NOT NULL AS present, b.codec, b.raw_len,
       CASE WHEN r.slot = 'checkpoint' OR :all_roles
              OR r.slot IN (SELECT 'component:' || value FROM json_each(:roles)) THEN b.body END
           AS body
  FROM session s
  JOIN blob_ref r ON r.session = s.key AND r.slot NOT LIKE 'frame:%'
  LEFT JOIN blob b ON b.ref = r.ref
 WHERE s.id = :session_id ORDER BY r.slot;

-- name: put_artifact
INSERT INTO artifact (namespace, name, ref) VALUES (:namespace, :name, :ref)
ON CONFLICT (namespace, name) DO UPDATE SET ref = excluded.ref;

-- name: read_artifact
SELECT a.ref, b.ref IS NOT NULL AS present, b.codec, b.raw_len, b.body
  FROM artifact a LEFT JOIN blob b ON b.ref = a.ref
 WHERE a.namespace = :namespace AND a.name = :name;

-- name: delete_artifact
DELETE FROM artifact WHERE namespace = :namespace AND name = :name RETURNING ref;

-- name: list_artifacts
SELECT name, ref FROM artifact
 WHERE namespace = :namespace AND name > :after ORDER BY name LIMIT :limit;

-- fragment: roots
SELECT ref FROM blob_ref WHERE slot = 'checkpoint' OR slot LIKE 'frame:%'
         UNION SELECT ref FROM artifact

-- fragment: reachable
(EXISTS (SELECT 1 FROM blob_ref r WHERE r.ref = b.ref)
     OR EXISTS (SELECT 1 FROM artifact a WHERE a.ref = b.ref))

-- name: damaged_root
-- A live root whose row contradicts itself: its bytes cannot be what was stored.
SELECT b.ref, b.codec, b.raw_len, length(b.body) AS found
  FROM ({roots}) t JOIN blob b ON b.ref = t.ref
 WHERE b.codec NOT IN (0, 1) OR length(b.body) <> b.stored_len
    OR b.raw_len < 0 OR b.codec = 0 AND b.raw_len <> b.stored_len
 LIMIT 1;

-- name: count_roots
SELECT count(*) AS roots, count(*) - count(b.ref) AS missing
  FROM ({roots}) t LEFT JOIN blob b ON b.ref = t.ref;

-- name: blob_window
-- The end of the next stretch of `limit` blobs, and how many of them are referred to.
SELECT max(b.key) AS upto, coalesce(sum({reachable}), 0) AS retained
  FROM (SELECT key, ref FROM blob WHERE key > :after ORDER BY key LIMIT :limit) b;

-- name: collect_blobs
DELETE FROM blob AS b
 WHERE b.key > :after AND b.key <= :upto AND b.stored_at_ms <= :now_ms - :grace_ms
   AND NOT {reachable}
RETURNING stored_len;
