"""The pages about the lecture notes: whole, as computed, and every test that they name uses the function it proves."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from docs.notes.items import DIFFERS, FAITHFUL, LEFT_OUT
from docs.notes.pages import FOLDER, LECTURES, anchor, count_verdicts, pages

TESTS = Path(__file__).parents[1]
ITEMS = [(lecture.number, number, item) for lecture in LECTURES for number, item in enumerate(lecture.items(), 1)]
PROVED = sorted({(item.code, item.test) for _, _, item in ITEMS if item.code})


def test_every_item_has_its_verdict_and_its_reason() -> None:
    assert len(ITEMS) > 201
    for lecture, number, item in ITEMS:
        where = f"{lecture}, item {number}"
        assert (item.verdict is FAITHFUL) == (not item.note), where
        assert (item.verdict is LEFT_OUT) == (not item.code), where
        assert bool(item.code) == bool(item.test), where
        assert item.verdict is not DIFFERS or item.printed, where
        assert "|" not in item.place + item.title + item.printed + item.note, where


@pytest.mark.xdist_group("notes")  # the pages are computed once
def test_every_item_is_found_by_its_number() -> None:
    for lecture in LECTURES:
        anchors = [anchor(number, item) for number, item in enumerate(lecture.items(), 1)]
        assert len(set(anchors)) == len(anchors)
        page = pages()[f"{lecture.number}.md"]
        assert all(f"](#{name})" in page and f'id="{name}"' in page for name in anchors)
    assert {"lemma-5", "definition-1", "theorem-2", "11"} <= {anchor(n, item) for _, n, item in ITEMS}


@pytest.mark.xdist_group("notes")  # the pages are computed once
def test_every_page_is_as_computed() -> None:
    for name, text in pages().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, "python -m docs.notes.pages"
    assert {path.name for path in FOLDER.iterdir() if path.suffix in (".md", ".svg")} == set(pages())


@pytest.mark.xdist_group("notes")  # the pages are computed once
def test_all_known_errata_are_listed() -> None:
    index = pages()["index.md"]
    assert count_verdicts()[DIFFERS] >= 32
    for words in (
        "19 %",
        "biased",
        "upper end",
        "noise belongs inside the step",
        "factor ε is missing",
        "variance is 2ρ",
    ):
        assert words in index


@pytest.mark.parametrize(("code", "test"), PROVED)
def test_the_test_uses_the_function(code: str, test: str) -> None:
    file, _, name = test.partition("::")
    assert _unwrap(_open(code)) in [_unwrap(each) for each in _used(TESTS / file, name)]


def test_a_test_that_uses_something_else_is_noticed() -> None:
    used = list(_used(TESTS / "textbook" / "test_composition.py", "test_basic_sums_are_exact"))
    assert _unwrap(_open("textbook.compose_basic")) in map(_unwrap, used)
    assert _unwrap(_open("textbook.compose_rdp")) not in map(_unwrap, used)
    with pytest.raises(KeyError):
        list(_used(TESTS / "textbook" / "test_composition.py", "test_that_is_not_there"))


def _open(path: str) -> Any:
    """The object at a dotted path under `deniable`."""
    place: Any = importlib.import_module("deniable")
    for word in path.split("."):
        try:
            place = getattr(place, word)
        except AttributeError:
            place = importlib.import_module(f"{place.__name__}.{word}")
    return place


def _unwrap(value: Any) -> Any:
    """What a decorated function is about, and of a class that a function only builds, the class."""
    return inspect.unwrap(value) if callable(value) else value


@cache
def _module(path: Path) -> tuple[dict[str, Any], dict[str, ast.stmt], dict[str, Path]]:
    """What a test file imports from the package, by name; its own definitions; what it has from other test files."""
    imported: dict[str, Any] = {}
    definitions: dict[str, ast.stmt] = {}
    elsewhere: dict[str, Path] = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            room, _, rest = (node.module or "").partition(".")
            for alias in node.names:
                if room == "deniable":
                    imported[alias.asname or alias.name] = _open(f"{rest}.{alias.name}".lstrip("."))
                elif room == "tests" and (TESTS / f"{rest.replace('.', '/')}.py").is_file():
                    elsewhere[alias.asname or alias.name] = TESTS / f"{rest.replace('.', '/')}.py"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "deniable":
                    imported[alias.asname or "deniable"] = importlib.import_module(
                        alias.name if alias.asname else "deniable"
                    )
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            definitions[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            definitions |= {target.id: statement for target in targets if isinstance(target, ast.Name)}
    return imported, definitions, elsewhere


def _used(path: Path, name: str) -> Iterator[Any]:
    """Everything of the package that a test refers to, itself or by what it takes from its own or another test file."""
    pending, known = [(path, name)], {(path, name)}
    while pending:
        file, word = pending.pop()
        imported, definitions, elsewhere = _module(file)
        for node in ast.walk(definitions[word]):  # a test that is not there is an error
            if isinstance(node, ast.Name):
                if node.id in imported:
                    yield imported[node.id]
                place = file if node.id in definitions else elsewhere.get(node.id)
                if place is not None and (place, node.id) not in known and node.id in _module(place)[1]:
                    known.add((place, node.id))
                    pending.append((place, node.id))
            elif isinstance(node, ast.Attribute):
                value = _resolve(node, imported)
                if value is not None:
                    yield value


def _resolve(node: ast.expr, imported: dict[str, Any]) -> Any:
    """The object that `a.b.c` names, if `a` is imported and the rest are modules or their members."""
    if isinstance(node, ast.Name):
        return imported.get(node.id)
    if isinstance(node, ast.Attribute):
        place = _resolve(node.value, imported)
        if isinstance(place, ModuleType | type):
            return getattr(place, node.attr, None)
    return None
