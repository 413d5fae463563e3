-- The graph: what a session sees of branches, its own and inherited ones, less what is hidden.

-- fragment: sees
-- Whether session `s` sees, or once saw, the node at (b.id, n.ordinal).
(b.owner = s.key AND b.detached = 0
     OR EXISTS (SELECT 1 FROM holdfast.inherited i
                 WHERE i.session = s.key AND i.branch = b.id
                   AND n.ordinal >= i.start AND n.ordinal < i.upto))

-- fragment: owners
-- Who may have stored a node that session `s` sees: itself, and whose branches it inherited.
-- LATERAL, so that ids are looked up together with their owner.
CROSS JOIN LATERAL (SELECT s.key AS owner
                     UNION SELECT i.owner FROM holdfast.inherited i WHERE i.session = s.key) o

-- fragment: visible
NOT EXISTS (SELECT 1 FROM holdfast.hidden h
             WHERE h.session = s.key AND h.branch = n.branch AND h.ordinal = n.ordinal)

-- fragment: node_columns
n.sequence, n.node_id, n.parent_id, n.kind, n.enc, n.tag, n.body, n.caused_by,
       n.agent_frame_id, n.role, n.preview, n.at_us

-- fragment: live_node
-- The one live node of session `s` under an id, as a position behind it.
SELECT s.key AS session, n.branch, n.ordinal + 1 AS length
      FROM holdfast.session s {owners}
      JOIN holdfast.node n ON n.node_id = %(leaf)s::text AND n.owner = o.owner
      JOIN holdfast.branch b ON b.id = n.branch
     WHERE s.id = %(session_id)s AND {sees} AND {visible}

-- fragment: chain
-- The branches that contribute to the path ending at `start`, leaf side first, and the ordinal
-- below which that path ends: a hidden node ends it, and so does the end of what was inherited,
-- also where the branch below has been dropped since.
-- One segment more than `last` needs is walked, to know whether older nodes exist.
chain (session, branch, owner, parent, base, upto, lowest) AS (
    SELECT start.session, b.id, b.owner, b.parent, b.base, start.length,
           greatest(start.length - coalesce(%(last)s::bigint, start.length), 0)
      FROM start JOIN holdfast.branch b ON b.id = start.branch
     UNION ALL
    SELECT chain.session, b.id, b.owner, b.parent, b.base, chain.base, chain.lowest
      FROM chain JOIN holdfast.branch b ON b.id = chain.parent
     WHERE chain.base >= chain.lowest
),
behind_hidden (floor) AS (
    SELECT max((SELECT max(h.ordinal) + 1 FROM holdfast.hidden h
                 WHERE h.session = c.session AND h.branch = c.branch AND h.ordinal < c.upto))
      FROM chain c
),
within_inherited (floor) AS (
    SELECT max(coalesce((SELECT CASE WHEN i.start > c.base THEN i.start ELSE 0 END
                           FROM holdfast.inherited i
                          WHERE i.session = c.session AND i.branch = c.branch), c.upto))
      FROM chain c WHERE c.owner <> c.session
),
floors (floor) AS (
    SELECT greatest(coalesce((SELECT floor FROM behind_hidden), 0),
                    coalesce((SELECT floor FROM within_inherited), 0), min(c.base))
      FROM chain c
)

-- fragment: path_nodes
-- OFFSET 0 keeps the inner SELECT apart: joined, the computed bounds become a filter, and where
-- the planner's figures are old, as after many commits, the whole table is scanned.
SELECT n.ordinal, f.floor, {node_columns}
  FROM floors f CROSS JOIN chain c CROSS JOIN LATERAL (
       SELECT * FROM holdfast.node p
        WHERE p.branch = c.branch AND p.ordinal >= greatest(c.base, c.lowest, f.floor)
          AND p.ordinal < c.upto
       OFFSET 0) n
 ORDER BY n.ordinal

-- fragment: head_path
start AS (SELECT key AS session, branch, length FROM holdfast.session WHERE id = %(session_id)s)

-- name: read_path
-- returns: tuples
WITH RECURSIVE
{head_path},
{chain}
{path_nodes};

