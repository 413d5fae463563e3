import msgspec
import pytest

from holdfast.model.checkpoints import CheckpointDraft, Component
from holdfast.model.commits import RuntimeCommit, TurnStamp
from holdfast.model.graph import Append, Node, ReplaceFull, Splice, Unchanged
from holdfast.model.inputs import TurnInputCompletion
from holdfast.model.leases import Lease, LeaseOwner
from holdfast.model.queue import Group, QueuedWorkBatchDraft, QueuedWorkCompletion
from holdfast.model.sessions import Child, SessionCreate, StartAt
from holdfast.model.usage import TokenLedgerEntry, TokenUsage
from holdfast.model.values import ANY, CURRENT_LEAF, PREVIOUS, Payload, Tag
from holdfast.rules.canonical import digest, sha256_hex
from holdfast.rules.turn_hash import turn_commit_hash

ABC = sha256_hex(b"abc")


def message(role, text, **more):
    return {"role": role, "parts": [{"type": "text", "text": text}]} | more


def node(name, body, parent=PREVIOUS, **more):
    return Node(node_id=name, parent_node_id=parent, body=body, **more)


def question(name="u", parent="outside"):
    return node(name, message("user", "hi"), parent)


TURN = RuntimeCommit(
    session_id="s1",
    expected_head_revision=3,
    config={"model": "m", "provider_id": "p"},
    agent_frames=[],
    current_agent_frame_id="",
    graph=Append([question(), node("a", message("assistant", "hello"), "u")], leaf="a"),
    checkpoint=CheckpointDraft(turn_state={"turn_index": 1}, components={"tool_state": b"abc"}),
    usage_deltas=[TokenLedgerEntry("chat", "m", TokenUsage(input_tokens=3, output_tokens=2))],
    completed_queue_claims=[
        QueuedWorkCompletion(
            session_id="s1", claim_id="c", claim_token="t", batch_ids=["qwb:b1", "qwb:b1"]
        )
    ],
)
LIGHT = RuntimeCommit(
    session_id="s1", expected_head_revision=ANY, graph=Append([question(parent=CURRENT_LEAF)])
)
DRAFT = QueuedWorkBatchDraft(session_id="s1", payloads=[{"type": "tick"}])
LEASE = Lease("s1", LeaseOwner("o", "i"), "secret", 1, 0, 1)


def changed(commit, **fields):
    return msgspec.structs.replace(commit, **fields)


def with_nodes(*nodes, leaf=None):
    return changed(LIGHT, graph=Append(list(nodes)) if leaf is None else Append(list(nodes), leaf))


def test_the_vectors_of_the_contract():
    assert turn_commit_hash(TURN) == (
        "04224e66592434d14d6127b29fbb1147ab5615961b463c0f08c1a3d4e87934c0"
    )
    assert turn_commit_hash(LIGHT) == (
        "8d63a966b693ec67dcd6f4a4a2ba265e5222b675e455940998d6719c18f4239e"
    )


@pytest.mark.parametrize(
    "same",
    [
        changed(TURN, expected_head_revision=ANY),
        changed(TURN, expected_head_revision=Tag("t"), head_tag="u", activity_us=5),
        changed(TURN, session_execution_lease=LEASE, release_session_execution_lease=True),
        changed(TURN, turn_commit=TurnStamp("s1", "t1", "other")),
        changed(
            TURN,
            graph=Append(
                [
                    question("x", "elsewhere"),
                    node("y", message("assistant", "hello"), at_us=4, role="user", preview="p"),
                ]
            ),
        ),
        changed(
            TURN,
            graph=Append(
                [
                    node("u", message("user", "hi", id="m7"), "outside"),
                    node(
                        "a",
                        {
                            "role": "assistant",
                            "parts": [{"type": "text", "text": "hello", "id": 1}],
                        },
                    ),
                ]
            ),
        ),
        changed(
            TURN,
            checkpoint=CheckpointDraft(
                turn_state={"turn_index": 1}, components={"tool_state": Component(ref=ABC)}
            ),
        ),
        changed(
            TURN,
            checkpoint=CheckpointDraft(
                turn_state={"turn_index": 1},
                components={"tool_state": Component(body=b"abc", ref="x"), "gone": Component()},
            ),
        ),
    ],
)
def test_what_does_not_count(same):
    assert turn_commit_hash(same) == turn_commit_hash(TURN)


