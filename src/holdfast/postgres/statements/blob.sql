-- Blobs, who refers to them, and their collection.

-- name: share_blob_guard
-- Writers of references share it, a batch of the collector takes it alone. A row lock on a carried
-- blob would not do: a collector that waited for it deletes all the same. The sequence's oid
-- stands for the schema.
SELECT pg_advisory_xact_lock_shared((SELECT tableoid::bigint FROM holdfast.blob_key_seq));

-- name: take_blob_guard
SELECT pg_advisory_xact_lock((SELECT tableoid::bigint FROM holdfast.blob_key_seq));

-- name: present_blobs
SELECT ref FROM holdfast.blob WHERE ref = ANY (%(refs)s::text[]);

-- name: insert_blobs
-- bulk: ref, kind, codec, raw_len, stored_len, stored_at_ms, body
-- The first descriptor and encoding of equal content stay. Rows come in order of their refs, so
-- that two commits never wait for each other crosswise.
INSERT INTO holdfast.blob (ref, kind, codec, raw_len, stored_len, stored_at_ms, body)
SELECT * FROM unnest(
    %(ref)s::text[], %(kind)s::text[], %(codec)s::bigint[], %(raw_len)s::bigint[],
    %(stored_len)s::bigint[], %(stored_at_ms)s::bigint[], %(body)s::bytea[])
ON CONFLICT (ref) DO NOTHING;

-- name: put_blob
-- Known content keeps what it has and gets a new grace period: its caller is about to refer to it.
INSERT INTO holdfast.blob AS b (ref, kind, codec, raw_len, stored_len, stored_at_ms, body)
VALUES (%(ref)s, %(kind)s, %(codec)s, %(raw_len)s, %(stored_len)s, holdfast.now_ms(%(now_ms)s),
        %(body)s)
ON CONFLICT (ref) DO UPDATE SET stored_at_ms = greatest(b.stored_at_ms, excluded.stored_at_ms);

-- name: read_blob
SELECT ref, codec, raw_len, body FROM holdfast.blob WHERE ref = %(ref)s;

-- name: has_blob
SELECT 1 AS present FROM holdfast.blob WHERE ref = %(ref)s;

-- name: read_checkpoint
-- Every ref of the head's checkpoint; bodies of the manifest and of the roles asked for.
SELECT r.slot, r.ref, b.ref IS NOT NULL AS present, b.codec, b.raw_len,
       CASE WHEN r.slot = 'checkpoint' OR %(all_roles)s
              OR r.slot = ANY (SELECT 'component:' || role
                                 FROM unnest(%(roles)s::text[]) AS wanted (role)) THEN b.body END
           AS body
  FROM holdfast.session s
  JOIN holdfast.blob_ref r ON r.session = s.key AND r.slot NOT LIKE 'frame:%'
  LEFT JOIN holdfast.blob b ON b.ref = r.ref
 WHERE s.id = %(session_id)s ORDER BY r.slot;

-- name: put_artifact
INSERT INTO holdfast.artifact (namespace, name, ref)
VALUES (%(namespace)s, %(name)s, %(ref)s)
ON CONFLICT (namespace, name) DO UPDATE SET ref = excluded.ref;

-- name: read_artifact
SELECT a.ref, b.ref IS NOT NULL AS present, b.codec, b.raw_len, b.body
  FROM holdfast.artifact a LEFT JOIN holdfast.blob b ON b.ref = a.ref
 WHERE a.namespace = %(namespace)s AND a.name = %(name)s;

-- name: delete_artifact
DELETE FROM holdfast.artifact
 WHERE namespace = %(namespace)s AND name = %(name)s RETURNING ref;

-- name: list_artifacts
SELECT name, ref FROM holdfast.artifact
 WHERE namespace = %(namespace)s AND name > %(after)s ORDER BY name LIMIT %(limit)s;

-- fragment: roots
SELECT ref FROM holdfast.blob_ref WHERE slot = 'checkpoint' OR slot LIKE 'frame:%'
         UNION SELECT ref FROM holdfast.artifact

-- fragment: reachable
(EXISTS (SELECT 1 FROM holdfast.blob_ref r WHERE r.ref = b.ref)
     OR EXISTS (SELECT 1 FROM holdfast.artifact a WHERE a.ref = b.ref))

-- name: damaged_root
-- A live root whose row contradicts itself: its bytes cannot be what was stored. The length of
-- external bytes is known without fetching them.
SELECT b.ref, b.codec, b.raw_len, octet_length(b.body) AS found
  FROM ({roots}) t JOIN holdfast.blob b ON b.ref = t.ref
 WHERE b.codec NOT IN (0, 1) OR octet_length(b.body) <> b.stored_len
    OR b.raw_len < 0 OR b.codec = 0 AND b.raw_len <> b.stored_len
 LIMIT 1;

-- name: count_roots
SELECT count(*) AS roots, count(*) - count(b.ref) AS missing
  FROM ({roots}) t LEFT JOIN holdfast.blob b ON b.ref = t.ref;

-- name: blob_window
-- The end of the next stretch of `limit` blobs, and how many of them are referred to.
SELECT max(b.key) AS upto, count(*) FILTER (WHERE {reachable}) AS retained
  FROM (SELECT key, ref FROM holdfast.blob
         WHERE key > %(after)s ORDER BY key LIMIT %(limit)s) b;

-- name: collect_blobs
-- Behind take_blob_guard, so that every reference made before is seen.
DELETE FROM holdfast.blob AS b
 WHERE b.key > %(after)s AND b.key <= %(upto)s
   AND b.stored_at_ms <= holdfast.now_ms(%(now_ms)s) - %(grace_ms)s
   AND NOT {reachable}
RETURNING b.stored_len;
