-- Bytes of attachments that the database keeps: staged in chunks, then given their id.

-- name: stage_bytes
INSERT INTO attachment_staging (touched_at_ms) VALUES (:now_ms) RETURNING key;

-- name: write_chunk
-- Nothing for a staging that was swept meanwhile.
INSERT INTO attachment_chunk (chunks, number, body)
SELECT key, :number, :body FROM attachment_staging WHERE key = :staging AND open = 1;
UPDATE attachment_staging
   SET byte_len = byte_len + length(:body), touched_at_ms = max(touched_at_ms, :now_ms)
 WHERE key = :staging AND open = 1
RETURNING key;

-- name: publish_bytes
-- The staging is taken (open = 2) until it is settled what becomes of it, in the same transaction.
-- Bytes that are there already are as if written now.
UPDATE attachment_staging SET open = 2 WHERE key = :staging AND open = 1;
INSERT INTO attachment_bytes (id, chunks, byte_len, modified_at_ms)
SELECT :id, key, byte_len, :now_ms
  FROM attachment_staging WHERE key = :staging AND open = 2
ON CONFLICT (id) DO UPDATE SET modified_at_ms = max(modified_at_ms, excluded.modified_at_ms)
RETURNING chunks AS key;

-- name: replace_chunks
-- What was there already may have been damaged since: what came in now takes its place, and the
-- chunks that were there that of the staging, to be removed.
UPDATE attachment_staging
   SET open = 0, key = (SELECT b.chunks FROM attachment_bytes b WHERE b.id = :id)
 WHERE key = :staging AND open = 2
   AND EXISTS (SELECT 1 FROM attachment_bytes b WHERE b.id = :id AND b.chunks <> :staging)
RETURNING key;
UPDATE attachment_bytes
   SET chunks = :staging, byte_len = s.byte_len
  FROM attachment_staging s
 WHERE attachment_bytes.id = :id AND s.key = attachment_bytes.chunks AND s.open = 0;

-- name: clear_staging
-- What has its id now is no staging.
DELETE FROM attachment_staging WHERE key = :staging AND open = 2;

-- name: find_chunks
SELECT chunks AS key FROM attachment_bytes WHERE id = :id;

-- name: read_chunk
SELECT b.byte_len, c.body
  FROM attachment_bytes b
  LEFT JOIN attachment_chunk c ON c.chunks = b.chunks AND c.number = :number
 WHERE b.id = :id;

-- name: head_bytes
SELECT id, byte_len, modified_at_ms FROM attachment_bytes WHERE id = :id;

-- name: list_bytes
SELECT id, byte_len, modified_at_ms
  FROM attachment_bytes WHERE id > :after ORDER BY id LIMIT :limit;

-- name: unpublish_bytes
-- Gone at once for whoever looks; the chunks follow in batches.
INSERT INTO attachment_staging (key, open, byte_len, touched_at_ms)
SELECT chunks, 0, byte_len, :now_ms FROM attachment_bytes WHERE id = :id
RETURNING key;
DELETE FROM attachment_bytes WHERE id = :id;

-- name: close_staging
UPDATE attachment_staging SET open = 0 WHERE key = :staging AND open = 1;

-- name: close_stale
-- The start of the sweep: what nobody has written to since is written to no more.
UPDATE attachment_staging SET open = 0 WHERE key IN (
    SELECT key FROM attachment_staging
     WHERE open = 1 AND touched_at_ms <= :before_ms ORDER BY touched_at_ms LIMIT :limit)
RETURNING key;

-- name: closed_staging
SELECT key FROM attachment_staging WHERE open = 0 ORDER BY touched_at_ms LIMIT :limit;

-- name: drop_chunks
DELETE FROM attachment_chunk WHERE (chunks, number) IN (
    SELECT c.chunks, c.number
      FROM attachment_staging s JOIN attachment_chunk c ON c.chunks = s.key
     WHERE s.key = :staging AND s.open = 0 LIMIT :limit)
RETURNING number;

-- name: drop_staging
DELETE FROM attachment_staging
 WHERE key = :staging AND open = 0
   AND NOT EXISTS (SELECT 1 FROM attachment_chunk c WHERE c.chunks = :staging);
