-- Listings. One statement per way in, so that each has its index; the filters are the same.

-- fragment: listing_columns
SELECT s.key, s.id, m.session_name, m.created_at_ms, l.updated_at_ms, l.activity_us, m.cwd, m.model,
       m.relation, l.scope, {labels} AS labels, s.head_revision, s.node_count,
       s.user_message_count, s.first_user_message, h.session IS NOT NULL AS configured,
       h.config_enc, h.config_tag, h.config

-- fragment: listing_joins
-- OFFSET 0 keeps the metadata behind the listing, whose order is the answer's.
JOIN LATERAL (SELECT * FROM holdfast.session_meta
                 WHERE session = l.session AND {meta_filters} OFFSET 0) m ON true
  JOIN holdfast.session s ON s.key = l.session
  LEFT JOIN holdfast.head_state h ON h.session = l.session AND %(with_config)s

-- fragment: meta_filters
-- CASE, not OR: a generic plan takes "is null or equal" for a rare thing, hopes for few rows and
-- reads whole tables.
CASE WHEN %(parent_session_id)s::text IS NULL THEN true
                      ELSE parent_session_id = %(parent_session_id)s END
                 AND CASE WHEN %(relation_kind)s::text IS NULL THEN true
                          ELSE relation_kind = %(relation_kind)s END
                 AND CASE WHEN %(cwd)s::text IS NULL THEN true ELSE cwd = %(cwd)s END

-- fragment: listing_filters
-- Labels are counted: an EXISTS would be answered by hashing every label there is.
CASE WHEN %(updated_since_ms)s::bigint IS NULL THEN true
        ELSE l.updated_at_ms >= %(updated_since_ms)s END
   AND CASE WHEN %(scope)s::bytea IS NULL THEN true ELSE l.scope = %(scope)s END
   AND CASE WHEN %(scope_low)s::bytea IS NULL THEN true
            ELSE l.scope >= %(scope_low)s AND l.scope < %(scope_high)s END
   AND CASE cardinality(%(label_names)s::text[]) WHEN 0 THEN true
            ELSE cardinality(%(label_names)s::text[]) = (
                 SELECT count(*)
                   FROM unnest(%(label_names)s::text[], %(label_values)s::text[])
                        AS w (name, value)
                   JOIN holdfast.label lb
                     ON lb.session = l.session AND lb.name = w.name AND lb.value = w.value) END

-- fragment: newest_first
l.activity_us <= %(after_activity)s
   AND (l.activity_us < %(after_activity)s OR l.id > %(after_id)s)
 ORDER BY l.activity_us DESC, l.id LIMIT %(limit)s

-- fragment: oldest_first
l.activity_us >= %(after_activity)s
   AND (l.activity_us > %(after_activity)s OR l.id > %(after_id)s)
 ORDER BY l.activity_us, l.id LIMIT %(limit)s

-- name: list_by_all_newest
{listing_columns}
  FROM holdfast.listing l
  {listing_joins}
 WHERE {listing_filters}
   AND {newest_first};

-- name: list_by_all_oldest
{listing_columns}
  FROM holdfast.listing l
  {listing_joins}
 WHERE {listing_filters}
   AND {oldest_first};

-- name: list_by_scope_newest
{listing_columns}
  FROM holdfast.listing l
  {listing_joins}
 WHERE l.scope = %(scope)s
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_scope_oldest
{listing_columns}
  FROM holdfast.listing l
  {listing_joins}
 WHERE l.scope = %(scope)s
   AND {listing_filters}
   AND {oldest_first};

-- name: list_by_prefix_newest
{listing_columns}
  FROM holdfast.listing l
  {listing_joins}
 WHERE l.scope >= %(scope_low)s AND l.scope < %(scope_high)s
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_prefix_oldest
{listing_columns}
  FROM holdfast.listing l
  {listing_joins}
 WHERE l.scope >= %(scope_low)s AND l.scope < %(scope_high)s
   AND {listing_filters}
   AND {oldest_first};

-- name: list_by_label_newest
{listing_columns}
  FROM holdfast.label one JOIN holdfast.listing l ON l.session = one.session
  {listing_joins}
 WHERE one.name = %(label_name)s AND one.value = %(label_value)s
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_label_oldest
{listing_columns}
  FROM holdfast.label one JOIN holdfast.listing l ON l.session = one.session
  {listing_joins}
 WHERE one.name = %(label_name)s AND one.value = %(label_value)s
   AND {listing_filters}
   AND {oldest_first};

-- name: list_by_parent_newest
{listing_columns}
  FROM holdfast.session_meta one JOIN holdfast.listing l ON l.session = one.session
  {listing_joins}
 WHERE one.parent_session_id = %(parent_session_id)s
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_parent_oldest
{listing_columns}
  FROM holdfast.session_meta one JOIN holdfast.listing l ON l.session = one.session
  {listing_joins}
 WHERE one.parent_session_id = %(parent_session_id)s
   AND {listing_filters}
   AND {oldest_first};

-- name: read_listing
{listing_columns}, m.session IS NOT NULL AS known
  FROM holdfast.session s
  LEFT JOIN holdfast.listing l ON l.session = s.key
  LEFT JOIN holdfast.session_meta m ON m.session = s.key
  LEFT JOIN holdfast.head_state h ON h.session = s.key AND %(with_config)s
 WHERE s.id = %(session_id)s;
