"""What a listing shows of a conversation: which nodes are user messages, and their text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.model.values import JsonValue, Payload

PREVIEW_CHARACTERS: Final = 500
_SKIPPED: Final = ("tool_call", "tool_result")
_ATTACHMENT: Final = "[Attachment]"


def user_text(
    kind: str, body: JsonValue | Payload, role: str | None = None, preview: str | None = None
) -> str | None:
    """The text shown for a user message, at most 500 characters; none for any other node.

    `role` and `preview` count whatever the kind; what they leave open is read from the JSON body
    of a `message`.
    """
    message = body if kind == "message" and isinstance(body, dict) else {}
    if (message.get("role") if role is None else role) != "user":
        return None
    shown = _text_of(message) if preview is None else preview
    return shown[:PREVIEW_CHARACTERS]


def _text_of(message: dict[str, JsonValue]) -> str:
    parts = message.get("parts")
    if not isinstance(parts, (list, tuple)):
        return ""
    texts = (text for part in parts for text in _shown(part))
    # PostgreSQL keeps no NUL in text, JSON does.
    return "\n\n".join(text for text in texts if text.strip()).strip().replace("\0", "\ufffd")


def _shown(part: JsonValue) -> Iterator[str]:
    if not isinstance(part, dict) or part.get("type") in _SKIPPED:
        return
    if part.get("type") == "attachment":
        yield _ATTACHMENT
        return
    for name in ("text", "content"):
        if isinstance(part.get(name), str):
            yield part[name]
            return
