"""Well-known drafts (QUE-22)."""

from typing import Any

import pytest

import holdfast
from holdfast import InvalidArgument, frame_handoff, session_command
from holdfast.testing.contract.samples import lease_on


def test_a_session_command_is_claimed_as_one():
    with holdfast.open("sqlite://") as store:
        store.queue.enqueue(session_command("s1", "reset_session", "k"))
        claim = store.queue.claim_command(lease_on(store, "s1"))

    (batch,) = claim.batches
    assert batch.work_class == "session_command"
    assert batch.items[0].payload == {"type": "session_command", "command": "reset_session"}
    assert (batch.slot_policy, batch.dedupe) == ("exclusive", "once")
    assert batch.source_key == "command:reset_session:k"


def test_a_handoff_waits_for_the_commit_of_its_turn():
    draft = frame_handoff("s1", "t1", {"type": "review"})

    assert (draft.delivery_policy, draft.slot_policy) == ("after_current_turn_commit", "exclusive")
    assert (draft.source_key, draft.dedupe) == ("agent-frame-handoff:t1", "once")
    assert draft.payloads == [{"type": "review"}]


WRONG: dict[str, Any] = {
    "session_id": lambda: session_command("", "reset_session", "k"),
    "kind": lambda: session_command("s1", "shut_down", "k"),  # type: ignore[arg-type]
    "idempotency_key": lambda: session_command("s1", "reset_session", "k" * 1024),
    "turn_id": lambda: frame_handoff("s1", "", {"type": "review"}),
}


@pytest.mark.parametrize("field", WRONG)
def test_a_draft_of_what_is_wrong_is_refused(field):
    with pytest.raises(InvalidArgument) as refused:
        WRONG[field]()

    assert refused.value.field == field
