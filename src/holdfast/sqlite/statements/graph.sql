-- The graph: what a session sees of branches, its own and inherited ones, less what is hidden.

-- fragment: ordinal_bits
-- A node's key is its branch, shifted, and its ordinal, which is below MAX_PATH_LENGTH.
28

-- fragment: last_ordinal
-- MAX_PATH_LENGTH - 1
268435455

-- fragment: sees
-- Whether session `s` sees, or once saw, the node at (b.id, n.ordinal).
(b.owner = s.key AND b.detached = 0
     OR EXISTS (SELECT 1 FROM inherited i
                 WHERE i.session = s.key AND i.branch = b.id
                   AND n.ordinal >= i.start AND n.ordinal < i.upto))

-- fragment: owners
-- Who may have stored a node that session `s` sees: itself, and whose branches it inherited.
(SELECT s.key UNION ALL SELECT i.owner FROM inherited i WHERE i.session = s.key)

-- fragment: visible
NOT EXISTS (SELECT 1 FROM hidden h
             WHERE h.session = s.key AND h.branch = n.branch AND h.ordinal = n.ordinal)

-- fragment: node_columns
n.sequence, n.node_id, n.parent_id, n.kind, n.enc, n.tag, n.body, n.caused_by,
       n.agent_frame_id, n.role, n.preview, n.at_us

-- fragment: live_node
-- The one live node of session `s` under an id, as a position behind it.
SELECT s.key AS session, n.branch, n.ordinal + 1 AS length
      FROM session s
      JOIN node n ON n.node_id = :leaf AND n.owner IN {owners}
      JOIN branch b ON b.id = n.branch
     WHERE s.id = :session_id AND {sees} AND {visible}

-- fragment: chain
-- The branches that contribute to the path ending at `start`, leaf side first, and the ordinal
-- below which that path ends: a hidden node ends it, and so does the end of what was inherited,
-- also where the branch below has been dropped since.
-- One segment more than `last` needs is walked, to know whether older nodes exist.
chain (session, branch, owner, parent, base, upto, lowest) AS (
    SELECT start.session, b.id, b.owner, b.parent, b.base, start.length,
           max(start.length - coalesce(:last, start.length), 0)
      FROM start JOIN branch b ON b.id = start.branch
     UNION ALL
    SELECT chain.session, b.id, b.owner, b.parent, b.base, chain.base, chain.lowest
      FROM chain JOIN branch b ON b.id = chain.parent
     WHERE chain.base >= chain.lowest
),
behind_hidden (floor) AS (
    SELECT max((SELECT max(h.ordinal) + 1 FROM hidden h
                 WHERE h.session = c.session AND h.branch = c.branch AND h.ordinal < c.upto))
      FROM chain c
),
within_inherited (floor) AS (
    SELECT max(coalesce((SELECT CASE WHEN i.start > c.base THEN i.start ELSE 0 END
                           FROM inherited i
                          WHERE i.session = c.session AND i.branch = c.branch), c.upto))
      FROM chain c WHERE c.owner <> c.session
),
floors (floor) AS (
    SELECT max(coalesce((SELECT floor FROM behind_hidden), 0),
               coalesce((SELECT floor FROM within_inherited), 0), min(c.base))
      FROM chain c
)

-- fragment: path_nodes
SELECT n.ordinal, f.floor, {node_columns}
  FROM floors f CROSS JOIN chain c CROSS JOIN node n
 WHERE n.key BETWEEN (c.branch << {ordinal_bits}) + max(c.base, c.lowest, f.floor)
                 AND (c.branch << {ordinal_bits}) + c.upto - 1
 ORDER BY n.ordinal

-- fragment: head_path
start AS (SELECT key AS session, branch, length FROM session WHERE id = :session_id)

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
SELECT session, branch, length FROM ({live_node});

-- name: read_node
-- The session's key comes first, so that a view need not ask for it.
-- returns: tuples
SELECT s.key, 0, {node_columns}
  FROM session s
  JOIN node n ON n.node_id = :node_id AND n.owner IN {owners}
  JOIN branch b ON b.id = n.branch
 WHERE s.id = :session_id AND {sees} AND {visible};

-- fragment: late_enough
(:after_us IS NULL OR n.at_us > :after_us)

-- name: list_nodes
-- returns: tuples
-- Sequences rise along a branch, so a range of one is one of the other. Of each branch no more is
-- read than the page could hold: the inner loop goes by sequence, and ends when there is enough.
SELECT 0, 0, {node_columns}
  FROM session s JOIN branch b ON b.owner = s.key AND b.detached = 0
  JOIN node n ON n.branch = b.id
 WHERE s.id = :session_id AND n.sequence > :after_sequence AND {late_enough} AND {visible}
 UNION ALL