-- name: read_path_to
-- returns: tuples
WITH RECURSIVE
start AS (SELECT * FROM ({live_node}) located),
{chain}
{path_nodes};

-- name: locate_leaf
SELECT session, branch, length FROM ({live_node}) located;

-- name: read_node
-- The session's key comes first, so that a view need not ask for it.
-- returns: tuples
SELECT s.key, 0, {node_columns}
  FROM holdfast.session s {owners}
  JOIN holdfast.node n ON n.node_id = %(node_id)s AND n.owner = o.owner
  JOIN holdfast.branch b ON b.id = n.branch
 WHERE s.id = %(session_id)s AND {sees} AND {visible};

-- fragment: late_enough
CASE WHEN %(after_us)s::bigint IS NULL THEN true ELSE n.at_us > %(after_us)s END

-- name: list_nodes
-- returns: tuples
-- Sequences rise along a branch, so a range of one is a range of the other, and of each branch no
-- more is read than the page could hold. What is hidden is asked for node by node: joined, all
-- hidden rows of a branch are met again for each of its nodes.
SELECT 0, 0, {node_columns}
  FROM holdfast.session s
 CROSS JOIN LATERAL (
       SELECT b.id AS branch, 0::bigint AS first, {last_number} AS last
         FROM holdfast.branch b WHERE b.owner = s.key AND b.detached = 0
        UNION ALL
       SELECT i.branch,
              (SELECT e.sequence FROM holdfast.node e
                WHERE e.branch = i.branch AND e.ordinal = i.start),
              (SELECT e.sequence FROM holdfast.node e
                WHERE e.branch = i.branch AND e.ordinal = i.upto - 1)
         FROM holdfast.inherited i WHERE i.session = s.key) r
 CROSS JOIN LATERAL (
       SELECT * FROM holdfast.node n
        WHERE n.branch = r.branch AND n.sequence > %(after_sequence)s
          AND n.sequence >= r.first AND n.sequence <= r.last
          AND (SELECT h.gone FROM holdfast.hidden h
                WHERE h.session = s.key AND h.branch = n.branch AND h.ordinal = n.ordinal) IS NULL
          AND {late_enough}
        ORDER BY n.sequence LIMIT %(limit)s) n
 WHERE s.id = %(session_id)s
 ORDER BY n.sequence LIMIT %(limit)s;

-- fragment: last_number
9223372036854775807::bigint

-- fragment: holders
-- The stored nodes of an id, each with one session that sees it: its owner, or whoever inherited it.
SELECT n.owner, n.branch, n.ordinal, coalesce(
           (SELECT s.key FROM holdfast.branch b JOIN holdfast.session s ON s.key = b.owner
             WHERE b.id = n.branch AND b.detached = 0 AND {visible}),
           (SELECT s.key FROM holdfast.inherited i JOIN holdfast.session s ON s.key = i.session
             WHERE i.branch = n.branch AND n.ordinal >= i.start AND n.ordinal < i.upto
               AND {visible} LIMIT 1)) AS session
      FROM holdfast.node n WHERE n.node_id = %(node_id)s

-- name: find_nodes
-- In the order of the index that finds them, so that no more are judged than are asked for.
SELECT s.id, h.branch, h.ordinal
  FROM ({holders}) h JOIN holdfast.session s ON s.key = h.session
 ORDER BY h.owner, h.branch LIMIT %(limit)s;

-- name: find_path
-- returns: tuples
WITH RECURSIVE
start AS (SELECT session, branch, ordinal + 1 AS length FROM ({holders}) h
           WHERE session IS NOT NULL LIMIT 1),
{chain}
{path_nodes};

