"""Section 13 in a bucket: the rules of every byte backend, against a server that speaks S3."""

from __future__ import annotations

import io
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

import holdfast
from holdfast import (
    AttachmentNotFound,
    BlobCorrupt,
    Durability,
    InvalidArgument,
    StoreUnavailable,
)
from holdfast.attachments.s3 import MAX_BYTES, S3Bytes
from holdfast.testing.calm import Calm, Loop
from holdfast.testing.contract import s3_children as children
from holdfast.testing.contract.test_attachments import LARGE, MIB, SMALL, sha256
from holdfast.testing.objects import OPTIONS, make_bucket, s3_server
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import make_world

EVER = 2**62
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A server that these tests share."""
    with s3_server() as url:
        yield url


@pytest.fixture
def bucket(server: str) -> str:
    """A bucket of a test's own."""
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    make_bucket(server, name)
    return name


@pytest.fixture
def backend(server: str, bucket: str) -> S3Bytes:
    """Bytes below a prefix of it."""
    return S3Bytes(bucket, "some/where", endpoint=server, **OPTIONS)


@pytest.fixture
def below(server: str, bucket: str) -> S3Store:
    """A way beneath."""
    return S3Store(bucket, endpoint=server, **OPTIONS)


@pytest.fixture(params=["blocking", "async"])
def store(request: pytest.FixtureRequest, backend: S3Bytes) -> Iterator[Any]:
    """A store whose attachments are in the bucket, in each colour."""
    with holdfast.open("sqlite://", attachments=backend) as opened:
        if request.param == "blocking":
            yield opened
            return
        loop = Loop()
        yield Calm(opened.aio, loop)
        loop.close()


def _keys(below: S3Store) -> list[str]:
    return sorted(seen["path"] for page in obstore.list(below) for seen in page)


@pytest.mark.scenario("ATT-T1", "ATT-T8")
@pytest.mark.parametrize("content", [b"", SMALL, LARGE * 9], ids=["empty", "small", "large"])
def test_what_is_put_comes_back(store: Any, below: S3Store, content: bytes) -> None:
    told: list[int] = []

    ref = store.attachments.put("s1", io.BytesIO(content), label="l", progress=told.append)

    assert (ref.id, ref.byte_len, ref.label) == (sha256(content), len(content), "l")
    assert store.attachments.get("s1", ref.id) == content
    assert b"".join(store.attachments.stream("s1", ref.id)) == content
    assert told[-1] == len(content)
    assert _keys(below) == [f"some/where/sha256/{ref.id[:2]}/{ref.id}"]
    with pytest.raises(AttachmentNotFound):
        store.attachments.get("s2", ref.id)


@pytest.mark.scenario("ATT-T2")
def test_unknown_bytes_are_not_found_and_may_be_deleted_twice(backend: S3Bytes) -> None:
    id = sha256(SMALL)
    assert backend.head(id) is None
    with pytest.raises(AttachmentNotFound):
        backend.get(id)
    backend.delete(id)
    backend.put(SMALL)
    backend.delete(id)
    backend.delete(id)
    with pytest.raises(AttachmentNotFound):
        backend.get(id)


@pytest.mark.scenario("ATT-T2")
def test_another_program_finds_them(server: str, bucket: str, backend: S3Bytes) -> None:
    id = backend.put(SMALL).id
    assert backend.persistence is Durability.DURABLE

    assert S3Bytes(bucket, "some/where", endpoint=server, **OPTIONS).get(id) == SMALL
    assert S3Bytes(bucket, "else/where", endpoint=server, **OPTIONS).list() == []


@pytest.mark.scenario("ATT-T3", "ATT-T18")
def test_a_listing_goes_by_pages_and_passes_strays_over(backend: S3Bytes, below: S3Store) -> None:
    ids = sorted(backend.put(b"%d" % number).id for number in range(7))
    backend.put(b"3")
    backend.delete(ids.pop(3))
    for stray in ("notes", f"sha256/{ids[0]}", f"sha256/zz/{ids[0]}", f"sha256/{ids[0][:2]}/x"):
        obstore.put(below, f"some/where/{stray}", b"stray")

    assert [entry.id for entry in backend.list()] == ids
    first = backend.list(limit=4)
    assert [entry.id for entry in (*first, *backend.list(first[-1].id, 4))] == ids
    assert backend.list(ids[-1]) == []


