"""docs/notes.md names only what exists: every function can be opened, every test file is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "notes.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "`" in line
]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row[1])})


def opened(path: str) -> object:
    """The object at a dotted path under `deniable`."""
    found: object = importlib.import_module("deniable")
    for word in path.split("."):
        try:
            found = getattr(found, word)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{word}")  # type: ignore[attr-defined]
    return found


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 40


@pytest.mark.parametrize("name", NAMES)
def test_the_code_exists(name: str) -> None:
    assert opened(name) is not None


@pytest.mark.parametrize("test", sorted({row[2].strip("`") for row in ROWS}))
def test_the_test_exists(test: str) -> None:
    assert (ROOT / test).is_file()
