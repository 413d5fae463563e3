"""Section 7.1, frames: what the store reads of them, and the execution states they hold."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, MissingBlob
from holdfast.testing.contract.samples import chain, checkpoint, put
from holdfast.testing.world import World

ABSENT = "0" * 64


def executed(body: bytes, *frames: dict[str, Any], current: str) -> dict[str, Any]:
    """A commit of an execution state, with frames of which one is current."""
    given = {"agent_frames": list(frames), "current_agent_frame_id": current}
    return given | {"checkpoint": checkpoint(1, execution_state=body)}


def refs(store: Any) -> dict[str, str | None]:
    """What each frame refers to."""
    frames = store.sessions.load("s1").agent_frames
    return {frame["frame_id"]: frame.get("execution_state_ref") for frame in frames}


def execution_ref(result: Any) -> str:
    """The ref of the execution state that a commit stored."""
    ref: str = result.component_refs["execution_state"]
    return ref


@pytest.mark.scenario("CHK-T8")
def test_after_a_switch_each_frame_has_its_own_execution_state(store: Any) -> None:
    outer = execution_ref(put(store, "s1", **executed(b"1", {"frame_id": "a"}, current="a")))
    left = {"frame_id": "a", "execution_state_ref": outer, "note": "left"}

    inner = execution_ref(put(store, "s1", **executed(b"2", left, {"frame_id": "b"}, current="b")))

    session = store.sessions.load("s1")
    entered = {"frame_id": "b", "execution_state_ref": inner}
    assert (session.agent_frames, session.current_agent_frame_id) == ([left, entered], "b")
    assert session.checkpoint.components == {"execution_state": b"2"}
    assert store.blobs.get(outer) == b"1"


@pytest.mark.scenario("CHK-T8")
def test_after_switching_back_the_old_frame_goes_on_from_what_it_kept(store: Any) -> None:
    outer = execution_ref(put(store, "s1", **executed(b"1", {"frame_id": "a"}, current="a")))
    left = {"frame_id": "a", "execution_state_ref": outer}
    put(store, "s1", **executed(b"2", left, {"frame_id": "b"}, current="b"))

    back = put(store, "s1", **executed(store.blobs.get(outer), left, current="a"))

    assert refs(store) == {"a": outer}
    assert execution_ref(back) == outer


def test_a_kept_checkpoint_is_the_new_current_frames(store: Any) -> None:
    first = put(store, "s1", **executed(b"1", {"frame_id": "a"}, current="a"))

    put(store, "s1", agent_frames=[{"frame_id": "b"}], current_agent_frame_id="b")

    assert refs(store) == {"b": execution_ref(first)}


def test_without_an_execution_state_the_current_frame_refers_to_none(store: Any) -> None:
    first = put(store, "s1", **executed(b"1", {"frame_id": "a"}, current="a"))
    stale = {"frame_id": "a", "execution_state_ref": execution_ref(first)}

    put(
        store,
        "s1",
        agent_frames=[stale],
        current_agent_frame_id="a",
        checkpoint=checkpoint(2, tool_state=b"t"),
    )

    assert refs(store) == {"a": None}


def test_frames_come_back_as_they_were_given_when_none_is_current(store: Any) -> None:
    ref = store.blobs.put(b"state")
    frames = [
        {"frame_id": "a", "execution_state_ref": ref, "x": [1.5, None, "a\0b"]},
        {"frame_id": "b", "execution_state_ref": None, "execution_state_snapshot": None},
    ]

    put(store, "s1", agent_frames=frames, current_agent_frame_id="")

    session = store.sessions.load("s1")
    assert (session.agent_frames, session.current_agent_frame_id) == (frames, "")


def test_a_frame_may_not_refer_to_bytes_that_are_not_there(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    before = world.dump(store)
    frames = [{"frame_id": "a", "execution_state_ref": ABSENT}, {"frame_id": "b"}]

    with pytest.raises(MissingBlob) as missing:
        put(store, "s1", agent_frames=frames, current_agent_frame_id="b")

    assert (missing.value.ref, missing.value.role) == (ABSENT, "execution_state")
    assert world.dump(store) == before


REFUSED: list[tuple[list[Any], str, str]] = [
    ([{"frame_id": "a", "execution_state_snapshot": "bytes"}], "a", "execution_state_snapshot"),
    ([{"frame_id": "a", "execution_state_snapshot": {}}], "", "execution_state_snapshot"),
    ([{"frame_id": "a"}, {"frame_id": "a"}], "a", "frame_id"),
    ([{"name": "a"}], "", "frame_id"),
    ([{"frame_id": 1}], "", "frame_id"),
    (["a"], "", "agent_frames"),
    ([{"frame_id": "a", "execution_state_ref": 5}], "", "execution_state_ref"),
    ([{"frame_id": "a"}], "b", "current_agent_frame_id"),
]


def test_what_is_no_frame_is_refused(store: Any) -> None:
    for frames, current, field in REFUSED:
        with pytest.raises(InvalidArgument) as refused:
            put(store, "s1", agent_frames=frames, current_agent_frame_id=current)
        assert field in refused.value.field

    assert store.sessions.load("s1") is None
