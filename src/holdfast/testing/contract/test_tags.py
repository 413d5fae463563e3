"""Extensions 2: the head's tag, and commits that expect one (EXT-8)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import HeadRevisionConflict, InvalidArgument, Tag
from holdfast.testing.contract.samples import chain, checkpoint, put
from holdfast.testing.world import World, racing

CONTENTS: dict[str, dict[str, Any]] = {"light": {}, "whole": {"checkpoint": checkpoint()}}


def test_a_tag_stays_until_it_is_changed(store: Any) -> None:
    seen = []
    for given in ({"head_tag": "a"}, {}, {"head_tag": None}, {"head_tag": "\U0001f600"}):
        put(store, "s1", **given)
        seen.append(store.sessions.load("s1").head_tag)

    assert seen == ["a", "a", None, "\U0001f600"]
    assert store.sessions.load("s1").head_revision == 4


@pytest.mark.scenario("EXT-T10")
@pytest.mark.parametrize("content", CONTENTS)
def test_of_two_commits_that_expect_one_tag_one_applies(world: World, content: str) -> None:
    stores = [world.open(), world.open()] if world.is_durable else [world.open()] * 2
    put(stores[0], "s1", head_tag="a")

    def act(number: int) -> Any:
        fields = CONTENTS[content] | {"graph": chain(f"n{number}"), "head_tag": "b"}
        return put(stores[number], "s1", expected_head_revision=Tag("a"), **fields)

    outcomes = racing(2, act)

    refused = [each for each in outcomes if isinstance(each, HeadRevisionConflict)]
    assert len(refused) == 1
    assert (refused[0].expected, refused[0].actual) == (Tag("a"), 2)
    assert refused[0].actual_tag == "b"
    loaded = stores[0].sessions.load("s1")
    assert (loaded.head_revision, loaded.head_tag) == (2, "b")
    assert len(loaded.graph.nodes) == 1


@pytest.mark.scenario("EXT-T10")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_session_made_anew_has_no_tag(store: Any, content: str) -> None:
    put(store, "s1", head_tag="b")
    store.sessions.delete("s1")
    put(store, "s1", graph=chain("a"))

    with pytest.raises(HeadRevisionConflict) as conflict:
        put(store, "s1", expected_head_revision=Tag("b"), **CONTENTS[content])

    assert (conflict.value.actual, conflict.value.actual_tag) == (1, None)


@pytest.mark.parametrize("content", CONTENTS)
def test_no_tag_can_be_expected(store: Any, content: str) -> None:
    put(store, "s1", expected_head_revision=Tag(None), head_tag="a", **CONTENTS[content])

    with pytest.raises(HeadRevisionConflict) as conflict:
        put(store, "s1", expected_head_revision=Tag(None), **CONTENTS[content])

    assert conflict.value.actual_tag == "a"


@pytest.mark.parametrize("tag", ["x" * 129, "\U0001f600" * 33, "a\0b", "\ud800"])
def test_a_tag_that_cannot_be_kept_is_refused(store: Any, tag: str) -> None:
    for fields in ({"head_tag": tag}, {"expected_head_revision": Tag(tag)}):
        with pytest.raises(InvalidArgument):
            put(store, "s1", **fields)
    assert store.sessions.load("s1") is None