@pytest.mark.scenario("ATT-T22")
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_altered_bytes_are_told(store: Any, below: S3Store, content: bytes) -> None:
    id = store.attachments.put("s1", content).id
    obstore.put(below, f"some/where/sha256/{id[:2]}/{id}", b"other bytes")

    with pytest.raises(BlobCorrupt):
        store.attachments.get("s1", id)
    with pytest.raises(BlobCorrupt):
        list(store.attachments.stream("s1", id))


def test_a_reader_may_be_slow(server: str, bucket: str, backend: S3Bytes) -> None:
    content = os.urandom(MIB) * 24
    id = backend.put(content).id
    hurried: dict[str, Any] = OPTIONS | {
        "client_options": {"allow_http": True, "timeout": "1s"},
        "retry_config": {"max_retries": 0},
    }
    slow = S3Bytes(bucket, "some/where", endpoint=server, **hurried)
    found = bytearray()
    waits = 0

    for piece in slow.stream(id):
        found += piece
        if len(found) > waits * 8 * MIB:
            waits += 1
            time.sleep(1.2)  # the limit of the request passes

    assert waits == 3
    assert found == content


def test_a_stream_that_gets_nowhere_ends(backend: S3Bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    id = backend.put(LARGE).id
    get, asked = backend._get, []

    def broken(id: str, offset: int) -> Any:
        asked.append(offset)
        size, pieces = get(id, offset)
        return size, _breaking(pieces, 1 if not offset else 0)

    monkeypatch.setattr(backend, "_get", broken)
    read = []
    with pytest.raises(StoreUnavailable) as told:
        for piece in backend.stream(id):
            read.append(len(piece))

    assert told.value.retryable
    assert len(read) == 1
    assert asked == [0] + [read[0]] * 3


def _breaking(pieces: Iterator[Any], after: int) -> Iterator[Any]:
    yield from itertools.islice(pieces, after)
    raise OSError("the connection is gone")


def test_a_request_has_no_limit_as_a_whole_unless_the_caller_sets_one(
    server: str, bucket: str
) -> None:
    told = [
        S3Bytes(bucket, endpoint=server, **OPTIONS | {"client_options": given})._store
        for given in ({}, {"allow_http": True, "timeout": "3s"})
    ]
    assert [each.client_options for each in told] == [
        {"timeout": "30days", "connect_timeout": "10s", "read_timeout": "5min"},
        {"timeout": "3s", "connect_timeout": "10s", "read_timeout": "5min", "allow_http": "true"},
    ]

    # A limit among the options themselves is kept to as well: no answer is that fast.
    plain = {name: given for name, given in OPTIONS.items() if name != "client_options"}
    hurried = S3Bytes(bucket, endpoint=server, allow_http=True, timeout="1ns", **plain)
    with pytest.raises(StoreUnavailable):
        hurried.put(SMALL)
    patient = S3Bytes(bucket, endpoint=server, allow_http=True, client_options=None, **plain)
    assert patient.put(SMALL).id


@pytest.mark.scenario("ATT-T9")
def test_bytes_go_with_the_last_reference(store: Any, below: S3Store) -> None:
    for session_id in ("a", "b"):
        id = store.attachments.put(session_id, LARGE).id
        store.attachments.commit_refs(session_id, [id])
    time.sleep(0.01)
    counts = []
    for session_id in ("nobody", "a", "b"):
        store.attachments.delete(session_id, id)
        counts.append(store.maintenance.reclaim_attachments(0).reclaimed_count)

    assert counts == [0, 0, 1]
    assert _keys(below) == []


@pytest.mark.scenario("ATT-T24")
def test_no_store_sweeps_bytes_that_may_be_anothers(
    tmp_path: Path, backend: S3Bytes, below: S3Store
) -> None:
    def opened(name: str) -> Any:
        return holdfast.open(f"sqlite:///{tmp_path / name}.db", attachments=backend)

    obstore.put(below, "some/where/stores/readme.txt", b"no store")
    with opened("one") as one, opened("other") as other:
        id = one.attachments.put("s1", SMALL).id
        with pytest.raises(InvalidArgument) as refused:
            other.maintenance.reclaim_attachments(0)
        assert refused.value.field == "backend"
        one.attachments.delete("s1", id)
        time.sleep(1.1)  # the server counts in seconds
        assert one.maintenance.reclaim_attachments(0).reclaimed_count == 1


@pytest.mark.scenario("ATT-T21")
def test_an_upload_that_was_not_published_is_swept(backend: S3Bytes, below: S3Store) -> None:
    cut_off, finished, given_up = backend.stage(), backend.stage(), backend.stage()
    for staged in (cut_off, finished, given_up):
        staged.write(bytes(9 * MIB))
    writer: Any = finished
    writer._writer.close()
    given_up.discard()
    given_up.discard()

    assert backend.list() == []
    assert len(_keys(below)) == 1
    assert backend.sweep_staging(0) == 0
    assert backend.sweep_staging(EVER) == 1
    assert _keys(below) == []


def test_a_sweep_removes_only_staging_of_ours(backend: S3Bytes, below: S3Store) -> None:
    names = ("customers.csv", "app/config.json", "app/" + "0" * 32, "A" * 32, "0" * 33)
    strays = [f"some/where/staging/{name}" for name in names]
    for stray in (*strays, "some/where/staging/" + "0" * 32):
        obstore.put(below, stray, b"bytes")

    assert backend.sweep_staging(EVER) == 1
    assert _keys(below) == sorted(strays)


@pytest.mark.scenario("ATT-T21")
def test_a_put_that_is_killed_leaves_nothing_to_read_and_nothing_after_a_sweep(
    server: str, bucket: str, backend: S3Bytes, below: S3Store
) -> None:
    with make_world("memory", "blocking") as world:
        (ids,) = together(spawn(world, children.die_in_puts, server, bucket))
    fates = dict(zip(children.MOMENTS, ids, strict=True))

    published = fates.pop("copied")
    assert [entry.id for entry in backend.list()] == [published]
    assert sha256(backend.get(published)) == published
    for id in fates.values():
        assert backend.head(id) is None
        with pytest.raises(AttachmentNotFound):
            backend.get(id)

    assert backend.sweep_staging(EVER) == 2, "what was uploaded as a whole"
    assert _keys(below) == [f"some/where/sha256/{published[:2]}/{published}"]


def test_a_forked_process_is_told_so_and_disturbs_nobody(
    server: str, bucket: str, backend: S3Bytes
) -> None:
    with make_world("memory", "blocking") as world:
        ((answers, after, early),) = together(spawn(world, children.fork_and_use, server, bucket))

    assert answers == [["forked", False]] * len(answers)
    assert len(answers) == 16
    assert (after, early) == (sha256(b"after"), sha256(b"early"))
    found = {entry.id for entry in backend.list()}
    assert found == {after, early, sha256(b"before")}


def test_a_source_that_breaks_off_leaves_nothing(store: Any, below: S3Store) -> None:
    def pieces() -> Iterator[bytes]:
        yield from (bytes(MIB) for _ in range(20))
        raise EOFError

    with pytest.raises(EOFError):
        store.attachments.put("s1", pieces())

    assert _keys(below) == []
    assert store.attachments.list_refs() == []


def test_a_duplicate_is_as_if_written_now(backend: S3Bytes) -> None:
    id = backend.put(LARGE).id
    first = backend.head(id)
    time.sleep(1.1)  # the server counts in seconds

    backend.put(io.BytesIO(LARGE))

    again = backend.head(id)
    assert first is not None
    assert again is not None
    assert (again.modified_at_ms or 0) > (first.modified_at_ms or 0)


def test_a_server_that_is_gone_is_told_as_such() -> None:
    with s3_server() as url:
        make_bucket(url, "bucket")
        backend = S3Bytes("bucket", endpoint=url, **OPTIONS)
        id = backend.put(SMALL).id
    with holdfast.open("sqlite://", attachments=backend) as store:
        store.attachments.record_intent("s1", id)
        calls: list[Callable[[], Any]] = [
            lambda: store.attachments.put("s1", SMALL),
            lambda: store.attachments.put("s1", LARGE),
            lambda: store.attachments.get("s1", id),
            lambda: backend.head(id),
            lambda: backend.delete(id),
            lambda: store.maintenance.reclaim_attachments(60_000),
        ]
        for call in calls:
            with pytest.raises(StoreUnavailable) as told:
                call()
            assert told.value.retryable
        assert store.attachments.holds("s1", sha256(LARGE)), "its intent is on record"


def test_a_bucket_that_is_missing_is_told_as_such(server: str) -> None:
    backend = S3Bytes("no-such-bucket", endpoint=server, **OPTIONS)
    id = sha256(SMALL)
    calls: list[Callable[[], Any]] = [
        lambda: backend.put(SMALL),
        lambda: backend.put(iter([LARGE, LARGE])),
        lambda: backend.get(id),
        lambda: backend.head(id),
        lambda: backend.list(),
        lambda: backend.delete(id),
        lambda: backend.stores(),
        lambda: backend.sweep_staging(EVER),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable) as told:
            call()
        assert "NoSuchBucket" in told.value.cause
        assert not told.value.retryable


@pytest.mark.parametrize("error", [PermissionDeniedError, UnauthenticatedError])
def test_who_may_not_need_not_try_again(
    backend: S3Bytes, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error("no")

    for name in ("get", "head", "put", "delete", "copy"):
        monkeypatch.setattr(obstore, name, refuse)
    id = sha256(SMALL)
    for call in (backend.get, backend.head, backend.delete, lambda _: backend.put(SMALL)):
        with pytest.raises(StoreUnavailable) as told:
            call(id)
        assert not told.value.retryable


def test_what_is_published_was_put_whatever_becomes_of_its_staging(
    store: Any,
    backend: S3Bytes,
    below: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionDeniedError("may not delete")

    with monkeypatch.context() as patched:
        patched.setattr(obstore, "delete", refuse)
        ref = store.attachments.put("s1", LARGE)

    assert store.attachments.get("s1", ref.id) == LARGE
    assert "left to the sweep" in caplog.text
    assert len(_keys(below)) == 2
    assert backend.sweep_staging(EVER) == 1


def test_a_staging_that_is_swept_before_it_is_published_ends_the_put(
    backend: S3Bytes, below: S3Store
) -> None:
    staged: Any = backend.stage()
    staged.write(LARGE)
    staged._writer.close()
    assert backend.sweep_staging(EVER) == 1
    with pytest.raises(StoreUnavailable) as told:
        backend.rename(staged._key, sha256(LARGE))
    assert (told.value.cause, told.value.retryable) == ("its staging was swept", True)
    assert _keys(below) == []


def test_a_listing_of_nothing_is_empty(backend: S3Bytes) -> None:
    backend.put(SMALL)
    assert backend.list(limit=0) == []


def test_what_one_copy_cannot_move_is_refused(backend: S3Bytes) -> None:
    backend.max_bytes = MIB
    with pytest.raises(InvalidArgument):
        backend.put(bytes(MIB) for _ in range(2))
    assert S3Bytes.max_bytes == MAX_BYTES == 5 * 1024**3


def test_a_wrong_bucket_or_option_is_told_at_once() -> None:
    with pytest.raises(InvalidArgument):
        S3Bytes("")
    with pytest.raises(InvalidArgument) as refused:
        S3Bytes("bucket", no_such_option="x")
    assert refused.value.field == "options"
    with pytest.raises(InvalidArgument) as refused:
        S3Bytes("bucket", client_options="x")
    assert refused.value.field == "options"


@pytest.mark.parametrize(
    "prefix", ["a//b", "..", "a/../b", ".", "a/b/.", "x\n", "a\x7fb", "\0", "\ud800", 5]
)
def test_a_prefix_no_key_can_begin_with_is_told_at_once(prefix: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        S3Bytes("bucket", prefix)
    assert refused.value.field == "prefix"


@pytest.mark.parametrize("prefix", ["", "/", "a b/ü", "/a/b/", "a%41#?*\\b", "...", "~[x]"])
def test_any_other_prefix_will_do(server: str, bucket: str, prefix: str) -> None:
    backend = S3Bytes(bucket, prefix, endpoint=server, **OPTIONS)
    for content in (SMALL, LARGE):
        assert backend.get(backend.put(content).id) == content
    assert len(backend.list()) == 2
