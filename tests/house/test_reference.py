"""The API reference shows every public name, on one page per room. `make docs` looks for the same in what it wrote."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import deniable

ROOT = Path(__file__).parents[2]
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)
PAGES: dict[str, str] = reference.pages()


def rooms() -> set[str]:
    """The rooms of src/deniable that say what they export."""
    house = ROOT / "src" / "deniable"
    files = {path.parent.name: path for path in house.glob("*/__init__.py")} | {p.stem: p for p in house.glob("*.py")}
    return {name for name, path in files.items() if name[0] != "_" and "\n__all__" in path.read_text(encoding="utf-8")}


def test_every_room_has_a_page() -> None:
    assert rooms() <= set(reference.ROOMS)
    assert set(deniable._ROOMS) <= set(reference.ROOMS)


def test_every_room_is_public_or_our_own() -> None:
    house = ROOT / "src" / "deniable"
    every = {path.parent.name for path in house.glob("*/__init__.py")} | {path.stem for path in house.glob("*.py")}
    assert {each for each in every if each[0] != "_"} - set(deniable._ROOMS) == {"cli", "numerics"}


@pytest.mark.parametrize("name", deniable.__all__)
def test_the_index_says_one_line_about_every_name(name: str) -> None:
    if name != "__version__":
        line = next(line for line in PAGES["api/index.md"].splitlines() if f"`dn.{name}`" in line)
        assert len(line.split("|")[2].strip()) > 10


@pytest.mark.parametrize("room", reference.ROOMS)
def test_the_page_of_a_room_has_every_name(room: str) -> None:
    page = PAGES[f"api/{room}.md"]
    for module in reference.ROOMS[room]:
        offered = reference.names(module)
        assert offered
        for name in offered:
            assert f"\n::: {reference.definition('deniable.' + module, name)}\n" in page


@pytest.mark.parametrize("name", deniable._HOMES)
def test_a_public_name_is_in_the_index_and_on_its_page(name: str) -> None:
    place = reference.definition(deniable._HOMES[name], name)
    assert f"[`dn.{name}`][{place}]" in PAGES["api/index.md"]
    assert sum(f"\n::: {place}\n" in page for page in PAGES.values()) == 1


def test_a_definition_is_where_the_object_says() -> None:
    for name in ("Session", "account", "size", "Ledger", "Gaussian"):
        found = getattr(deniable, name)
        assert reference.definition(deniable._HOMES[name], name) == f"{found.__module__}.{found.__qualname__}"


def test_every_page_is_in_the_navigation() -> None:
    written = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    apart = [path for path in written if not path.startswith("notes/")]  # `notes/*.md` stands for all lecture notes
    expected = [*PAGES, *apart, "changelog.md", "notes/*.md"]
    assert sorted(re.findall(r": (\S+\.md)$", NAV, re.MULTILINE)) == sorted(expected)
