"""Automatic collection: after every n-th revision, never in a commit's way (GCX-7)."""

from __future__ import annotations

import logging
import threading

from holdfast.errors import StoreClosed
from holdfast.operations.levers import Run, collect_garbage
from holdfast.settings import Settings

log = logging.getLogger("holdfast")


class AutoCollector:
    """Collects after every n-th revision of any session, one run at a time (GCX-7)."""

    def __init__(self, run: Run, env: Settings) -> None:
        self._run = run
        self._env = env
        self._busy = threading.Lock()
        #: For tests and for whoever watches the store: runs that ended, and that failed.
        self.runs = 0
        self.failures = 0

    def wants(self, revision: int) -> bool:
        """Whether a commit that made this revision is due to be followed by a collection."""
        every = self._env.gc_every_commits
        return bool(every) and revision % int(every or 1) == 0

    def collect(self) -> None:
        """Collect unless a collection is under way; never raises."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            collect_garbage(self._run, self._env)
            self.runs += 1
        except StoreClosed:
            pass  # nobody waits for it; what it would have freed is found by the next run
        except Exception:
            log.exception("automatic collection failed; commits go on")
            self.failures += 1
        finally:
            self._busy.release()
