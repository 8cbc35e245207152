"""The public names: one table, the same for people, for tools and for type checkers."""

from __future__ import annotations

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

import deniable
from deniable.errors import MissingExtra

ROOT = Path(__file__).parents[2]
TREE = ast.parse((ROOT / "src" / "deniable" / "__init__.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", deniable.__all__)
def test_every_public_name_resolves(name: str) -> None:
    try:
        found = getattr(deniable, name)
    except MissingExtra as missing:
        assert missing.extra in deniable._EXTRAS.values()  # noqa: PT017
    else:
        assert found is not None
        assert found is getattr(deniable, name)


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING are the table, name by name."""
    block = next(node for node in TREE.body if isinstance(node, ast.If))
    seen = {
        alias.asname: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: (home, name) for name, home in deniable._HOMES.items()}
    rooms = {room: ("deniable", room) for room in deniable._ROOMS}
    assert seen == homes | rooms


def test_names_are_listed_once_and_in_order() -> None:
    assert len(deniable.__all__) == len(set(deniable.__all__))
    assert list(deniable._ROOMS) == sorted(deniable._ROOMS)
    assert dir(deniable) == sorted(deniable.__all__)


@pytest.mark.parametrize("room", ["accounting", "deep", "learning"])
def test_rooms_that_load_lazily_still_list_their_names(room: str) -> None:
    """What is not loaded yet is offered by a notebook's completion, and what is not public is not."""
    opened = importlib.import_module(f"deniable.{room}")
    assert dir(opened) == sorted(opened.__all__)


def test_a_public_name_is_public_in_its_room() -> None:
    """What `dn.` offers, the room offers under the same name."""
    for name, home in deniable._HOMES.items():
        room = __import__(home, fromlist=[name])
        assert name in getattr(room, "__all__", dir(room)), f"{name} is not in {home}.__all__"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        deniable.Sesion  # noqa: B018


def test_every_extra_is_one_that_pip_knows() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(deniable._EXTRAS.values()) <= set(extras)


def packages() -> list[str]:
    """Every package of src that says what it exports."""
    src = ROOT / "src"
    return [
        ".".join(path.parent.relative_to(src).parts)
        for path in sorted(src.rglob("__init__.py"))
        if "__all__" in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("package", packages())
def test_no_submodule_hides_an_export(package: str) -> None:
    """Importing `room.account` binds the module to the name `account` of the room, over a function loaded lazily."""
    folder = ROOT.joinpath("src", *package.split("."))
    exports = set(importlib.import_module(package).__all__) - set(deniable._ROOMS)
    for name in sorted(exports & {path.stem for path in folder.iterdir()}):
        module = importlib.import_module(f"{package}.{name}")
        hidden = getattr(importlib.import_module(package), name) is module and hasattr(module, name)
        assert not hidden, f"{package}.{name} is the module, not the {name} in it: rename the file"
