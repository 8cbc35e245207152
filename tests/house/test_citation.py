"""What says who made this, and which version: the same in the package, in CITATION.cff and in the changelog."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

import deniable

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(CITATION)
    assert CITATION["version"] == deniable.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["keywords"] == PROJECT["keywords"]
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_every_python_that_is_claimed_is_allowed() -> None:
    from packaging.specifiers import SpecifierSet

    prefix = "Programming Language :: Python :: 3."
    claimed = [line.removeprefix(prefix) for line in PROJECT["classifiers"] if line.startswith(prefix)]
    assert claimed == ["11", "12", "13"]
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert all(f"3.{minor}" in allowed for minor in claimed)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"PYTHONS ?= {' '.join(f'3.{minor}' for minor in claimed)}" in makefile, "make pythons runs them all"
