"""Break the core on purpose, one small change at a time, and see whether its tests notice: `make mutate`.

A mutant is one module with one change: `<` becomes `<=`, `+` becomes `-`, `max` becomes `min`, 1 becomes 2, a
condition is turned round. Its tests run in a process of its own until the first one fails. A mutant that nothing kills
shows a test that is missing, or a change without effect; it is printed with its line.

    python .ci/mutate.py                      # one mutant in eight, a different eighth each day
    python .ci/mutate.py --share 1 fold       # all mutants of the modules whose path contains "fold"

The parent process loads numpy, scipy and pytest once and forks; a child loads `deniable` afresh, with the mutant in
place of the module. So a mutant costs little more than the tests that kill it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SUMS = ("tests/mechanisms/test_sensitivities.py",)
TARGETS: dict[str, tuple[str, ...]] = {
    "accounting/fold.py": ("tests/accounting/test_fold.py",),
    "accounting/filters/*.py": ("tests/accounting/filters",),
    "calibration.py": ("tests/test_calibration.py",),
    "conversions/*.py": ("tests/conversions",),
    "noise/bernoulli.py": ("tests/noise/test_bernoulli.py",),
    "noise/discrete.py": ("tests/noise/test_discrete_laplace.py", "tests/noise/test_discrete_gaussian.py"),
    "noise/source.py": ("tests/noise/test_source.py",),
    "noise/laws.py": ("tests/noise/test_tables.py",),
    **{f"mechanisms/{name}.py": SUMS for name in ("additive", "counts", "moments")},
}
"""Modules under src/deniable, and the tests that must notice when one of them is wrong. The first pattern counts."""

PATIENCE = 120
"""Seconds of processor time after which a mutant counts as killed: it runs for ever."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
OPPOSITES = [("max", "min"), ("ceil", "floor"), ("any", "all"), ("above", "below")]
NAMES = {name: other for pair in OPPOSITES for name, other in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A module with one change."""

    path: Path
    line: int
    change: str
    tree: ast.Module


class Places(ast.NodeVisitor):
    """The nodes that can be changed: not those of annotations, messages, docstrings and `__slots__`-like constants."""

    def __init__(self) -> None:
        self.nodes: list[ast.AST] = []

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *(default for default in node.args.kw_defaults if default), *node.body):
            self.visit(part)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What a refusal says is not what decides it."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nor is a text."""

    def generic_visit(self, node: ast.AST) -> None:
        if changes(node):
            self.nodes.append(node)
        super().generic_visit(node)


def changes(node: ast.AST) -> list[str]:
    """What can be done to one node."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp | ast.AugAssign):
        kinds = node.ops if isinstance(node, ast.Compare) else [node.op]
        return [f"{type(kind).__name__} → {SWAPS[type(kind)].__name__}" for kind in kinds if type(kind) in SWAPS][:1]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return [f"{node.value!r} → {node.value + 1!r}"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return [f"without {type(node.op).__name__}"]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        return [f"{name} → {NAMES[name]}"] if name in NAMES else []
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return ["condition turned round"]
    return []


def apply(node: Any) -> None:
    """Make the change, in place."""
    if isinstance(node, ast.Compare):
        at = next(i for i, kind in enumerate(node.ops) if type(kind) in SWAPS)
        node.ops[at] = SWAPS[type(node.ops[at])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign):
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1  # type: ignore[operator]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            node.func.id = NAMES[node.func.id]
        elif isinstance(node.func, ast.Attribute):
            node.func.attr = NAMES[node.func.attr]
    else:
        node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of one module, in the order of its lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places = Places()
    places.visit(tree)
    for place, node in enumerate(places.nodes):
        changed = copy.deepcopy(tree)
        again = Places()
        again.visit(changed)
        apply(again.nodes[place])
        yield Mutant(path, getattr(node, "lineno", 0), changes(node)[0], ast.fix_missing_locations(changed))


def unchanged(path: Path) -> Mutant:
    """The module as it is: what must survive."""
    return Mutant(path, 0, "nothing", ast.parse(path.read_text(encoding="utf-8")))


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a mutant where its module is asked for."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        self.name, self.mutant = name, mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(
            name, self.mutant.path, loader=self, submodule_search_locations=None
        )  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutant.tree, str(self.mutant.path), "exec"), module.__dict__)


def killed(mutant: Mutant, tests: tuple[str, ...], *, source: Path = ROOT / "src", root: Path = ROOT) -> bool:
    """Whether a test fails, or nothing ends, with the mutant in place."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            gc.freeze()  # what the parent holds is neither collected nor copied
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            import resource

            resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 5))
            name = ".".join(mutant.path.relative_to(source).with_suffix("").parts)
            sys.meta_path.insert(0, Instead(name, mutant))
            sys.path.insert(0, str(source))
            os.chdir(root)
            import pytest

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status != 0


def chosen(everything: list[Mutant], share: float, day: int) -> list[Mutant]:
    """Every so many, starting at a place that moves from day to day; all after that many days."""
    step = max(1, round(1 / share))
    return everything[day % step :: step]


def targets(words: list[str]) -> dict[Path, tuple[str, ...]]:
    """The modules, each with the tests of the first pattern that matches it."""
    found: dict[Path, tuple[str, ...]] = {}
    for pattern, tests in TARGETS.items():
        for path in sorted((ROOT / "src" / "deniable").glob(pattern)):
            if path.name != "__init__.py" and (not words or any(word in str(path) for word in words)):
                found.setdefault(path, tests)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="parts of paths; all targets if none is given")
    parser.add_argument("--share", type=float, default=1 / 8, help="the share of all mutants that is tried")
    parser.add_argument("--least", type=float, default=0.0, help="fail if a smaller share of them is killed")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("WORKERS", "2")))
    given = parser.parse_args()
    import mpmath  # noqa: F401 - loaded before the forks
    import numpy as np  # noqa: F401
    import pytest  # noqa: F401
    import scipy.special
    import scipy.stats  # noqa: F401

    start, day = time.monotonic(), datetime.now(UTC).toordinal()
    tried = dead = 0
    passing: set[tuple[str, ...]] = set()
    with ThreadPoolExecutor(given.workers) as pool:
        for path, tests in targets(given.modules).items():
            if tests not in passing and killed(unchanged(path), tests):
                raise SystemExit(f"{' '.join(tests)} must pass without a change first")
            passing.add(tests)
            some = chosen(list(mutants(path)), given.share, day)
            results = list(pool.map(lambda mutant, tests=tests: killed(mutant, tests), some))  # type: ignore[misc]
            name = path.relative_to(ROOT / "src" / "deniable")
            print(f"{name}: {sum(results)} of {len(some)} killed", flush=True)
            for mutant, result in zip(some, results, strict=True):
                if not result:
                    print(f"    line {mutant.line}: {mutant.change}", flush=True)
            tried, dead = tried + len(some), dead + sum(results)
    share = dead / max(tried, 1)
    print(f"{dead} of {tried} mutants killed, {share:.1%}, in {time.monotonic() - start:.0f} s")
    return int(share < given.least)


if __name__ == "__main__":
    sys.exit(main())
