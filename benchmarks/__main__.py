"""Run the benchmarks, all or the named ones, and print what they found.

python3 tasks.py bench [groups] [sizes] [trips] [single] [queues] [files] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks import files, groups, queues, single, sizes, trips

BENCHMARKS: dict[str, Callable[..., None]] = {
    "groups": groups.run,
    "sizes": sizes.run,
    "trips": trips.run,
    "single": single.run,
    "queues": queues.run,
    "files": files.run,
}


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="tasks.py bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    given = parser.parse_args(arguments)
    unknown = set(given.names) - BENCHMARKS.keys()
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    for name in given.names or BENCHMARKS:
        BENCHMARKS[name](quick=given.quick)


if __name__ == "__main__":
    main()
