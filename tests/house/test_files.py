"""What holds for every file: small, free of one machine's paths, and without what src may not hold."""

from __future__ import annotations

import ast
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
IDS = [str(path.relative_to(ROOT / "src")) for path in SOURCES]
PRODUCTS = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()} | {".git"}

# Spelt in pieces, so that this file does not hold what it looks for.
MACHINE = re.compile(
    r"(?<![\w.])/" + r"(work|root|home|tmp)/\w|\.\./" + r"shared|--(extra-)?index-" + r"url|find-" + r"links"
)


def tracked() -> list[Path]:
    """The files that git has or would take; without git, all that are not plainly products."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = list(ROOT.rglob("*"))
    return sorted(path for path in paths if path.is_file() and not any(map(product, path.relative_to(ROOT).parts)))


def product(part: str) -> bool:
    """Whether a part of a path says that it was made from others."""
    return any(fnmatch(part, pattern) for pattern in PRODUCTS)


def test_no_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tracked()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert found == []


def test_the_search_for_paths_finds_them() -> None:
    assert len(tracked()) > 20
    for line in ("see /" + "tmp/x", "'/" + "home/ada'", "cd ../" + "shared"):
        assert MACHINE.search(line)
    for line in ("docs/home/page", "https://example.org/work/", "./tmp/x"):
        assert not MACHINE.search(line)


def test_every_folder_of_src_is_a_package() -> None:
    """A folder without __init__.py would be imported under another name, or left out of the contracts."""
    assert [path for path in {source.parent for source in SOURCES} if not (path / "__init__.py").exists()] == []


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_source_is_small_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= 700, f"{lines} lines: split it"
    assert ast.get_docstring(ast.parse(text)), "a module starts with what it is"


def entropy(tree: ast.AST) -> list[int]:
    """The lines that take random numbers from the operating system or from NumPy. Who puts NumPy's generator back to
    where it was takes none."""
    taken = {("os", "urandom"), ("np", "random"), ("numpy", "random"), ("uuid", "uuid4")}
    back = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("get_state", "set_state", "seed")
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in taken
        and node not in back
    ]


def test_entropy_is_drawn_in_noise_only() -> None:
    """The contracts cannot see `np.random` or `os.urandom`. The auditor's statistics may use NumPy's generator."""
    allowed = ("noise", "auditing")
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if path.relative_to(ROOT / "src" / "deniable").parts[0] not in allowed
        for line in entropy(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
    assert entropy(ast.parse("import os\n\nx = os.urandom(8)")) == [3]
    assert entropy(ast.parse("x = np.random.normal()\nnp.random.set_state(y)")) == [1]
