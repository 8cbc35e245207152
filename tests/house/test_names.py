"""Names say what things are: no participle names a function, `found` names no value, no class name exists twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import deniable

SOURCE = Path(deniable.__file__).parent

ROOMS = (
    "_checks.py", "_escapes.py", "_files.py", "_forms.py", "_notebook.py", "_remedies.py", "_signatures.py",
    "_values.py", "calibration.py", "cli", "conversions", "descriptions.py", "errors.py", "events", "explaining",
    "guarantees", "ledger", "mechanisms", "noise", "numerics", "strategies", "units.py",
)  # fmt: skip
"""The rooms that keep this rule. The list only grows."""

IRREGULAR = re.compile(
    "asked|begun|built|chosen|done|drawn|found|given|grown|held|hidden|kept|known|left|made|met|put|said|seen|sent|shown"
    "|taken|told|understood|wanted|written"
)

PUBLIC = frozenset(
    {
        "_checks.py:shown",  # forty uses in rooms that are not in the list yet
        "_escapes.py:redacted",
        "errors.py:DeniableError.worded",
        "errors.py:InvalidArgument.worded",
        "events/base.py:Event.allocated",
        "events/base.py:Event.sampled",
        "events/base.py:Event.shuffled",
        "events/base.py:Event.truncated",
        "explaining/audits.py:Audit.claimed",
        "guarantees/tradeoff.py:TradeOff.symmetrized",
        "mechanisms/counts.py:StabilityHistogram.needed",
        "mechanisms/local.py:shuffled",
        "mechanisms/stable.py:ClusteredMeans.needed",
        "mechanisms/stable.py:ClusteredMean.needed",
        "mechanisms/stable.py:Mode.needed",
        "mechanisms/stable.py:ProposeTestRelease.needed",
        "mechanisms/trials.py:PrivateSearch.selected",
        "strategies/sensitivity.py:ordered",
        "strategies/sensitivity.py:separated",
        "strategies/store.py:stored",
        "units.py:Unit.named",
    }
)
"""Names that people call, which stay. The list only shrinks."""


def files(room: str) -> list[Path]:
    """The source files of a room."""
    path = SOURCE / room
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def functions(tree: ast.AST, inside: str = "") -> list[str]:
    """The names of all functions and methods, each with the classes and functions around it."""
    names = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{node.name}" if inside else node.name
            names += [] if isinstance(node, ast.ClassDef) else [name]
            names += functions(node, name)
        else:
            names += functions(node, inside)
    return names


def is_participle(name: str) -> bool:
    """Whether a function's own name is one word, and that a participle."""
    word = name.rpartition(".")[2].strip("_")
    return IRREGULAR.fullmatch(word) is not None or re.fullmatch(r"[a-z]+[^e]ed", word) is not None


def bound(tree: ast.AST) -> set[str]:
    """The names that are assigned to, and those of arguments."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


@pytest.mark.parametrize("room", ROOMS)
def test_functions_are_verbs_or_nouns(room: str) -> None:
    participles = {
        f"{path.relative_to(SOURCE)}:{name}"
        for path in files(room)
        for name in functions(ast.parse(path.read_text(encoding="utf-8")))
        if is_participle(name)
    }
    assert participles - PUBLIC == set()


@pytest.mark.parametrize("room", ROOMS)
def test_values_are_named_for_what_they_hold(room: str) -> None:
    riddles = {"found", "made", "said", "told"}
    assert {
        str(path.relative_to(SOURCE)): names
        for path in files(room)
        if (names := riddles & bound(ast.parse(path.read_text(encoding="utf-8"))))
    } == {}


def test_every_exception_is_still_needed() -> None:
    names = {
        f"{path.relative_to(SOURCE)}:{name}"
        for room in ROOMS
        for path in files(room)
        for name in functions(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert names >= PUBLIC


def test_a_class_name_exists_once() -> None:
    places = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(f"{path.relative_to(SOURCE)}:{node.lineno}")
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert twice == {}


def test_riddles_would_be_seen() -> None:
    code = (
        "class Box:\n    def _sealed(self): return 1\n    def seal(self): found = 1\n\ndef told(): ...\ndef need(): ..."
    )
    tree = ast.parse(code)
    assert [name for name in functions(tree) if is_participle(name)] == ["Box._sealed", "told"]
    assert "found" in bound(tree)
    assert not any(map(is_participle, ("speed", "feed", "rounded_up", "proceed", "seed")))
