"""Section 5: the session graph and its reads."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Splice
from holdfast.testing.contract.samples import chain, path_ids, put


@pytest.mark.scenario("GRA-T2")
def test_an_append_follows_earlier_nodes(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    put(store, "s1", graph=chain("c", "d"))

    assert path_ids(store) == ["a", "b", "c", "d"]
    assert store.sessions.picker_info("s1") is None or store.sessions.picker_info("s1").node_count == 4


@pytest.mark.scenario("EXT-T6")
def test_a_splice_takes_nodes_off_the_end(store: Any) -> None:
    put(store, "s1", graph=chain(*"abcdefghij"))

    popped = put(store, "s1", graph=Splice(-1))

    assert [node.node_id for node in popped.removed_nodes] == ["j"]
    assert len(put(store, "s1", graph=Splice(0)).removed_nodes) == 9
    assert put(store, "s1", graph=Splice(-1)).removed_nodes == []
    put(store, "s1", graph=chain("a", "b"))
    assert path_ids(store) == ["a", "b"]
