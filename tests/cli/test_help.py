"""`deniable --help` is quick, because it opens no room; Tab completes in the shells that have it. About 4 seconds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SRC = str(Path(__file__).parents[2] / "src")
HEAVY = {"numpy", "scipy", "duckdb", "sqlglot", "torch", "sklearn", "matplotlib", "pandas", "polars", "pyarrow"}
MOST_SECONDS = 1.0
"""Of processor time: 0.2 on a machine of 2026; the goal of 0.4 is for a person's machine, the margin for a busy one."""

MAIN = "import sys; sys.argv = ['deniable', *sys.argv[1:]]; from deniable.cli import main; main()"


def deniable(*words: str, code: str = MAIN, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": SRC, "NO_COLOR": "1"} | variables,
    )


def test_a_module_is_the_command() -> None:
    done = deniable("--version", code="import runpy; runpy.run_module('deniable', run_name='__main__')")
    assert done.stdout == deniable("--version").stdout != "", done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["query", "--help"], ["ledger", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys; sys.argv = ['deniable', *sys.argv[1:]]\nfrom deniable.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = deniable(*words, code=code)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "typer" in loaded
    assert not loaded & HEAVY


def test_help_is_quick() -> None:
    """Processor time, not elapsed time; the best of three."""
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert deniable("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < MOST_SECONDS


COMPLETIONS = {
    "a command": ("deniable led", 1, "ledger"),
    "a command of a group": ("deniable ledger ex", 2, "export"),
    "an option": ("deniable query --dry", 2, "--dry-run"),
    "a choice": ("deniable explain --reader re", 3, "regulator"),
}


@pytest.mark.parametrize("case", COMPLETIONS)
def test_bash_completes(case: str) -> None:
    typed, place, expected = COMPLETIONS[case]
    done = deniable(_DENIABLE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(place))
    assert expected in done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_of_the_shells(shell: str) -> None:
    done = deniable(_DENIABLE_COMPLETE=f"source_{shell}")
    assert done.returncode == 0
    assert "_DENIABLE_COMPLETE" in done.stdout
