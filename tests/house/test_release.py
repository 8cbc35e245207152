"""What `make release` writes: the notes of this version, from the changelog; and that all versions agree."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import deniable

ROOT = Path(__file__).parents[2]


@pytest.fixture(name="release")
def _release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("elsewhere", None)
    return module


def test_every_place_states_the_same_version(release: ModuleType) -> None:
    assert release.version() == deniable.__version__


def test_the_notes_are_those_of_one_version(release: ModuleType) -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [2.0] - 2026\n\n- New.\n\n## [1.0] - 2025\n\n- Old.\n"
    assert release.notes(changelog, "2.0") == "- New."
    assert release.notes(changelog, "1.0") == "- Old."
    with pytest.raises(SystemExit, match=r"no section \[3\.0\]"):
        release.notes(changelog, "3.0")
    assert release.notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), deniable.__version__)