-- name: known_nodes
-- The stored state of the ids a delta names, and of the head's leaf: where they are, whether the
-- session may append right behind them, and, for the ids only, their content.
WITH target AS MATERIALIZED (
    SELECT * FROM holdfast.session WHERE id = %(session_id)s
), wanted (branch, ordinal, compared) AS (
    SELECT k.branch, k.ordinal, true
      FROM target s {owners}
      CROSS JOIN unnest(%(node_ids)s::text[]) AS j (id)
      JOIN holdfast.node k ON k.node_id = j.id AND k.owner = o.owner
     UNION ALL
    SELECT branch, length - 1, false FROM target WHERE length > 0
)
SELECT n.node_id, n.branch, n.ordinal, n.parent_id, n.user_text,
       coalesce(h.gone = 0, false) AS tombstoned, coalesce(h.gone > 0, false) AS gone,
       b.owner = s.key AND b.detached = 0
       AND NOT EXISTS (SELECT 1 FROM holdfast.node k
                        WHERE k.branch = n.branch AND k.ordinal = n.ordinal + 1)
       AND NOT EXISTS (SELECT 1 FROM holdfast.hidden k
                        WHERE k.session = s.key AND k.branch = n.branch
                          AND k.ordinal = n.ordinal + 1) AS extendable,
       w.compared, CASE WHEN w.compared THEN n.body END AS body,
       n.kind, n.enc, n.tag, n.caused_by, n.agent_frame_id
  FROM target s
 CROSS JOIN wanted w
  JOIN holdfast.node n ON n.branch = w.branch AND n.ordinal = w.ordinal
  JOIN holdfast.branch b ON b.id = n.branch
  LEFT JOIN holdfast.hidden h
         ON h.session = s.key AND h.branch = n.branch AND h.ordinal = n.ordinal
 WHERE {sees};

-- name: path_segments
-- The active path by branches, leaf side first, with what decides whether its end may be removed
-- in place, and `cut`, the ordinal a splice removes from.
WITH RECURSIVE
{head_path},
{chain}
SELECT c.branch, c.base, c.upto, c.owner = c.session AS owned,
       coalesce((SELECT max(i.upto) FROM holdfast.inherited i
                  WHERE i.branch = c.branch AND i.session <> c.session), 0) AS shared_upto,
       coalesce((SELECT max(o.base) FROM holdfast.branch o
                  WHERE o.parent = c.branch
                    AND o.id NOT IN (SELECT branch FROM chain)), 0) AS other_base,
       EXISTS (SELECT 1 FROM holdfast.node k
                WHERE k.branch = c.branch AND k.ordinal >= c.upto) AS beyond,
       f.floor, {cut} AS cut,
       (SELECT k.node_id FROM chain e
          JOIN holdfast.node k ON k.branch = e.branch AND k.ordinal = {cut} - 1
         WHERE {cut} > e.base AND {cut} <= e.upto AND {cut} > f.floor) AS kept_leaf_id
  FROM floors f CROSS JOIN chain c
 ORDER BY c.upto DESC, c.base DESC;

-- fragment: cut
-- keep counts the visible path; a negative one counts from its end.
(f.floor + CASE WHEN %(keep)s >= 0
                THEN least(%(keep)s, (SELECT length FROM start) - f.floor)
                ELSE greatest((SELECT length FROM start) - f.floor + %(keep)s, 0) END)

-- name: removed_nodes
-- returns: tuples
-- The nodes a splice removes, those nearest the leaf that are to be returned.
WITH RECURSIVE
{head_path},
{chain},
measured (ordinal, bytes) AS (
    SELECT n.ordinal, sum(n.bytes) OVER (ORDER BY n.ordinal DESC)
      FROM floors f CROSS JOIN chain c CROSS JOIN LATERAL (
           SELECT p.ordinal, {node_bytes} AS bytes FROM holdfast.node p
            WHERE p.branch = c.branch AND p.ordinal < c.upto
              AND p.ordinal >= greatest(c.base, {cut}, (SELECT length FROM start) - %(limit)s)
           OFFSET 0) n
),
returned (since) AS (
    -- The leaf at least, whatever its size.
    SELECT min(ordinal) FROM measured
     WHERE bytes <= %(max_bytes)s OR ordinal = (SELECT length FROM start) - 1
)
SELECT n.ordinal, f.floor, {node_columns}
  FROM floors f CROSS JOIN returned r CROSS JOIN chain c CROSS JOIN LATERAL (
       SELECT * FROM holdfast.node p
        WHERE p.branch = c.branch AND p.ordinal >= greatest(c.base, r.since)
          AND p.ordinal < c.upto
       OFFSET 0) n
 ORDER BY n.ordinal;

