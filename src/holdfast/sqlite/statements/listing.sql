-- Listings. One statement per way in, so that each has its index; the filters are the same.

-- fragment: listing_columns
SELECT s.key, s.id, m.session_name, m.created_at_ms, l.updated_at_ms, l.activity_us, m.cwd, m.model,
       m.relation, l.scope, {labels} AS labels, s.head_revision, s.node_count,
       s.user_message_count, s.first_user_message, h.session IS NOT NULL AS configured,
       h.config_enc, h.config_tag, h.config

-- fragment: listing_joins
JOIN session s ON s.key = l.session
  JOIN session_meta m ON m.session = l.session
  LEFT JOIN head_state h ON h.session = l.session AND :with_config

-- fragment: listing_filters
(:parent_session_id IS NULL OR m.parent_session_id = :parent_session_id)
   AND (:relation_kind IS NULL OR m.relation_kind = :relation_kind)
   AND (:cwd IS NULL OR m.cwd = :cwd)
   AND (:updated_since_ms IS NULL OR l.updated_at_ms >= :updated_since_ms)
   AND (:scope IS NULL OR l.scope = :scope)
   AND (:scope_low IS NULL OR l.scope >= :scope_low AND l.scope < :scope_high)
   AND NOT EXISTS (
       SELECT 1 FROM json_each(:label_names) n JOIN json_each(:label_values) v ON v.key = n.key
        WHERE NOT EXISTS (SELECT 1 FROM label lb
                           WHERE lb.session = l.session AND lb.name = n.value
                             AND lb.value = v.value))

-- fragment: newest_first
l.activity_us <= :after_activity
   AND (l.activity_us < :after_activity OR l.id > :after_id)
 ORDER BY l.activity_us DESC, l.id LIMIT :limit

-- fragment: oldest_first
l.activity_us >= :after_activity
   AND (l.activity_us > :after_activity OR l.id > :after_id)
 ORDER BY l.activity_us, l.id LIMIT :limit

-- name: list_by_all_newest
{listing_columns}
  FROM listing l
  {listing_joins}
 WHERE {listing_filters}
   AND {newest_first};

-- name: list_by_all_oldest
{listing_columns}
  FROM listing l
  {listing_joins}
 WHERE {listing_filters}
   AND {oldest_first};

-- name: list_by_scope_newest
{listing_columns}
  FROM listing l INDEXED BY listing_by_scope
  {listing_joins}
 WHERE l.scope = :scope
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_scope_oldest
{listing_columns}
  FROM listing l INDEXED BY listing_by_scope
  {listing_joins}
 WHERE l.scope = :scope
   AND {listing_filters}
   AND {oldest_first};

-- name: list_by_prefix_newest
{listing_columns}
  FROM listing l INDEXED BY listing_by_scope
  {listing_joins}
 WHERE l.scope >= :scope_low AND l.scope < :scope_high
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_prefix_oldest
{listing_columns}
  FROM listing l INDEXED BY listing_by_scope
  {listing_joins}
 WHERE l.scope >= :scope_low AND l.scope < :scope_high
   AND {listing_filters}
   AND {oldest_first};

-- name: list_by_label_newest
{listing_columns}
  FROM label one CROSS JOIN listing l ON l.session = one.session
  {listing_joins}
 WHERE one.name = :label_name AND one.value = :label_value
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_label_oldest
{listing_columns}
  FROM label one CROSS JOIN listing l ON l.session = one.session
  {listing_joins}
 WHERE one.name = :label_name AND one.value = :label_value
   AND {listing_filters}
   AND {oldest_first};

-- name: list_by_parent_newest
{listing_columns}
  FROM session_meta one CROSS JOIN listing l ON l.session = one.session
  {listing_joins}
 WHERE one.parent_session_id = :parent_session_id
   AND {listing_filters}
   AND {newest_first};

-- name: list_by_parent_oldest
{listing_columns}
  FROM session_meta one CROSS JOIN listing l ON l.session = one.session
  {listing_joins}
 WHERE one.parent_session_id = :parent_session_id
   AND {listing_filters}
   AND {oldest_first};

-- name: read_listing
{listing_columns}, m.session IS NOT NULL AS known
  FROM session s
  LEFT JOIN listing l ON l.session = s.key
  LEFT JOIN session_meta m ON m.session = s.key
  LEFT JOIN head_state h ON h.session = s.key AND :with_config
 WHERE s.id = :session_id;
