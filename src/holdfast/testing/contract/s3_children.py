"""What other operating-system processes do with a bucket in the tests of the contract."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import holdfast
from holdfast import StoreUnavailable
from holdfast.attachments.s3 import S3Bytes
from holdfast.testing.objects import OPTIONS

MIB = 1024 * 1024
PREFIX = "some/where"
#: When a put is killed: at these MiB of it, or at one of its last steps.
MOMENTS: tuple[int | str, ...] = (0, 1, 5, 9, 13, 17, "uploaded", "copied")


def bytes_in(url: str, bucket: str) -> S3Bytes:
    """The backend that these processes and their test share."""
    return S3Bytes(bucket, PREFIX, endpoint=url, **OPTIONS)


def content(number: int) -> bytes:
    """What one of them puts: two parts of an upload, and some."""
    return b"%d" % number + bytes(18 * MIB)


def die_in_puts(store: Any, url: str, bucket: str) -> list[str]:
    """The ids of what processes put that were killed meanwhile, each at another moment."""
    store.close()
    ids = []
    for number, moment in enumerate(MOMENTS):
        child = os.fork()
        if not child:
            _put_and_die(url, bucket, content(number), moment)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == -signal.SIGKILL, (moment, status)
        ids.append(hashlib.sha256(content(number)).hexdigest())
    return ids


def _put_and_die(url: str, bucket: str, body: bytes, moment: int | str) -> None:
    def pieces() -> Iterator[bytes]:
        for at in range(0, len(body), MIB):
            if moment == at // MIB:
                _die()
            yield body[at : at + MIB]

    try:
        backend: Any = bytes_in(url, bucket)
        if moment == "uploaded":
            backend.rename = _die
        if moment == "copied":
            backend.remove = _die
        with holdfast.open("sqlite://", attachments=backend) as store:
            store.attachments.put("s1", pieces())
    finally:
        os._exit(1)


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fork_and_use(store: Any, url: str, bucket: str) -> tuple[list[list[Any]], str, str]:
    """What every operation answers in a forked process; an id that was put here behind it.

    At last an id that was put in a process that was forked before anything was put here.
    """
    store.close()
    early = _in_a_fork(lambda: bytes_in(url, bucket).put(b"early").id)
    backend = bytes_in(url, bucket)
    id = backend.put(b"before").id

    def use() -> list[list[Any]]:
        again = bytes_in(url, bucket)
        return [_answer(call) for each in (backend, again) for call in _calls(each, id)]

    return _in_a_fork(use), backend.put(b"after").id, early


def _calls(backend: S3Bytes, id: str) -> list[Callable[[], Any]]:
    return [
        lambda: backend.put(b"after"),
        lambda: backend.put(iter([bytes(MIB)] * 3)),
        lambda: backend.get(id),
        lambda: backend.head(id),
        backend.list,
        lambda: backend.delete(id),
        backend.stores,
        lambda: backend.sweep_staging(0),
    ]


def _answer(call: Callable[[], Any]) -> list[Any]:
    try:
        return [str(call())]
    except StoreUnavailable as error:
        return [error.cause, error.retryable]


def _in_a_fork(task: Callable[[], Any]) -> Any:
    """What a task answers in a forked process, which is ended if it does not answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        os.write(writing, json.dumps(task()).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answered:
        answer = answered.read()
    assert os.waitpid(child, 0) == (child, 0)
    return json.loads(answer)
