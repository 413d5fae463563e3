-- Bytes of attachments that the database keeps: staged in chunks, then given their id.

-- name: stage_bytes
INSERT INTO holdfast.attachment_staging (touched_at_ms) VALUES (holdfast.now_ms(%(now_ms)s))
RETURNING key;

-- name: write_chunk
-- Nothing for a staging that was swept meanwhile: the row's lock says which came first.
WITH touched AS (
    UPDATE holdfast.attachment_staging
       SET byte_len = byte_len + octet_length(%(body)s::bytea),
           touched_at_ms = greatest(touched_at_ms, holdfast.now_ms(%(now_ms)s))
     WHERE key = %(staging)s AND open = 1
    RETURNING key
)
INSERT INTO holdfast.attachment_chunk (chunks, number, body)
SELECT key, %(number)s, %(body)s::bytea FROM touched
RETURNING chunks AS key;

-- name: publish_bytes
-- The staging is taken (open = 2) until it is settled what becomes of it, in the same transaction.
-- Bytes that are there already are locked, and are as if written now.
WITH staged AS (
    UPDATE holdfast.attachment_staging SET open = 2
     WHERE key = %(staging)s AND open = 1
    RETURNING key, byte_len
)
INSERT INTO holdfast.attachment_bytes AS b (id, chunks, byte_len, modified_at_ms)
SELECT %(id)s, key, byte_len, holdfast.now_ms(%(now_ms)s) FROM staged
ON CONFLICT (id) DO UPDATE SET
    modified_at_ms = greatest(b.modified_at_ms, excluded.modified_at_ms)
RETURNING chunks AS key;

-- name: replace_chunks
-- What was there already may have been damaged since: what came in now takes its place, and the
-- chunks that were there that of the staging, to be removed.
WITH old AS (
    SELECT b.id, b.chunks, s.byte_len
      FROM holdfast.attachment_bytes b
      JOIN holdfast.attachment_staging s ON s.key = %(staging)s AND s.open = 2
     WHERE b.id = %(id)s AND b.chunks <> %(staging)s
), swapped AS (
    UPDATE holdfast.attachment_bytes b SET chunks = %(staging)s, byte_len = old.byte_len
      FROM old WHERE b.id = old.id
)
UPDATE holdfast.attachment_staging s SET open = 0, key = old.chunks
  FROM old WHERE s.key = %(staging)s
RETURNING s.key;

-- name: clear_staging
-- What has its id now is no staging.
DELETE FROM holdfast.attachment_staging WHERE key = %(staging)s AND open = 2;

-- name: find_chunks
SELECT chunks AS key FROM holdfast.attachment_bytes WHERE id = %(id)s;

-- name: read_chunk
SELECT b.byte_len, c.body
  FROM holdfast.attachment_bytes b
  LEFT JOIN holdfast.attachment_chunk c ON c.chunks = b.chunks AND c.number = %(number)s
 WHERE b.id = %(id)s;

-- name: head_bytes
SELECT id, byte_len, modified_at_ms FROM holdfast.attachment_bytes WHERE id = %(id)s;

-- name: list_bytes
SELECT id, byte_len, modified_at_ms
  FROM holdfast.attachment_bytes WHERE id > %(after)s ORDER BY id LIMIT %(limit)s;

-- name: unpublish_bytes
-- Gone at once for whoever looks; the chunks follow in batches.
WITH gone AS (
    DELETE FROM holdfast.attachment_bytes WHERE id = %(id)s RETURNING chunks, byte_len
)
INSERT INTO holdfast.attachment_staging (key, open, byte_len, touched_at_ms)
SELECT chunks, 0, byte_len, holdfast.now_ms(%(now_ms)s) FROM gone
RETURNING key;

-- name: close_staging
UPDATE holdfast.attachment_staging SET open = 0 WHERE key = %(staging)s AND open = 1;

-- name: close_stale
-- The start of the sweep: what nobody has written to since is written to no more. Judged again on
-- the row itself, for a writer may have touched it while this waited.
UPDATE holdfast.attachment_staging s SET open = 0
  FROM (SELECT key FROM holdfast.attachment_staging
         WHERE open = 1 AND touched_at_ms <= %(before_ms)s
         ORDER BY touched_at_ms LIMIT %(limit)s) t
 WHERE s.key = t.key AND s.open = 1 AND s.touched_at_ms <= %(before_ms)s
RETURNING s.key;

-- name: closed_staging
SELECT key FROM holdfast.attachment_staging
 WHERE open = 0 ORDER BY touched_at_ms LIMIT %(limit)s;

-- name: drop_chunks
WITH batch AS (
    SELECT c.chunks, c.number
      FROM holdfast.attachment_staging s
      JOIN holdfast.attachment_chunk c ON c.chunks = s.key
     WHERE s.key = %(staging)s AND s.open = 0 LIMIT %(limit)s
)
DELETE FROM holdfast.attachment_chunk c USING batch t
 WHERE c.chunks = t.chunks AND c.number = t.number
RETURNING c.number;

-- name: drop_staging
DELETE FROM holdfast.attachment_staging
 WHERE key = %(staging)s AND open = 0
   AND NOT EXISTS (SELECT 1 FROM holdfast.attachment_chunk c WHERE c.chunks = %(staging)s);
