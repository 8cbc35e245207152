"""Run the core's tests in environments of their own: the lowest versions that pyproject.toml allows, or other Pythons.

    python .ci/elsewhere.py lowest            # make lowest
    python .ci/elsewhere.py 3.11 3.12 3.13    # make pythons: each that is at hand, with the versions of constraints.txt

Without torch, transformers and Spark: they are large, and the core does not import them. Words after `--` go to pytest.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("audit", "dev", "ibis", "learn", "plot", "postgres", "proof")
ROOMS = (
    "accounting",
    "cli",
    "conversions",
    "events",
    "explaining",
    "guarantees",
    "learning",
    "ledger",
    "mechanisms",
    "noise",
    "query",
)
TESTS = (*(f"tests/{room}" for room in ROOMS), "tests/test_calibration.py", "tests/house/test_loading.py")


def lowest(project: dict[str, Any], extras: Iterable[str] = EXTRAS) -> list[str]:
    """A constraint for each direct dependency: its lower bound, exactly.

    >>> lowest({"dependencies": ["numpy>=2.0"], "optional-dependencies": {"pg": ["psycopg[binary]>=3.2.1"]}}, ["pg"])
    ['numpy==2.0', 'psycopg==3.2.1']
    """
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    bounds = (re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)", line) for line in lines)
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})


def interpreter(version: str) -> str | None:
    """A Python of this version that starts; pyenv's are found where pyenv keeps them."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = shutil.which(f"python{version}")
    for python in [*([named] if named else []), *map(str, sorted(kept.glob(f"{version}.*/bin/python{version}")))]:
        if subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def environment(name: str, python: str, constraints: Path) -> Path:
    """The Python of an environment that holds what the tests need, installed again when a version changes."""
    home = ROOT / f".venv-{name}"
    stamp, wanted = home / ".installed", _digest(constraints, ROOT / "pyproject.toml")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"installing into {home.name}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run(
            [*pip, "--constraint", str(constraints), "--editable", f".[{','.join(EXTRAS)}]"], cwd=ROOT, check=True
        )
        stamp.write_text(wanted, encoding="utf-8")
    return home / "bin" / "python"


def run(name: str, python: str, constraints: Path, words: list[str]) -> bool:
    """Whether the core's tests pass there."""
    there = environment(name, python, constraints)
    workers = os.environ.get("WORKERS", "2")
    given = words or ["-n", workers, "--dist", "loadgroup", *TESTS]
    if name == "lowest":  # old libraries that meet newer ones beneath them say so
        given = ["-W", "ignore::DeprecationWarning", *given]
    print(f"== {name}", flush=True)
    return subprocess.run([str(there), "-m", "pytest", "--quiet", *given], cwd=ROOT, check=False).returncode == 0


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def main(words: list[str]) -> int:
    places, given = words, []
    if "--" in words:
        places, given = words[: words.index("--")], words[words.index("--") + 1 :]
    failed = []
    for name in places:
        python = sys.executable if name == "lowest" else interpreter(name)
        if python is None:
            print(f"== {name}: no interpreter at hand")
            continue
        constraints = ROOT / "constraints.txt"
        if name == "lowest":
            constraints = ROOT / ".venv-lowest.txt"
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            constraints.write_text("\n".join(lowest(project)) + "\n", encoding="utf-8")
        if not run(name, python, constraints, given):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
