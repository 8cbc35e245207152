"""The mutation runner makes the changes it names, kills what tests notice, and leaves the rest. About 5 seconds."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def loaded() -> Any:
    """.ci/mutate.py, which is a script."""
    spec = importlib.util.spec_from_file_location("mutate", ROOT / ".ci" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


mutate = loaded()

SOURCE = '''"""A module."""

LIMIT: int = 3


def larger(x: float, y: float = 1) -> float:
    """The larger of two numbers below a limit."""
    if not x < LIMIT:
        raise ValueError(f"{x + 1} is too much")
    return max(x, y)
'''
CHANGES = {
    (3, "3 → 4"): "LIMIT: int = 4",
    (6, "1 → 2"): "y: float=2",
    (8, "condition turned round"): "if not not x < LIMIT",
    (8, "without Not"): "if not not x < LIMIT",
    (8, "Lt → LtE"): "x <= LIMIT",
    (10, "max → min"): "return min(x, y)",
}


def test_every_change_is_made_once_and_messages_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE, encoding="utf-8")
    found = {(mutant.line, mutant.change): ast.unparse(mutant.tree) for mutant in mutate.mutants(path)}
    assert set(found) == set(CHANGES)
    for name, text in CHANGES.items():
        assert text in found[name]
        changed = set(found[name].splitlines()) - set(ast.unparse(ast.parse(SOURCE)).splitlines())
        assert len(changed) == 1


def test_what_tests_notice_is_killed(tmp_path: Path) -> None:
    package, tests = tmp_path / "src" / "deniable", tmp_path / "test_it.py"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "module.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    tests.write_text("from deniable.module import larger\n\ndef test_it():\n    assert larger(0, 2) == 2\n")
    given = {"source": tmp_path / "src", "root": tmp_path}
    alive = {
        mutant.change
        for mutant in [mutate.unchanged(package / "module.py"), *mutate.mutants(package / "module.py")]
        if not mutate.killed(mutant, (str(tests),), **given)
    }
    assert alive == {"nothing", "3 → 4", "1 → 2", "Lt → LtE"}


def test_every_mutant_has_its_day() -> None:
    everything = list(range(50))
    days = [mutate.chosen(everything, 1 / 8, day) for day in range(8)]
    assert sorted(number for day in days for number in day) == everything
    assert mutate.chosen(everything, 1, 5) == everything


@pytest.mark.parametrize("pattern", mutate.TARGETS)
def test_every_target_is_there_with_its_tests(pattern: str) -> None:
    assert list((ROOT / "src" / "deniable").glob(pattern)), "the module has moved: change .ci/mutate.py with it"
    assert all((ROOT / path).exists() for path in mutate.TARGETS[pattern])