-- fragment: node_bytes
-- What a node weighs; no other part of it can be long.
(octet_length(p.body) + coalesce(octet_length(p.caused_by), 0))

-- name: removed_totals
WITH RECURSIVE
{head_path},
{chain}
SELECT count(*) AS nodes, count(n.user_text) AS users,
       min(n.sequence) FILTER (WHERE n.user_text IS NOT NULL) AS first_user
  FROM floors f CROSS JOIN chain c CROSS JOIN LATERAL (
       SELECT * FROM holdfast.node p
        WHERE p.branch = c.branch AND p.ordinal >= greatest(c.base, {cut})
          AND p.ordinal < c.upto
       OFFSET 0) n;

-- name: reserve_branches
-- Ids of branches are never used twice. The sequence is named by itself: a quoted name could not
-- follow the schema.
SELECT nextval((SELECT tableoid FROM holdfast.branch_id_seq)::regclass) AS id
  FROM generate_series(1, %(count)s);

-- name: insert_branches
-- bulk: id, parent, base, owner
INSERT INTO holdfast.branch (id, parent, base, owner)
SELECT * FROM unnest(%(id)s::bigint[], %(parent)s::bigint[], %(base)s::bigint[],
                     %(owner)s::bigint[]);

-- name: insert_nodes
-- bulk: branch, ordinal, owner, sequence, node_id, parent_id, kind, enc, tag, body, caused_by, agent_frame_id, role, preview, at_us, user_text
INSERT INTO holdfast.node (branch, ordinal, owner, sequence, node_id, parent_id, kind, enc, tag,
                           body, caused_by, agent_frame_id, role, preview, at_us, user_text)
SELECT * FROM unnest(
    %(branch)s::bigint[], %(ordinal)s::bigint[], %(owner)s::bigint[], %(sequence)s::bigint[],
    %(node_id)s::text[], %(parent_id)s::text[], %(kind)s::text[], %(enc)s::bigint[],
    %(tag)s::text[], %(body)s::bytea[], %(caused_by)s::text[], %(agent_frame_id)s::text[],
    %(role)s::text[], %(preview)s::text[], %(at_us)s::bigint[], %(user_text)s::text[]);

-- name: delete_tail
WITH emptied AS (
    DELETE FROM holdfast.branch WHERE id = %(branch)s AND %(drop_branch)s
), shown AS (
    DELETE FROM holdfast.hidden
     WHERE session = %(session)s AND branch = %(branch)s AND ordinal >= %(start)s
)
DELETE FROM holdfast.node WHERE branch = %(branch)s AND ordinal >= %(start)s;

-- name: hide_tail
INSERT INTO holdfast.hidden AS h (session, branch, ordinal, gone)
SELECT %(session)s, n.branch, n.ordinal, 1 FROM holdfast.node n
 WHERE n.branch = %(branch)s AND n.ordinal >= %(start)s AND n.ordinal < %(upto)s
ON CONFLICT (session, branch, ordinal) DO UPDATE SET gone = greatest(h.gone, 1::smallint);

-- name: detach_graph
SELECT holdfast.detach_graph(%(session)s, %(max_dropped)s);

-- name: revive_nodes
-- bulk: session, branch, ordinal
DELETE FROM holdfast.hidden h
 USING unnest(%(session)s::bigint[], %(branch)s::bigint[], %(ordinal)s::bigint[])
       AS r (session, branch, ordinal)
 WHERE h.session = r.session AND h.branch = r.branch AND h.ordinal = r.ordinal;

