"""Single operations: small reads and commits against floors, turns, and how even they are."""

from __future__ import annotations
