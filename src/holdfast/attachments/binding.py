"""Who owns what a piece of the caller's code puts (ATT-19).

A scope is in force from where it is entered to where it is left, for the task or thread that
entered it and for the tasks it starts meanwhile. The innermost one counts. Leaving takes out that
one scope and nothing else, so scopes may end in any order, and one may be entered within itself.
"""

from __future__ import annotations

from contextvars import ContextVar

from holdfast.rules.attachments import NOBODY, Owner

_scopes: ContextVar[tuple[Scope, ...]] = ContextVar("holdfast_attachment_owners", default=())


class Scope:
    """Makes an owner the one of everything put inside the `with`."""

    def __init__(self, store: object, session_id: str | None, owner: Owner) -> None:
        self._store = store
        self._session_id = session_id
        self.owner = owner

    def __enter__(self) -> Scope:
        _scopes.set((*_scopes.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        inner_first = [*reversed(_scopes.get())]
        if self in inner_first:
            inner_first.remove(self)
            _scopes.set((*reversed(inner_first),))

    def covers(self, store: object, session_id: str) -> bool:
        """Whether it is about this session of this store."""
        return self._store is store and self._session_id in (None, session_id)


def scopes_in_force() -> tuple[Scope, ...]:
    """The scopes of the caller, outermost first."""
    return _scopes.get()


def owner_in(scopes: tuple[Scope, ...], store: object, session_id: str) -> Owner:
    """Whose what is put under these scopes is: nobody's outside of every one."""
    for scope in reversed(scopes):
        if scope.covers(store, session_id):
            return scope.owner
    return NOBODY
