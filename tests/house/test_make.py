"""The commands of the Makefile: CI runs the quick checks before the tests, and `make help` lists what there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(*words: str) -> str:
    """What make prints."""
    if shutil.which("make") is None:
        pytest.skip("needs make; run: apt-get install make")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *words], cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    ).stdout


def test_ci_checks_style_types_and_contracts_before_it_tests() -> None:
    last = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-2:]
    assert last == ["make lint types imports", "CI=true make test"]
    commands = make("--dry-run", "check")
    steps = ["ruff check", "ruff format --check", "/mypy", "lint-imports", "-m pytest"]
    places = [commands.index(step) for step in steps]
    assert places == sorted(places)


def test_help_lists_every_command() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^make (\S+)", make("help"), re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())
