"""The words that statements of queued work and turn inputs spell are those of the rules."""

from __future__ import annotations

import re

import pytest

from holdfast import Group, statements
from holdfast.rules import inputs, queue

DIALECTS = ("sqlite", "postgres")


def words_of(dialect: str, name: str, column: str) -> list[list[str]]:
    """Every list of words that a statement holds a column against."""
    sql = statements.load(f"holdfast.{dialect}.statements")[name].sql
    lists = re.findall(rf"\b\w\.{column} (?:NOT )?IN \(('[^)]*')\)", sql)
    assert lists, f"{name} asks for no word of {column}"
    return [re.findall(r"'([^']*)'", each) for each in lists]


@pytest.mark.parametrize("name", ["claim_work", "claim_work_exactly", "held_work"])
@pytest.mark.parametrize("column", queue._WORDS)
def test_a_claim_knows_the_words_of_a_batch(name: str, column: str) -> None:
    for found in words_of("postgres", name, column):
        assert sorted(found) == sorted(queue._WORDS[column])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_batch_of_no_known_class_is_met_by_every_claim(dialect: str) -> None:
    for found in words_of(dialect, "claim_work", "class"):
        assert sorted(found) == sorted(queue._WORDS["class"])


def test_a_claim_knows_the_merge_keys() -> None:
    sql = statements.load("holdfast.postgres.statements")["claim_work"].sql
    (words,) = words_of("postgres", "claim_work", "merge_key")
    (group,) = re.findall(r"merge_key LIKE '([^']*)%'", sql)

    assert words == [queue.merge_key_text(each) for each in queue._MERGE_KEYS]
    assert queue.merge_key_text(Group("g")).startswith(group)


@pytest.mark.parametrize("name", ["cancel_inputs", "cancel_input_suffix"])
def test_a_cancellation_knows_every_state_of_an_input(name: str) -> None:
    can_be, can_not_be = words_of("postgres", name, "state")

    assert sorted(can_be + can_not_be) == sorted(inputs.STATES)
