-- The commit: what it reads besides the graph, and what it writes.

-- name: read_stamp
SELECT t.turn_id, t.hash, t.result, t.committed_at_ms, s.key
  FROM holdfast.session s
  JOIN holdfast.turn_commit t ON t.session = s.key AND t.turn_id = %(turn_id)s
 WHERE s.id = %(session_id)s;

-- name: insert_stamp
INSERT INTO holdfast.turn_commit (session, turn_id, hash, result, head_revision, committed_at_ms)
VALUES (%(session)s, %(turn_id)s, %(hash)s, %(result)s, %(head_revision)s,
        %(at_ms)s);

-- name: update_head
UPDATE holdfast.session
   SET head_revision = %(head_revision)s, head_tag = %(head_tag)s,
       branch = %(branch)s, length = %(length)s, leaf_id = %(leaf_id)s,
       checkpoint_ref = %(checkpoint_ref)s,
       node_count = %(node_count)s, next_sequence = %(next_sequence)s,
       user_message_count = %(user_message_count)s,
       first_user_sequence = %(first_user_sequence)s,
       first_user_message = %(first_user_message)s,
       generation = %(generation)s,
       owner_id = CASE WHEN %(vacate)s THEN NULL ELSE owner_id END,
       incarnation_id = CASE WHEN %(vacate)s THEN NULL ELSE incarnation_id END,
       liveness = CASE WHEN %(vacate)s THEN NULL ELSE liveness END,
       token = CASE WHEN %(vacate)s THEN NULL ELSE token END,
       displaced = CASE WHEN %(vacate)s THEN NULL ELSE displaced END,
       claimed_at_ms = CASE WHEN %(vacate)s THEN 0 ELSE claimed_at_ms END,
       expires_at_ms = CASE WHEN %(vacate)s THEN 0 ELSE expires_at_ms END
 WHERE key = %(session)s;

-- name: put_config
INSERT INTO holdfast.head_state (session, config_enc, config_tag, config)
VALUES (%(session)s, %(config_enc)s, %(config_tag)s, %(config)s)
ON CONFLICT (session) DO UPDATE SET
    config_enc = excluded.config_enc, config_tag = excluded.config_tag, config = excluded.config;

-- name: put_frames
INSERT INTO holdfast.head_state (session, frames, current_frame_id)
VALUES (%(session)s, %(frames)s, %(current_frame_id)s)
ON CONFLICT (session) DO UPDATE SET
    frames = excluded.frames, current_frame_id = excluded.current_frame_id;

-- name: drop_refs
DELETE FROM holdfast.blob_ref
 WHERE session = %(session)s
   AND (%(checkpoint)s AND (slot = 'checkpoint' OR slot LIKE 'component:%')
        OR %(frames)s AND slot LIKE 'frame:%');

-- name: insert_refs
-- bulk: session, slot, ref
INSERT INTO holdfast.blob_ref (session, slot, ref)
SELECT * FROM unnest(%(session)s::bigint[], %(slot)s::text[], %(ref)s::text[]);

-- name: add_usage
-- Sums stop at what a column can hold.
-- bulk: session, pair, position, source, model, input_tokens, output_tokens, cache_read_input_tokens, cache_write_input_tokens, reasoning_output_tokens
INSERT INTO holdfast.usage AS u (session, pair, position, source, model, input_tokens,
                                 output_tokens, cache_read_input_tokens,
                                 cache_write_input_tokens, reasoning_output_tokens)
SELECT * FROM unnest(
    %(session)s::bigint[], %(pair)s::text[], %(position)s::bigint[], %(source)s::text[],
    %(model)s::text[], %(input_tokens)s::bigint[], %(output_tokens)s::bigint[],
    %(cache_read_input_tokens)s::bigint[], %(cache_write_input_tokens)s::bigint[],
    %(reasoning_output_tokens)s::bigint[])
ON CONFLICT (session, pair) DO UPDATE SET
    input_tokens = u.input_tokens
        + least(excluded.input_tokens, 9223372036854775807 - u.input_tokens),
    output_tokens = u.output_tokens
        + least(excluded.output_tokens, 9223372036854775807 - u.output_tokens),
    cache_read_input_tokens = u.cache_read_input_tokens
        + least(excluded.cache_read_input_tokens, 9223372036854775807 - u.cache_read_input_tokens),
    cache_write_input_tokens = u.cache_write_input_tokens
        + least(excluded.cache_write_input_tokens, 9223372036854775807 - u.cache_write_input_tokens),
    reasoning_output_tokens = u.reasoning_output_tokens
        + least(excluded.reasoning_output_tokens, 9223372036854775807 - u.reasoning_output_tokens);

-- name: read_head
SELECT {session_columns}, m.session IS NOT NULL AS known,
       h.config_enc, h.config_tag, h.config, h.frames, h.current_frame_id
  FROM holdfast.session s
  LEFT JOIN holdfast.session_meta m ON m.session = s.key
  LEFT JOIN holdfast.head_state h ON h.session = s.key
 WHERE s.id = %(session_id)s;

-- name: read_usage
SELECT u.source, u.model, u.input_tokens, u.output_tokens, u.cache_read_input_tokens,
       u.cache_write_input_tokens, u.reasoning_output_tokens
  FROM holdfast.session s JOIN holdfast.usage u ON u.session = s.key
 WHERE s.id = %(session_id)s ORDER BY u.position;
