-- Statements only this backend has: what costs several trips in general, in one for the plain case.

-- name: light_commit
-- One call of a function of the schema, so that lock, judgement and writes share a single trip.
SELECT * FROM holdfast.light_commit(
    %(session_id)s::text, %(bound_key)s::bigint, %(now_ms)s::bigint, %(momentary)s::boolean,
    %(token)s::text, %(generation)s::bigint, %(owner_id)s::text, %(incarnation_id)s::text,
    %(release)s::boolean, %(expect_revision)s::bigint, %(expect_tagged)s::boolean,
    %(expect_tag)s::text, %(set_tag)s::boolean, %(tag)s::text, %(activity_us)s::bigint,
    %(config_enc)s::bigint, %(config_tag)s::text, %(config)s::bytea, %(session_name)s::text,
    %(created_at_ms)s::bigint, %(model)s::text, %(cwd)s::text, %(relation)s::text,
    %(relation_kind)s::text, %(parent_session_id)s::text, %(scope)s::bytea,
    %(label_names)s::text[], %(label_values)s::text[], %(start)s::text, %(anchor)s::text,
    %(keep)s::bigint, %(limit)s::bigint, %(max_bytes)s::bigint, %(detach)s::boolean, %(max_dropped)s::bigint, %(node_id)s::text[], %(kind)s::text[],
    %(enc)s::bigint[], %(node_tag)s::text[], %(body)s::bytea[], %(caused_by)s::text[],
    %(agent_frame_id)s::text[], %(role)s::text[], %(preview)s::text[], %(at_us)s::bigint[],
    %(user_text)s::text[]);
