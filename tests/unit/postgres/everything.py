"""Nearly every statement of a store, run at least once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from holdfast import Refused
from holdfast.testing.contract.catalogue import EVERY
from holdfast.testing.contract.lanes import enqueue, queued, settle, submit, work
from holdfast.testing.contract.samples import chain, checkpoint, lease_on, put, turn


def do_everything(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    for number in range(2):
        enqueue(store, f"work {number}")
        submit(store, f"input {number}", input_id=f"{number}")
        held = lease_on(store, "s1")
        settle(
            store,
            held,
            graph=chain(f"n{number}"),
            checkpoint=checkpoint(number),
            turn_commit=turn(f"t{number}"),
            completed_queue_claims=[store.queue.claim(held)],
            completed_turn_input_claims=[store.inputs.claim_next(held)],
            enqueued_queue_batches=[work("follow-up")],
            release_session_execution_lease=True,
        )
    assert queued(store)
    for operation in EVERY.values():
        with suppress(Refused):
            operation(store, "s1")
