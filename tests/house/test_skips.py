"""A skip cannot hide: tests/conftest.py turns an unexpected one into a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
IN_A_TEST = "import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n"
AT_THE_TOP = "import pytest\n\npytest.skip({reason!r}, allow_module_level=True)\n"
EXPECTED_FAILURE = "import pytest\n\n@pytest.mark.xfail(reason={reason!r}, strict=True)\ndef test_it():\n    1 / 0\n"
WITH_LINE = "needs Java; run: apt-get install default-jre-headless"


def passes(folder: Path, code: str, *, reason: str, ci: bool) -> bool:
    """Whether pytest succeeds on one test file, under our conftest."""
    shutil.copy(CONFTEST, folder / "conftest.py")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(code.format(reason=reason))
    variables = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env=variables | ({"CI": "true"} if ci else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, 2, 5), done.stdout + done.stderr
    assert done.returncode in (0, 5) or reason in done.stdout, done.stdout
    return done.returncode in (0, 5)


@pytest.mark.parametrize("code", [IN_A_TEST, AT_THE_TOP], ids=["in a test", "at the top"])
def test_a_skip_needs_its_install_line(tmp_path: Path, code: str) -> None:
    assert passes(tmp_path, code, reason=WITH_LINE, ci=False)
    assert not passes(tmp_path, code, reason="needs Java", ci=False)


@pytest.mark.parametrize("code", [IN_A_TEST, AT_THE_TOP], ids=["in a test", "at the top"])
def test_a_skip_in_ci_is_a_failure(tmp_path: Path, code: str) -> None:
    assert not passes(tmp_path, code, reason=WITH_LINE, ci=True)


def test_a_strict_expected_failure_is_not_a_skip(tmp_path: Path) -> None:
    assert passes(tmp_path, EXPECTED_FAILURE, reason="known", ci=True)


@pytest.mark.xdist_group("alone")
def test_a_group_stays_on_one_worker(request: pytest.FixtureRequest) -> None:
    """Several workers keep a group together by its name in the test's id; a pytest that drops it starts Spark twice."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        assert request.node.nodeid.endswith("@alone")
