"""The rooms import what docs/architecture.md lets them, and the contracts that say so can fail."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}
ROOMS = {name for layer in CONTRACTS["layers"]["layers"] for name in re.findall(r"\w+", layer)}
IMPORTED_AS = {"argon2-cffi": "argon2", "scikit-learn": "sklearn", "python-flint": "flint"}
SIBLINGS = ("query", "learning", "deep", "auditing", "explaining")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run lint-imports with the contracts of this project on the package under `root`/src."""
    command = (
        "import sys; sys.path[:0] = sys.argv[1:]; "
        "from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", command, str(root / "src"), str(ROOT)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_hold() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def dependencies() -> set[str]:
    """The import names of everything pyproject.toml asks for."""
    project = PROJECT["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    names = [re.match(r"[\w-]+", line)[0] for line in lines]  # type: ignore[index]
    return {IMPORTED_AS.get(name, name) for name in names}


def test_every_name_in_a_contract_is_a_room_or_a_dependency() -> None:
    """A misspelt name would forbid nothing."""
    known = dependencies() | set(sys.stdlib_module_names) | {f"deniable.{room}" for room in ROOMS}
    built = (path.relative_to(ROOT / "src").with_suffix("").parts for path in (ROOT / "src").rglob("*.py"))
    known |= {".".join(parts).removesuffix(".__init__") for parts in built}
    for contract in CONTRACTS.values():
        rooms = [*contract.get("rooms", []), *(home.split(".")[0] for home in contract.get("homes", []))]
        names = [name.removesuffix(".*") for name in (*contract.get("forbidden", []), *contract.get("libraries", []))]
        assert set(rooms) <= ROOMS, contract["id"]
        assert set(names) <= known, contract["id"]


def rows() -> dict[str, str]:
    """The rows of the map's table: what each says, by the room's path."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\S+?)` \| (.*)$", page, flags=re.MULTILINE))


def test_every_room_has_a_row_in_the_map_in_order() -> None:
    on_the_map = [row.rstrip("/").removesuffix(".py") for row in rows()]
    in_the_layers = [re.findall(r"\w+", layer) for layer in reversed(CONTRACTS["layers"]["layers"])]
    assert on_the_map == [room for layer in in_the_layers for room in layer if room != "__main__"]


@pytest.mark.parametrize("room", rows())
def test_the_map_says_planned_of_what_is_not_built(room: str) -> None:
    """A row with the right path for a room that exists, and `*planned:*` for one that does not."""
    assert rows()[room].startswith("*planned:*") != (ROOT / "src" / "deniable" / room).exists()


BREACHES = {
    "a lower room imports a higher one": ("units", "from deniable.query import Session", "query"),
    "siblings meet": ("learning", "import deniable.query", "query"),
    "a module that is not on the map": ("attic", "", ""),
    "units and numpy": ("units", "def f():\n    import numpy.linalg", ""),
    "conversions and events": ("conversions", "from deniable.events import Gaussian", "events"),
    "accounting and randomness": ("accounting", "import secrets", ""),
    "the textbook and an engine": (
        "textbook",
        "import deniable.accounting.grid",
        "accounting/__init__ accounting/grid",
    ),
    "noise and accounting": ("noise", "from deniable.accounting import account", "accounting"),
    "descriptions and events": ("descriptions", "import deniable.events", "events"),
    "ledger and data": ("ledger", "import pyarrow.parquet", ""),
    "an engine library outside engines": ("query", "import duckdb", ""),
    "torch outside deep": ("strategies", "import torch", ""),
    "auditing and the ledger": ("auditing", "from deniable.ledger import Ledger", "ledger"),
    "mathematics in the command line": ("cli", "import scipy.stats", ""),
    "a testing tool in src": ("calibration", "import mpmath", ""),
}


@pytest.mark.parametrize(("room", "line", "also"), BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_is_found(tmp_path: Path, room: str, line: str, also: str) -> None:
    """In a house of empty rooms the contracts hold; with one wrong import they do not."""
    package = tmp_path / "src" / "deniable"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for name in {"__init__", "errors", "_checks", "units", *also.split()}:
        (package / name).parent.mkdir(exist_ok=True)
        (package / f"{name}.py").touch()
    assert "0 broken" in lint(tmp_path).stdout
    (package / f"{room}.py").write_text(line)
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 broken" in done.stdout, done.stdout


def test_engines_may_use_their_library(tmp_path: Path) -> None:
    engines = tmp_path / "src" / "deniable" / "query" / "engines"
    engines.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for path in (engines, engines.parent, engines.parents[1]):
        (path / "__init__.py").touch()
    for name in ("errors", "_checks", "units"):
        (engines.parents[1] / f"{name}.py").touch()
    (engines / "duck.py").write_text("import duckdb\n")
    assert "0 broken" in lint(tmp_path).stdout


def test_every_file_that_the_map_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])((?:[a-z_]+/)*[a-z_]+(?:\.py|/))(?=[\s`,)]|$)", text, re.MULTILINE))
    there = {
        str(path.relative_to(ROOT)) + "/" * path.is_dir()
        for top in ("src", "tests", "docs")
        for path in (ROOT / top).rglob("*")
    }
    missing = {each for each in named if not any(f"/{path}".endswith(f"/{each}") for path in there)}
    assert len(named) > 30
    assert not missing
