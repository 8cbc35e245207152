"""`import deniable` opens no room; a base installation works without any extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

SRC = str(Path(__file__).parents[2] / "src")
HEAVY = {"scipy", "duckdb", "sqlglot", "torch", "pandas", "polars", "pyarrow", "sklearn", "matplotlib", "rich", "typer"}

# What only extras bring. A finder in front of all others behaves as if none of it were installed.
EXTRAS = [
    "starlette",
    "uvicorn",
    "msgspec",
    "argon2",
    "authlib",
    "joserfc",
    "jinja2",
    "markupsafe",
    "torch",
    "transformers",
    "peft",
    "accelerate",
    "pyspark",
    "psycopg",
    "sklearn",
    "matplotlib",
    "flint",
]
DEV = ["pandas", "polars", "pyarrow", "mpmath", "hypothesis", "pytest"]
BARE = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS + DEV!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def python(code: str, *, cwd: Path | None = None) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": SRC},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def loaded_after(code: str) -> set[str]:
    """The top-level packages in memory after some code."""
    return set(python(f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})").split())


def test_import_opens_no_room() -> None:
    opened = python(
        "import deniable, sys; print(*(name for name in sys.modules if name.startswith('deniable')))"
    ).split()
    assert opened == ["deniable"]


def test_import_loads_nothing_heavy() -> None:
    assert not loaded_after("import deniable") & (HEAVY | {"numpy"})


def test_probe_sees_what_is_loaded() -> None:
    assert "numpy" in loaded_after("import numpy")


def test_describing_and_promising_need_no_engine() -> None:
    """Units, events and guarantees are values: making them loads no engine, no terminal and no scipy."""
    assert not loaded_after("import deniable as dn; dn.Gaussian(scale=1) * 3; dn.ApproxDP(1, 1e-6)") & HEAVY


def test_a_ledger_pays_without_arrays(tmp_path: Path) -> None:
    """A charge is exact arithmetic: who may only read the standard library can pay, and pays at once."""
    create = f"l = dn.Ledger.create({str(tmp_path / 'a.ledger')!r}, unit='row', budget=dn.ApproxDP(1, 1e-6))"
    charge = "l.charge(dn.Laplace(scale=100), purpose='p'); l.charge(dn.Gaussian(scale=100), purpose='q'); l.close()"
    assert not loaded_after(f"import deniable as dn; {create}; {charge}") & (HEAVY | {"numpy"})


def test_base_installation_resolves_every_name() -> None:
    """Without extras, a public name is there or says its pip line."""
    names = json.loads(
        python(
            BARE
            + textwrap.dedent(
                """
                import json
                import deniable
                from deniable.errors import MissingExtra

                answers = {}
                for name in deniable.__all__:
                    try:
                        getattr(deniable, name)
                        answers[name] = "there"
                    except MissingExtra as missing:
                        answers[name] = str(missing)
                print(json.dumps(answers))
                """
            )
        )
    )
    absent = {name: answer for name, answer in names.items() if answer != "there"}
    assert all("pip install 'deniable[" in answer for answer in absent.values()), absent
    assert set(absent) <= {"deep"}, absent


def test_base_installation_imports_every_module() -> None:
    """Only what belongs to an extra may ask for it."""
    missing = python(
        BARE
        + textwrap.dedent(
            """
            import importlib, pkgutil
            import deniable

            for module in pkgutil.walk_packages(deniable.__path__, "deniable.", onerror=lambda name: None):
                if module.name == "deniable.__main__":
                    continue
                try:
                    importlib.import_module(module.name)
                except ImportError as error:
                    print(module.name, type(error).__name__)
            """
        )
    )
    rooms_of_extras = (
        "deniable.accounting.proof",
        "deniable.deep",
        "deniable.learning.columns",
        "deniable.learning.estimators",
        "deniable.learning.preprocessing",
        "deniable.query.engines.spark",
        "deniable.query.engines.postgres",
        "deniable.ledger.stores.postgres",
        *(
            f"deniable.service.{name}"
            for name in (
                "access",
                "app",
                "curator",
                "forms",
                "jobs",
                "oidc",
                "pages",
                "planner",
                "rendering",
                "requests",
                "running",
            )
        ),
    )
    assert [line for line in missing.splitlines() if not line.startswith(rooms_of_extras)] == []


def test_base_installation_runs_the_demo(tmp_path: Path) -> None:
    shown = python(
        BARE + "sys.argv = ['deniable', 'demo', '--folder', '.']\nfrom deniable.cli import main\nmain()", cwd=tmp_path
    )
    assert "ledger verify" in shown


def test_a_missing_package_names_its_extra() -> None:
    shown = python(
        """
        import sys
        import deniable

        sys.modules["torch"] = None  # what Python itself does for a package that must not be imported
        deniable._HOMES["Imagined"] = "imagined"

        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "imagined":
                    raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")

        sys.meta_path.insert(0, Finder())
        try:
            deniable.Imagined
        except deniable.errors.MissingExtra as missing:
            print(missing)
        """
    )
    assert shown == "this needs torch, which is not installed; run: pip install 'deniable[deep]'\n"


def test_a_broken_room_is_not_called_a_missing_extra() -> None:
    shown = python(
        """
        import deniable

        deniable._HOMES["Imagined"] = "nowhere"
        try:
            deniable.Imagined
        except ModuleNotFoundError as error:
            print(type(error).__name__, error.name)
        """
    )
    assert shown == "ModuleNotFoundError nowhere\n"
