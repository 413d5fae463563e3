"""A server that speaks S3, on the loopback interface, for as long as a test needs it."""

from __future__ import annotations

import logging
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Options of `S3Bytes` for such a server.
OPTIONS: dict[str, Any] = {
    "access_key_id": "anybody",
    "secret_access_key": "anything",
    "region": "us-east-1",
    "client_options": {"allow_http": True},
    "retry_config": {"max_retries": 1},
}


@contextmanager
def s3_server() -> Iterator[str]:
    """The URL of a fresh server, which ends with the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_bucket(url: str, name: str) -> None:
    """A bucket without anything in it."""
    request = urllib.request.Request(f"{url}/{name}", method="PUT")
    urllib.request.urlopen(request, timeout=10).close()
