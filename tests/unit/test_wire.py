"""What the counting proxy counts, however the bytes that pass by were cut up."""

from __future__ import annotations

import pytest

from holdfast.testing.wire import Trips

STARTUP = (9).to_bytes(4) + (196_608).to_bytes(4) + b"\0"
TLS, GSSAPI = ((8).to_bytes(4) + number.to_bytes(4) for number in (80_877_103, 80_877_104))


def said(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (4 + len(body)).to_bytes(4) + body


READY = said(b"Z", b"I")
ROW, DONE = said(b"D", b"Z" * 9), said(b"C", b"SELECT 1\0")
GREETING = said(b"R", bytes(4)) + said(b"S", b"TimeZone\0Z\0") + READY
QUERY, SYNC, FLUSH = said(b"Q", b"SELECT 1\0"), said(b"S"), said(b"H")
#: A request of two statements, the first of which holds what looks like other messages.
LONG = said(b"P", FLUSH * 9 + READY) + said(b"B") + said(b"E") + said(b"P") + said(b"E") + SYNC


def counted(*exchange: tuple[str, bytes]) -> tuple[int, int]:
    """How many trips began, and how many were answered, of what client and server said."""
    trips = Trips()
    turns = {"client": 0, "server": 0}
    for speaker, data in exchange:
        note = trips.ask if speaker == "client" else trips.answer
        turns[speaker] += note(data)
    return turns["client"], turns["server"]


def begun(*exchange: tuple[str, bytes]) -> int:
    """How many trips began once the connection was there."""
    asked, answered = counted(("client", STARTUP), ("server", GREETING), *exchange)
    assert answered <= asked
    return asked - 1


@pytest.mark.parametrize(
    ("exchange", "trips"),
    [
        ([], 0),
        ([("client", QUERY)], 1),
        ([("client", QUERY), ("server", ROW + DONE + READY)], 1),
        ([("client", QUERY), ("server", ROW + DONE + READY), ("client", QUERY)], 2),
        # the answer in pieces, one of which ends within what says that it is over
        (
            [
                ("client", QUERY),
                ("server", ROW[:3]),
                ("server", ROW[3:] + DONE + READY[:5]),
                ("server", READY[5:]),
                ("client", QUERY),
            ],
            2,
        ),
        # the server speaks while the request is still coming in
        (
            [
                ("client", LONG[:40]),
                ("server", said(b"1")),
                ("client", LONG[40:90]),
                ("server", said(b"2") + ROW),
                ("client", LONG[90:]),
                ("server", DONE + READY),
            ],
            1,
        ),
        # what it says in between is no end of the request, however much it looks like one
        ([("client", LONG[:40]), ("server", ROW), ("client", LONG[40:])], 1),
        # a client that waits for the answer to a flush has made a trip of it
        ([("client", said(b"P") + FLUSH), ("server", said(b"1")), ("client", SYNC)], 2),
        # news that nobody asked for
        ([("server", said(b"A", b"news")), ("client", QUERY), ("server", READY)], 1),
    ],
)
def test_a_trip_ends_when_all_was_answered(exchange: list[tuple[str, bytes]], trips: int) -> None:
    assert begun(*exchange) == trips


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_how_the_bytes_are_cut_up_changes_nothing(size: int) -> None:
    def cut(speaker: str, data: bytes) -> list[tuple[str, bytes]]:
        return [(speaker, data[at : at + size]) for at in range(0, len(data), size)]

    exchange = [
        *cut("client", TLS),
        *cut("server", b"N"),
        *cut("client", STARTUP),
        *cut("server", said(b"R", (3).to_bytes(4))),
        *cut("client", said(b"p", b"password\0")),
        *cut("server", GREETING),
        *cut("client", LONG),
        *cut("server", ROW + DONE + READY),
        *cut("client", QUERY),
        *cut("server", ROW + DONE + READY),
    ]

    assert counted(*exchange) == (3, 3)


@pytest.mark.parametrize("asked", [[TLS], [GSSAPI], [GSSAPI, TLS]])
def test_connecting_is_one_trip_with_all_it_takes(asked: list[bytes]) -> None:
    refusals = [each for ask in asked for each in (("client", ask), ("server", b"N"))]
    exchange = [*refusals, ("client", STARTUP), ("server", GREETING), ("client", QUERY)]

    assert counted(*exchange)[0] == 2


def test_what_is_encrypted_is_not_counted() -> None:
    with pytest.raises(ConnectionError):
        counted(("client", TLS), ("server", b"S"))
