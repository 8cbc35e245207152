"""`deniable --help` is quick, because it opens no room; Tab completes in the shells that have it. About 4 seconds."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from deniable.cli.app import app

SRC = str(Path(__file__).parents[2] / "src")
HEAVY = {"numpy", "scipy", "duckdb", "sqlglot", "torch", "sklearn", "matplotlib", "pandas", "polars", "pyarrow", "rich"}
ROOMS = {"cli", "errors"}
"""The rooms that help may load: parsing, and the words of refusals. What begins with an underscore is no room."""
MOST_SECONDS = 0.3
"""Of processor time, which is a third of this on a machine of 2026; the margin is for a busy one."""

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
        "try:\n    main()\nfinally:\n    print(*sys.modules)"
    )
    done = deniable(*words, code=code)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()
    assert "typer" in loaded
    assert not {name.partition(".")[0] for name in loaded} & HEAVY
    assert {name.split(".")[1] for name in loaded if re.match(r"deniable\.[^_]", name)} <= ROOMS


def test_help_is_quick() -> None:
    """Processor time, not elapsed time; the best of three."""
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert deniable("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < MOST_SECONDS


@pytest.mark.parametrize("group", [[], ["ledger"]], ids=["deniable", "ledger"])
def test_help_says_the_whole_first_sentence_of_each_command(group: list[str]) -> None:
    shown = " ".join(deniable(*group, "--help").stdout.split())
    parent: Any = typer.main.get_command(app)
    for name in group:
        parent = parent.commands[name]
    assert len(parent.commands) >= 4
    for command in parent.commands.values():
        sentence = " ".join((command.help or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        assert sentence in shown


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