SELECT 0, 0, {node_columns}
  FROM session s CROSS JOIN inherited i ON i.session = s.key
  CROSS JOIN node n ON n.branch = i.branch
         AND n.sequence > max(:after_sequence,
                              (SELECT e.sequence - 1 FROM node e
                                WHERE e.key = (i.branch << {ordinal_bits}) + i.start))
         AND n.sequence <= (SELECT e.sequence FROM node e
                             WHERE e.key = (i.branch << {ordinal_bits}) + i.upto - 1)
 WHERE s.id = :session_id AND {late_enough} AND {visible}
 ORDER BY 3 LIMIT :limit;

-- fragment: holders
-- The stored nodes of an id, each with one session that sees it: its owner, or whoever inherited it.
SELECT n.owner, n.branch, n.ordinal, coalesce(
           (SELECT s.key FROM branch b JOIN session s ON s.key = b.owner
             WHERE b.id = n.branch AND b.detached = 0 AND {visible}),
           (SELECT s.key FROM inherited i JOIN session s ON s.key = i.session
             WHERE i.branch = n.branch AND n.ordinal >= i.start AND n.ordinal < i.upto
               AND {visible} LIMIT 1)) AS session
      FROM node n WHERE n.node_id = :node_id

-- name: find_nodes
-- In the order of the index that finds them, so that no more are judged than are asked for.
SELECT s.id, h.branch, h.ordinal
  FROM ({holders}) h JOIN session s ON s.key = h.session
 ORDER BY h.owner, h.branch LIMIT :limit;

-- name: find_path
-- returns: tuples
WITH RECURSIVE
start AS (SELECT session, branch, ordinal + 1 AS length FROM ({holders})
           WHERE session IS NOT NULL LIMIT 1),
{chain}
{path_nodes};

-- name: known_nodes
-- The stored state of the ids a delta names, and of the head's leaf: where they are, whether the
-- session may append right behind them, and, for the ids only, their content.
WITH wanted (key, compared) AS (
    SELECT k.key, 1
      FROM session s, json_each(:node_ids) j
      JOIN node k ON k.node_id = j.value AND k.owner IN {owners}
     WHERE s.id = :session_id
     UNION ALL
    SELECT (branch << {ordinal_bits}) + length - 1, 0 FROM session WHERE id = :session_id AND length > 0
)
SELECT n.node_id, n.branch, n.ordinal, n.parent_id, n.user_text,
       coalesce(h.gone = 0, false) AS tombstoned, coalesce(h.gone > 0, false) AS gone,
       b.owner = s.key AND b.detached = 0
       AND NOT EXISTS (SELECT 1 FROM node k WHERE k.key = n.key + 1)
       AND NOT EXISTS (SELECT 1 FROM hidden k WHERE k.session = s.key AND k.branch = n.branch
                          AND k.ordinal = n.ordinal + 1) AS extendable,
       w.compared, CASE WHEN w.compared THEN n.body END AS body,
       n.kind, n.enc, n.tag, n.caused_by, n.agent_frame_id
  FROM wanted w
  JOIN node n ON n.key = w.key
  JOIN branch b ON b.id = n.branch
  JOIN session s ON s.id = :session_id
  LEFT JOIN hidden h ON h.session = s.key AND h.branch = n.branch AND h.ordinal = n.ordinal
 WHERE {sees};

-- name: path_segments
-- The active path by branches, leaf side first, with what decides whether its end may be removed
-- in place, and `cut`, the ordinal a splice removes from.
WITH RECURSIVE
{head_path},
{chain}
SELECT c.branch, c.base, c.upto, c.owner = c.session AS owned,
       coalesce((SELECT max(i.upto) FROM inherited i
                  WHERE i.branch = c.branch AND i.session <> c.session), 0) AS shared_upto,
       coalesce((SELECT max(o.base) FROM branch o
                  WHERE o.parent = c.branch
                    AND o.id NOT IN (SELECT branch FROM chain)), 0) AS other_base,
       EXISTS (SELECT 1 FROM node k WHERE k.key BETWEEN (c.branch << {ordinal_bits}) + c.upto
                                                    AND (c.branch << {ordinal_bits}) + {last_ordinal}) AS beyond,
       f.floor, {cut} AS cut,
       (SELECT k.node_id FROM chain e
          JOIN node k ON k.key = (e.branch << {ordinal_bits}) + {cut} - 1
         WHERE {cut} > e.base AND {cut} <= e.upto AND {cut} > f.floor) AS kept_leaf_id
  FROM floors f CROSS JOIN chain c
 ORDER BY c.upto DESC, c.base DESC;

