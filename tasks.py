#!/usr/bin/env python3
"""The one task runner: `python3 tasks.py demo | test | check | bench | crash | drain | ci`.

It needs Python 3.11 with its venv module and nothing else. The first run makes `.venv` and
installs the project with its tools; later runs reuse it until `pyproject.toml` changes.
Arguments after the task's name are passed on: `python3 tasks.py test -k lease`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
KEY = VENV / "installed-from"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
OLDEST = (3, 11)


def main(arguments: list[str]) -> int:
    """Run the named task in the project's environment; its exit status."""
    if not arguments or arguments[0] not in TASKS:
        print(__doc__)
        for name, task in TASKS.items():
            print(f"  {name:6} {task.__doc__}")
        return 0 if arguments and arguments[0] in ("help", "-h", "--help") else 2
    prepare()
    return TASKS[arguments[0]](arguments[1:])


def demo(extra: list[str]) -> int:
    """Commit a few turns, be killed in the middle of one, and show that nothing was lost."""
    return run("examples/survive.py", *extra)


def test(extra: list[str]) -> int:
    """Run all tests, on SQLite and on a PostgreSQL server that the tests start themselves."""
    say("tests: SQLite file, SQLite memory, PostgreSQL; async and blocking")
    # More than the cores of a small machine: half of a test's time is waiting.
    workers = [] if any(argument.startswith("-n") for argument in extra) else ["-n", "3"]
    return run("-m", "pytest", *workers, *extra)


def check(extra: list[str]) -> int:
    """Check format, lint, types, import rules, and that every contract scenario is claimed."""
    if extra:
        raise SystemExit("tasks.py: check takes no arguments")
    failed = [name for name, command in CHECKS.items() if not passes(name, command)]
    say(f"check: failed: {', '.join(failed)}" if failed else "check: all passed")
    return 1 if failed else 0


def bench(extra: list[str]) -> int:
    """Print the benchmarks, as ratios measured in one run."""
    return run("-m", "benchmarks", *extra)


def crash(extra: list[str]) -> int:
    """Kill a committing process at random moments, reopen, and count what survived."""
    return run("-m", "benchmarks.crash", *extra)


def drain(extra: list[str]) -> int:
    """Enqueue and drain with processes that are killed, and count what was lost or doubled."""
    return run("-m", "benchmarks.drain", *extra)


def ci(extra: list[str]) -> int:
    """Do everything a change has to pass: check, then test."""
    checked = check([])
    if checked:
        say("ci: will fail because of the above; running the tests all the same")
    return max(checked, test(extra))


TASKS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo,
    "test": test,
    "check": check,
    "bench": bench,
    "crash": crash,
    "drain": drain,
    "ci": ci,
}

CHECKS = {
    "format": ["-m", "ruff", "format", "--check", "--quiet", "."],
    "lint": ["-m", "ruff", "check", "--quiet", "."],
    "types": ["-m", "mypy", "--no-error-summary"],
    "imports": ["-c", "from importlinter.cli import lint_imports_command as main; main()"],
    "claims": ["-m", "holdfast.testing.claims"],
}


def prepare() -> None:
    """Make `.venv` match `pyproject.toml`. An interrupted install is done again from the start."""
    key = fingerprint()
    if KEY.exists() and KEY.read_text() == key:
        return
    if sys.version_info < OLDEST:
        raise SystemExit(f"tasks.py: needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise SystemExit(
                f"tasks.py: this Python has no {module} module.\n"
                f"On Debian or Ubuntu: apt install python{version}-venv"
            )
    say("preparing .venv (once, and after pyproject.toml changed)")
    must([sys.executable, "-m", "venv", "--clear", str(VENV)], "could not make .venv")
    say("installing holdfast with its test tools; this may take a minute or two")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    must([*pip, "--editable", f"{ROOT}[dev]"], "pip could not install the project, see above")
    KEY.write_text(key)


def fingerprint() -> str:
    """What the environment depends on: the project file, the interpreter, and the place."""
    told = (ROOT / "pyproject.toml").read_bytes() + f"{sys.version}{ROOT}".encode()
    return hashlib.sha256(told).hexdigest()


def must(command: list[str], complaint: str) -> None:
    """Run a command that has to succeed."""
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SystemExit(f"tasks.py: {complaint}")


def passes(name: str, command: list[str]) -> bool:
    """Whether a check succeeds; what it printed is shown only when it does not."""
    done = subprocess.run(
        [str(PYTHON), *command],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    say(f"check: {name} {'failed' if done.returncode else 'ok'}")
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode == 0


def run(*command: str) -> int:
    """Run the environment's Python with the terminal's own output; its exit status."""
    return subprocess.run([str(PYTHON), *command], cwd=ROOT, check=False).returncode


def say(line: str) -> None:
    """A progress line, before anything a child prints."""
    print(f"== {line}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
