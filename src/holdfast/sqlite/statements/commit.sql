-- The commit: what it reads besides the graph, and what it writes.

-- name: read_stamp
SELECT t.turn_id, t.hash, t.result, t.committed_at_ms, s.key
  FROM session s JOIN turn_commit t ON t.session = s.key AND t.turn_id = :turn_id
 WHERE s.id = :session_id;

-- name: insert_stamp
INSERT INTO turn_commit (session, turn_id, hash, result, head_revision, committed_at_ms)
VALUES (:session, :turn_id, :hash, :result, :head_revision, :at_ms);

-- name: update_head
UPDATE session
   SET head_revision = :head_revision, head_tag = :head_tag,
       branch = :branch, length = :length, leaf_id = :leaf_id,
       checkpoint_ref = :checkpoint_ref,
       node_count = :node_count, next_sequence = :next_sequence,
       user_message_count = :user_message_count,
       first_user_sequence = :first_user_sequence, first_user_message = :first_user_message,
       generation = :generation,
       owner_id = CASE WHEN :vacate THEN NULL ELSE owner_id END,
       incarnation_id = CASE WHEN :vacate THEN NULL ELSE incarnation_id END,
       liveness = CASE WHEN :vacate THEN NULL ELSE liveness END,
       token = CASE WHEN :vacate THEN NULL ELSE token END,
       displaced = CASE WHEN :vacate THEN NULL ELSE displaced END,
       claimed_at_ms = CASE WHEN :vacate THEN 0 ELSE claimed_at_ms END,
       expires_at_ms = CASE WHEN :vacate THEN 0 ELSE expires_at_ms END
 WHERE key = :session;

-- name: put_config
INSERT INTO head_state (session, config_enc, config_tag, config)
VALUES (:session, :config_enc, :config_tag, :config)
ON CONFLICT (session) DO UPDATE SET
    config_enc = excluded.config_enc, config_tag = excluded.config_tag, config = excluded.config;

-- name: put_frames
INSERT INTO head_state (session, frames, current_frame_id)
VALUES (:session, :frames, :current_frame_id)
ON CONFLICT (session) DO UPDATE SET
    frames = excluded.frames, current_frame_id = excluded.current_frame_id;

-- name: drop_refs
DELETE FROM blob_ref
 WHERE session = :session
   AND (:checkpoint AND (slot = 'checkpoint' OR slot LIKE 'component:%')
        OR :frames AND slot LIKE 'frame:%');

-- name: insert_refs
-- bulk: session, slot, ref
INSERT INTO blob_ref (session, slot, ref) VALUES :rows;

-- name: add_usage
-- Sums stop at what a column can hold.
-- bulk: session, pair, position, source, model, input_tokens, output_tokens, cache_read_input_tokens, cache_write_input_tokens, reasoning_output_tokens
INSERT INTO usage (session, pair, position, source, model, input_tokens, output_tokens,
                   cache_read_input_tokens, cache_write_input_tokens, reasoning_output_tokens)
VALUES :rows
ON CONFLICT (session, pair) DO UPDATE SET
    input_tokens = input_tokens
        + min(excluded.input_tokens, 9223372036854775807 - input_tokens),
    output_tokens = output_tokens
        + min(excluded.output_tokens, 9223372036854775807 - output_tokens),
    cache_read_input_tokens = cache_read_input_tokens
        + min(excluded.cache_read_input_tokens, 9223372036854775807 - cache_read_input_tokens),
    cache_write_input_tokens = cache_write_input_tokens
        + min(excluded.cache_write_input_tokens, 9223372036854775807 - cache_write_input_tokens),
    reasoning_output_tokens = reasoning_output_tokens
        + min(excluded.reasoning_output_tokens, 9223372036854775807 - reasoning_output_tokens);

-- name: read_head
SELECT s.*, m.session IS NOT NULL AS known,
       h.config_enc, h.config_tag, h.config, h.frames, h.current_frame_id
  FROM session s
  LEFT JOIN session_meta m ON m.session = s.key
  LEFT JOIN head_state h ON h.session = s.key
 WHERE s.id = :session_id;

-- name: read_usage
SELECT u.source, u.model, u.input_tokens, u.output_tokens, u.cache_read_input_tokens,
       u.cache_write_input_tokens, u.reasoning_output_tokens
  FROM session s JOIN usage u ON u.session = s.key
 WHERE s.id = :session_id ORDER BY u.position;