-- fragment: cut
-- keep counts the visible path; a negative one counts from its end.
(f.floor + CASE WHEN :keep >= 0 THEN min(:keep, (SELECT length FROM start) - f.floor)
                ELSE max((SELECT length FROM start) - f.floor + :keep, 0) END)

-- name: removed_nodes
-- returns: tuples
-- The nodes a splice removes, those nearest the leaf that are to be returned.
WITH RECURSIVE
{head_path},
{chain},
measured (ordinal, bytes) AS (
    SELECT p.ordinal, sum({node_bytes}) OVER (ORDER BY p.ordinal DESC)
      FROM floors f CROSS JOIN chain c CROSS JOIN node p
     WHERE p.key BETWEEN (c.branch << {ordinal_bits})
                         + max(c.base, {cut}, (SELECT length FROM start) - :limit)
                     AND (c.branch << {ordinal_bits}) + c.upto - 1
),
returned (since) AS (
    -- The leaf at least, whatever its size.
    SELECT min(ordinal) FROM measured
     WHERE bytes <= :max_bytes OR ordinal = (SELECT length FROM start) - 1
)
SELECT n.ordinal, f.floor, {node_columns}
  FROM floors f CROSS JOIN returned r CROSS JOIN chain c CROSS JOIN node n
 WHERE n.key BETWEEN (c.branch << {ordinal_bits}) + max(c.base, r.since) AND (c.branch << {ordinal_bits}) + c.upto - 1
 ORDER BY n.ordinal;

-- fragment: node_bytes
-- What a node weighs; no other part of it can be long.
(octet_length(p.body) + coalesce(octet_length(p.caused_by), 0))

-- name: removed_totals
WITH RECURSIVE
{head_path},
{chain}
SELECT count(*) AS nodes, count(n.user_text) AS users,
       min(CASE WHEN n.user_text IS NOT NULL THEN n.sequence END) AS first_user
  FROM floors f CROSS JOIN chain c CROSS JOIN node n
 WHERE n.key BETWEEN (c.branch << {ordinal_bits}) + max(c.base, {cut}) AND (c.branch << {ordinal_bits}) + c.upto - 1;

-- name: reserve_branches
-- Ids of branches are never used twice; nobody else can reserve while we hold the write lock.
WITH RECURSIVE wanted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM wanted WHERE n < :count)
SELECT n + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'branch'), 0) AS id FROM wanted;

-- name: insert_branches
-- bulk: id, parent, base, owner
INSERT INTO branch (id, parent, base, owner) VALUES :rows;

-- name: insert_nodes
-- bulk: branch, ordinal, owner, sequence, node_id, parent_id, kind, enc, tag, body, caused_by, agent_frame_id, role, preview, at_us, user_text
INSERT INTO node (key, owner, sequence, node_id, parent_id, kind, enc, tag, body, caused_by,
                  agent_frame_id, role, preview, at_us, user_text)
SELECT (column1 << {ordinal_bits}) | column2, column3, column4, column5, column6, column7, column8, column9,
       column10, column11, column12, column13, column14, column15, column16
  FROM (VALUES :rows);

-- name: delete_tail
DELETE FROM node WHERE key BETWEEN (:branch << {ordinal_bits}) + :start AND (:branch << {ordinal_bits}) + {last_ordinal};
DELETE FROM hidden WHERE session = :session AND branch = :branch AND ordinal >= :start;
DELETE FROM branch WHERE id = :branch AND :drop_branch;

-- name: hide_tail
INSERT INTO hidden (session, branch, ordinal, gone)
SELECT :session, :branch, n.ordinal, 1 FROM node n
 WHERE n.key BETWEEN (:branch << {ordinal_bits}) + :start AND (:branch << {ordinal_bits}) + :upto - 1
ON CONFLICT DO UPDATE SET gone = max(gone, 1);

-- name: detach_graph
-- Takes a session's whole graph away from it. Some nodes that nobody inherited are removed at once,
-- or lookups by id would meet them again with every replacement; vacuum removes the rest.
DELETE FROM node WHERE key IN (
    SELECT n.key
      FROM branch b CROSS JOIN node n
           ON n.key BETWEEN (b.id << {ordinal_bits})
                            + coalesce((SELECT max(i.upto) FROM inherited i WHERE i.branch = b.id), 0)
                        AND (b.id << {ordinal_bits}) + {last_ordinal}
     WHERE b.owner = :session AND b.detached = 0 LIMIT :max_dropped);
