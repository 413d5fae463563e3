"""Section 7.3: names that point at bytes and keep them alive."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Artifact, BlobDescriptor, BlobKind, InvalidArgument, MissingBlob
from holdfast.testing.contract.samples import checkpoint, put
from holdfast.testing.world import World


@pytest.mark.scenario("BLB-T6")
def test_equal_names_in_two_namespaces_are_independent(store: Any) -> None:
    store.artifacts.put("module", "name", b"one")
    store.artifacts.put("my own", "name", b"two")

    assert store.artifacts.get("module", "name") == b"one"
    assert store.artifacts.get("my own", "name") == b"two"
    assert store.artifacts.delete("module", "name")
    assert store.artifacts.get("my own", "name") == b"two"


@pytest.mark.scenario("BLB-T7")
def test_a_deleted_artifact_is_absent_and_deleting_it_again_is_false(store: Any) -> None:
    store.artifacts.put("ns", "name", b"content")

    assert store.artifacts.delete("ns", "name") is True
    assert store.artifacts.get("ns", "name") is None
    assert store.artifacts.delete("ns", "name") is False


@pytest.mark.scenario("BLB-T7")
def test_a_collection_removes_the_bytes_of_a_deleted_artifact(store: Any) -> None:
    ref = store.artifacts.put("ns", "name", b"content")
    store.maintenance.collect_garbage()
    assert store.blobs.has(ref)

    store.artifacts.delete("ns", "name")
    store.maintenance.collect_garbage()

    assert not store.blobs.has(ref)


@pytest.mark.scenario("BLB-T7")
@pytest.mark.parametrize("by", ["artifact", "checkpoint"])
def test_bytes_that_something_else_refers_to_stay(store: Any, by: str) -> None:
    ref = store.artifacts.put("ns", "name", b"content")
    if by == "artifact":
        store.artifacts.put("ns", "other", b"content")
    else:
        put(store, "s1", checkpoint=checkpoint(1, tool_state=b"content"))

    store.artifacts.delete("ns", "name")
    store.maintenance.collect_garbage()

    assert store.blobs.get(ref) == b"content"


def test_putting_again_replaces_the_pointer(store: Any) -> None:
    old = store.artifacts.put("ns", "name", b"old")

    new = store.artifacts.put("ns", "name", b"new", BlobDescriptor(BlobKind.MODULE_ARTIFACT))

    assert store.artifacts.get("ns", "name") == b"new"
    store.maintenance.collect_garbage()
    assert (store.blobs.has(old), store.blobs.has(new)) == (False, True)


def test_a_pointer_to_lost_bytes_is_reported(world: World, store: Any) -> None:
    ref = store.artifacts.put("ns", "name", b"content")
    world.sql(store, "DELETE FROM {blob}")

    with pytest.raises(MissingBlob) as fault:
        store.artifacts.get("ns", "name")

    assert fault.value.ref == ref


def test_names_are_listed_in_order_by_pages(store: Any) -> None:
    refs = {name: store.artifacts.put("ns", name, name.encode()) for name in ("b", "ä", "a", "C")}
    store.artifacts.put("other", "z", b"z")

    first = store.artifacts.list("ns", limit=3)
    rest = store.artifacts.list("ns", after=first[-1].name)

    names = [artifact.name for artifact in (*first, *rest)]
    assert names == ["C", "a", "b", "ä"]
    assert first[0] == Artifact("C", refs["C"])
    assert store.artifacts.list("ns", limit=0) == []


@pytest.mark.parametrize(
    ("namespace", "name", "field"),
    [("", "n", "namespace"), ("ns", " ", "name"), ("ns", "n" * 1025, "name")],
)
def test_names_are_identifiers_and_keys(store: Any, namespace: str, name: str, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        store.artifacts.put(namespace, name, b"")

    assert refused.value.field == field