-- fragment: doomed
-- What a tombstone newly hides: the live nodes among the ids.
SELECT DISTINCT s.key AS session, n.branch, n.ordinal, n.user_text
      FROM holdfast.session s {owners}
      CROSS JOIN unnest(%(node_ids)s::text[]) AS j (id)
      JOIN holdfast.node n ON n.node_id = j.id AND n.owner = o.owner
      JOIN holdfast.branch b ON b.id = n.branch
     WHERE s.id = %(session_id)s AND s.key = coalesce(%(bound_key)s, s.key)
       AND {sees} AND {visible}

-- name: forget_tombstoned
-- The counters first, while what is about to be hidden can still be told from what was hidden.
UPDATE holdfast.session AS t
   SET node_count = t.node_count - d.nodes, user_message_count = t.user_message_count - d.users
  FROM (SELECT count(*) AS nodes, count(user_text) AS users FROM ({doomed}) doomed) d
 WHERE t.id = %(session_id)s;

-- name: tombstone
INSERT INTO holdfast.hidden (session, branch, ordinal, gone)
SELECT session, branch, ordinal, 0 FROM ({doomed}) doomed
RETURNING ordinal;

-- name: refresh_first_user
{first_user_refreshed};

-- name: replace_first_user
-- Behind a tombstone: another one is looked for only where the first is among the ids.
{first_user_refreshed}
   AND EXISTS (SELECT 1
                 FROM (SELECT 1) one {owners}
                 JOIN holdfast.node n
                   ON n.node_id = ANY (%(node_ids)s::text[]) AND n.owner = o.owner
                WHERE n.sequence = s.first_user_sequence);

-- fragment: first_user_refreshed
-- Looks for the first user message that is still visible.
UPDATE holdfast.session AS s
   SET (first_user_sequence, first_user_message) = (
       SELECT f.sequence, coalesce(f.user_text, '')
         FROM (SELECT 1) one LEFT JOIN holdfast.first_user(s.key) f ON true)
 WHERE s.id = %(session_id)s

-- name: inherit_path
-- Makes the path behind a position of `source` visible to `session`, by ranges of branches.
WITH RECURSIVE
start AS (SELECT %(source)s AS session, %(branch)s AS branch, %(length)s AS length),
{chain}
INSERT INTO holdfast.inherited (session, branch, owner, start, upto)
SELECT %(session)s, c.branch, c.owner, greatest(c.base, f.floor), c.upto
  FROM floors f CROSS JOIN chain c
 WHERE c.upto > greatest(c.base, f.floor);

-- name: locate_head
-- The head's position, if its leaf can be seen.
SELECT s.key AS session, s.branch, s.length
  FROM holdfast.session s
  JOIN holdfast.node n ON n.branch = s.branch AND n.ordinal = s.length - 1
 WHERE s.id = %(session_id)s AND {visible};

-- name: adopt_path
-- The head of a session that begins with what it inherited.
UPDATE holdfast.session
   SET branch = %(branch)s, length = %(length)s, leaf_id = %(leaf_id)s,
       next_sequence = %(next_sequence)s,
       node_count = (SELECT coalesce(sum(i.upto - i.start), 0)::bigint
                       FROM holdfast.inherited i WHERE i.session = %(session)s),
       user_message_count = (SELECT count(n.user_text)
                               FROM holdfast.inherited i
                               JOIN holdfast.node n
                                 ON n.branch = i.branch AND n.ordinal >= i.start
                                AND n.ordinal < i.upto
                              WHERE i.session = %(session)s)
 WHERE key = %(session)s;

-- name: copy_state
-- A fork's first revision: config, frames and every blob the source's head refers to.
WITH configured AS (
    INSERT INTO holdfast.head_state (session, config_enc, config_tag, config, frames,
                                     current_frame_id)
    SELECT %(session)s, config_enc, config_tag, config, frames, current_frame_id
      FROM holdfast.head_state WHERE session = %(source)s
), referenced AS (
    INSERT INTO holdfast.blob_ref (session, slot, ref)
    SELECT %(session)s, slot, ref FROM holdfast.blob_ref WHERE session = %(source)s
)
UPDATE holdfast.session
   SET head_revision = 1,
       checkpoint_ref = (SELECT checkpoint_ref FROM holdfast.session WHERE key = %(source)s)
 WHERE key = %(session)s;