DELETE FROM branch
 WHERE owner = :session AND detached = 0
   AND NOT EXISTS (SELECT 1 FROM inherited i WHERE i.branch = branch.id)
   AND NOT EXISTS (SELECT 1 FROM node n WHERE n.key BETWEEN (branch.id << {ordinal_bits})
                                                AND (branch.id << {ordinal_bits}) + {last_ordinal});
UPDATE branch SET detached = 1 WHERE owner = :session AND detached = 0;
DELETE FROM inherited WHERE session = :session;
DELETE FROM hidden WHERE session = :session;

-- name: revive_nodes
-- bulk: session, branch, ordinal
DELETE FROM hidden WHERE (session, branch, ordinal) IN (VALUES :rows);

-- fragment: doomed
-- What a tombstone newly hides: the live nodes among the ids.
SELECT DISTINCT s.key AS session, n.branch, n.ordinal, n.user_text
      FROM session s, json_each(:node_ids) j
      JOIN node n ON n.node_id = j.value AND n.owner IN {owners}
      JOIN branch b ON b.id = n.branch
     WHERE s.id = :session_id AND s.key = coalesce(:bound_key, s.key) AND {sees} AND {visible}

-- name: forget_tombstoned
-- The counters first, while what is about to be hidden can still be told from what was hidden.
UPDATE session AS t
   SET node_count = t.node_count - (SELECT count(*) FROM ({doomed})),
       user_message_count = t.user_message_count - (SELECT count(user_text) FROM ({doomed}))
 WHERE t.id = :session_id;

-- name: tombstone
INSERT INTO hidden (session, branch, ordinal, gone)
SELECT session, branch, ordinal, 0 FROM ({doomed}) WHERE true
RETURNING ordinal;

-- name: refresh_first_user
{first_user_refreshed};

-- name: replace_first_user
-- Behind a tombstone: another one is looked for only where the first is among the ids.
{first_user_refreshed}
   AND EXISTS (SELECT 1 FROM json_each(:node_ids) j
                 JOIN node n ON n.node_id = j.value AND n.owner IN {owners}
                WHERE n.sequence = s.first_user_sequence);

-- fragment: first_user_refreshed
-- Looks for the first user message that is still visible.
UPDATE session AS s
   SET (first_user_sequence, first_user_message) = (
       SELECT sequence, user_text FROM (
           SELECT * FROM ({first_user}) UNION ALL SELECT NULL, '' LIMIT 1))
 WHERE s.id = :session_id

-- fragment: first_user
SELECT n.sequence, n.user_text FROM node n JOIN branch b ON b.id = n.branch
                WHERE n.owner IN {owners} AND n.user_text IS NOT NULL AND {sees} AND {visible}
                ORDER BY n.sequence LIMIT 1

-- name: inherit_path
-- Makes the path behind a position of `source` visible to `session`, by ranges of branches.
WITH RECURSIVE
start AS (SELECT :source AS session, :branch AS branch, :length AS length),
{chain}
INSERT INTO inherited (session, branch, owner, start, upto)
SELECT :session, c.branch, c.owner, max(c.base, f.floor), c.upto
  FROM floors f CROSS JOIN chain c
 WHERE c.upto > max(c.base, f.floor);

-- name: locate_head
-- The head's position, if its leaf can be seen.
SELECT s.key AS session, s.branch, s.length
  FROM session s JOIN node n ON n.key = (s.branch << {ordinal_bits}) + s.length - 1
 WHERE s.id = :session_id AND s.length > 0 AND {visible};

-- name: adopt_path
-- The head of a session that begins with what it inherited.
UPDATE session
   SET branch = :branch, length = :length, leaf_id = :leaf_id, next_sequence = :next_sequence,
       node_count = (SELECT coalesce(sum(i.upto - i.start), 0) FROM inherited i
                      WHERE i.session = :session),
       user_message_count = (SELECT count(n.user_text)
                               FROM inherited i
                               JOIN node n ON n.key BETWEEN (i.branch << {ordinal_bits}) + i.start
                                                        AND (i.branch << {ordinal_bits}) + i.upto - 1
                              WHERE i.session = :session)
 WHERE key = :session;

-- name: copy_state
-- A fork's first revision: config, frames and every blob the source's head refers to.
INSERT INTO head_state (session, config_enc, config_tag, config, frames, current_frame_id)
SELECT :session, config_enc, config_tag, config, frames, current_frame_id
  FROM head_state WHERE session = :source;
INSERT INTO blob_ref (session, slot, ref)
SELECT :session, slot, ref FROM blob_ref WHERE session = :source;
UPDATE session
   SET head_revision = 1,
       checkpoint_ref = (SELECT checkpoint_ref FROM session WHERE key = :source)
 WHERE key = :session;
