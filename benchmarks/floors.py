"""What a program would do that had only this to do: the shortest code on the same driver.

The rows are those that holdfast stores, in holdfast's own tables, at the same durability.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
import time
from typing import Any

import apsw
import msgspec

import holdfast
from benchmarks import samples
from benchmarks.databases import Database

_SELECT = "SELECT key, head_revision, branch, length, leaf_id, next_sequence FROM session WHERE id = ?"
_INSERT = (
    "INSERT INTO node (key, owner, sequence, node_id, parent_id, kind, enc, body, user_text)"
    " VALUES (?,?,?,?,?,'message',0,?,?)"
)
_UPDATE = (
    "UPDATE session SET head_revision = ?, generation = generation + 1, length = ?, leaf_id = ?,"
    " next_sequence = ?, node_count = node_count + 1, user_message_count = user_message_count + 1"
    " WHERE key = ?"
)
_TOUCH = "UPDATE listing SET updated_at_ms = ?, activity_us = ? WHERE session = ?"
_READ = "SELECT * FROM node WHERE node_id = ? AND owner = 1"
