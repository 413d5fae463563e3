"""Nodes, stored rows and plans, as short as tables of cases need them."""

from __future__ import annotations

from holdfast import PREVIOUS, Node
from holdfast.rules.graph import Draft, Known, Plan, Position, Stock
from holdfast.rules.parents import parents
from holdfast.rules.placing import plan_append

NEW = (101, 102, 103, 104)
HEAD = Position(7, 3, "c")


def node(node_id, parent=PREVIOUS):
    return Node(node_id=node_id, body=1, parent_node_id=parent)


def nodes(*pairs):
    return [node(*pair) if isinstance(pair, tuple) else node(pair) for pair in pairs]


def drafts(delta, content="same"):
    return [
        Draft(each, parent, (content,), (), None, 1)
        for each, parent in zip(delta.nodes, parents(delta), strict=True)
    ]


def known(node_id, branch, ordinal, parent_id=None, **facts):
    given = {"tombstoned": False, "extendable": False, "identity": ("same",), "user_text": None}
    return Known(node_id=node_id, branch=branch, ordinal=ordinal, parent_id=parent_id,
                 **given | facts)  # fmt: skip


def stock(*rows, gone=None):
    return Stock({row.node_id: row for row in rows}, gone or {})


#: The path a, b, c on branch 7, where nothing follows c.
PATH = (
    known("a", 7, 0),
    known("b", 7, 1, "a"),
    known("c", 7, 2, "b", extendable=True),
)


def appended(delta, *rows, head=HEAD, gone=None, **options):
    content = options.pop("content", "same")
    held = stock(*rows, gone=gone)
    return plan_append("s", delta, drafts(delta, content), head, held, NEW, **options)


def places(plan: Plan):
    return [(each.draft.node.node_id, each.branch, each.ordinal, each.parent_id)
            for each in plan.placed]  # fmt: skip


def opened(plan: Plan):
    return [(each.id, each.parent, each.base) for each in plan.branches]