def test_each_difference_counts():
    body = message("user", "hi")
    commits = [
        TURN,
        changed(TURN, session_id="s2"),
        changed(TURN, config={"model": "n", "provider_id": "p"}),
        changed(TURN, config=Payload(b"{}", "t")),
        changed(TURN, config=Payload(b"{}", "u")),
        changed(TURN, config=["t", sha256_hex(b"{}")]),
        changed(TURN, agent_frames=[{"frame_id": "f"}], current_agent_frame_id="f"),
        changed(TURN, agent_frames=[{"frame_id": "f"}]),
        changed(TURN, usage_deltas=[]),
        changed(TURN, checkpoint=CheckpointDraft(turn_state={"turn_index": 2})),
        changed(TURN, checkpoint=CheckpointDraft(turn_state={"turn_index": 1})),
        changed(TURN, checkpoint=CheckpointDraft(turn_state={}, components={"turn_state": b"abc"})),
        changed(TURN, checkpoint=CheckpointDraft(turn_state={}, plugin_snapshot_revision=0)),
        changed(TURN, create=SessionCreate(session_id="s1")),
        changed(TURN, create=SessionCreate(session_id="s1", scope=("a",))),
        changed(TURN, create=SessionCreate(session_id="s1", relation=Child("p"))),
        changed(TURN, create=SessionCreate(session_id="s1", start_at=StartAt("n"))),
        LIGHT,
        changed(LIGHT, graph=Unchanged()),
        changed(LIGHT, graph=Unchanged(None)),
        changed(LIGHT, graph=Unchanged("n")),
        changed(LIGHT, graph=ReplaceFull([question(parent=None)])),
        changed(LIGHT, graph=ReplaceFull([])),
        changed(LIGHT, graph=Splice(-1)),
        changed(LIGHT, graph=Splice(0)),
        changed(LIGHT, graph=Splice(0, [question(parent=PREVIOUS)])),
        with_nodes(node("a", body, None)),
        with_nodes(node("a", body, "outside")),
        with_nodes(node("a", body, "outside"), leaf="other"),
        with_nodes(node("a", body, kind="protocol")),
        with_nodes(node("a", body | {"id": "m1"}, kind="protocol")),
        with_nodes(node("a", body | {"timestamp": 1})),
        with_nodes(node("a", body | {"meta": {"id": 1}})),
        with_nodes(node("a", body | {"meta": {"id": 2}})),
        with_nodes(node("a", body, caused_by={})),
        with_nodes(node("a", body, agent_frame_id="f")),
        with_nodes(node("a", Payload("x", "t"))),
        with_nodes(node("a", Payload("x", "u"))),
        with_nodes(node("a", Payload("y", "t"))),
        with_nodes(node("a", ["t", sha256_hex(b"x")])),
        with_nodes(node("a", body), node("b", body)),
        with_nodes(node("a", body, "outside"), node("b", body, "outside")),
        with_nodes(node("a", body, "outside"), node("b", body), leaf="a"),
    ]
    assert len({turn_commit_hash(commit) for commit in commits}) == len(commits)


def test_a_payload_counts_as_its_tag_and_bytes():
    text, data = (with_nodes(node("a", Payload(value, "t"))) for value in ("x", b"x"))
    assert turn_commit_hash(text) == turn_commit_hash(data)


def settling(*input_ids):
    done = TurnInputCompletion(session_id="s1", claim_id="c", claim_token="t", input_ids=input_ids)
    return changed(LIGHT, completed_turn_input_claims=[done])


def enqueuing(*drafts):
    return changed(LIGHT, enqueued_queue_batches=drafts)


def test_the_fields_of_the_queue_count():
    commits = [
        LIGHT,
        changed(LIGHT, completed_queue_claims=TURN.completed_queue_claims),
        settling("qwb:b1"),
        settling("a", "b"),
        changed(LIGHT, interrupted_turn_input_turn_id="t1"),
        enqueuing(DRAFT),
        enqueuing(DRAFT, DRAFT),
        enqueuing(changed(DRAFT, source_key="k")),
        enqueuing(changed(DRAFT, merge_key=Group("never"))),
        enqueuing(changed(DRAFT, available_at_ms=1)),
    ]
    assert len({turn_commit_hash(commit) for commit in commits}) == len(commits)


def test_claims_count_by_what_they_hold():
    assert turn_commit_hash(settling("b", "a")) == turn_commit_hash(settling("a", "b"))
    again = QueuedWorkCompletion(
        session_id="s1", claim_id="d", claim_token="u", batch_ids=["qwb:b1"]
    )
    same = changed(TURN, completed_queue_claims=[again], originating_claims=[again])
    assert turn_commit_hash(same) == turn_commit_hash(TURN)


def test_a_frames_creation_time_is_dropped_there_and_nowhere_else():
    def framed(frame):
        return turn_commit_hash(changed(LIGHT, agent_frames=[frame], current_agent_frame_id="f"))

    assert framed({"frame_id": "f", "created_at": 1}) == framed({"frame_id": "f"})
    assert framed({"frame_id": "f", "x": {"created_at": 1}}) != framed({"frame_id": "f", "x": {}})


def test_the_splice_and_open_roles_as_written_down():
    commit = changed(
        LIGHT,
        graph=Splice(-2, [question(parent=PREVIOUS)]),
        checkpoint=CheckpointDraft(turn_state=None, components={"memory": b"abc"}),
    )
    assert turn_commit_hash(commit) == digest(
        "holdfast.turn-commit",
        {
            "session_id": "s1",
            "config": "keep",
            "agent_frames": "keep",
            "graph": {
                "kind": "splice",
                "keep": -2,
                "nodes": [
                    {"parent": "current_leaf", "kind": "message", "body": message("user", "hi")}
                ],
            },
            "checkpoint": {"turn_state": None, "components": {"memory": ABC}},
            "usage_deltas": [],
            "completed_batches": [],
            "completed_inputs": [],
            "attachments": [],
            "outbox": [],
        },
    )
