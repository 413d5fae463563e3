import pytest

from holdfast.model.values import Payload
from holdfast.rules.messages import user_text


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def text(value):
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("kind", "body", "role", "preview", "expected"),
    [
        ("message", user(text("hi")), None, None, "hi"),
        ("message", {"role": "assistant", "parts": [text("hi")]}, None, None, None),
        ("event", user(text("hi")), None, None, None),
        ("event", user(text("hi")), "user", None, ""),
        ("event", user(text("hi")), "user", "shown", "shown"),
        ("event", Payload(b"", "t"), "user", "shown", "shown"),
        ("message", user(text("hi")), "assistant", "shown", None),
        ("message", user(text("hi")), None, "shown", "shown"),
        ("message", user(text("hi")), "user", None, "hi"),
        ("message", {"role": "assistant", "parts": [text("hi")]}, "user", None, "hi"),
        ("message", user(text("hi")), None, "", ""),
        ("message", user(text("hi")), None, "x" * 600, "x" * 500),
        ("message", Payload("x", "json"), None, None, None),
        ("message", Payload("x", "json"), None, "shown", None),
        ("message", user(text(" a "), text(" \n"), text("b ")), None, None, "a \n\nb"),
        (
            "message",
            user(
                text("see"),
                {"type": "tool_call", "text": "no"},
                {"type": "tool_result", "content": "no"},
                {"type": "attachment", "text": "no"},
                {"type": "note", "content": "yes"},
            ),
            None,
            None,
            "see\n\n[Attachment]\n\nyes",
        ),
        (
            "message",
            user(text("x" * 400), text("y" * 400)),
            None,
            None,
            "x" * 400 + "\n\n" + "y" * 98,
        ),
        ("message", user(text("a\0b")), None, None, "a\ufffdb"),
        ("message", user(), None, None, ""),
    ],
)
def test_user_text(kind, body, role, preview, expected):
    assert user_text(kind, body, role, preview) == expected


@pytest.mark.parametrize("body", [None, 1, "user", [], {}, {"role": ["user"]}, {"role": None}])
def test_other_shapes_are_no_user_messages(body):
    assert user_text("message", body) is None


@pytest.mark.parametrize(
    "parts",
    [
        None,
        "text",
        {"text": "a"},
        [None, 1, "text", [], {}, {"text": 1}, {"type": [], "content": {}}, {"type": {"a": 1}}],
    ],
)
def test_other_shapes_of_parts_have_no_text(parts):
    assert user_text("message", {"role": "user", "parts": parts}) == ""
