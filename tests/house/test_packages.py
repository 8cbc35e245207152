"""The sdist holds everything under version control and passes its own tests; the wheel runs in an empty environment.

Built without network, by the build backend that is installed. About 20 seconds.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import deniable
from tests.house.test_files import ROOT, tracked

pytestmark = pytest.mark.xdist_group("packages")  # built once

NAME = f"deniable-{deniable.__version__}"
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV"))}
OF_THE_SDIST = [
    "tests/house/test_files.py",
    "tests/house/test_history.py",
    "tests/house/test_make.py",
    "tests/house/test_reference.py",
    "tests/docs/test_comparison.py",
    "tests/events",
]
"""Tests that read the files of a checkout, and some that compute."""


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints, without what the tests' own environment has set."""
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=PLAIN, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder, cwd=ROOT)
    with tarfile.open(folder / f"{NAME}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / NAME


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel, built from the source distribution as an installer would."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", sdist.parent, cwd=sdist)
    return sdist.parent / f"{NAME}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment that holds the wheel. Its dependencies are those of this one, by their path."""
    home = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        wheel,
        cwd=home,
    )
    (site,) = home.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")  # lines of a .pth in there are not run
    return home / "bin"


def described(wheel: Path) -> Message:
    """What the wheel says about itself."""
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(f"{NAME}.dist-info/METADATA"))


def test_the_sdist_holds_what_is_under_version_control(sdist: Path) -> None:
    inside = {str(path.relative_to(sdist)) for path in sdist.rglob("*") if path.is_file()}
    outside = {str(path.relative_to(ROOT)) for path in tracked()}
    assert inside - {"PKG-INFO"} == outside - {"PKG-INFO"}


def test_the_sdist_passes_its_own_tests(sdist: Path) -> None:
    passed = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *OF_THE_SDIST, cwd=sdist)
    assert re.search(r"\d\d\d+ passed", passed)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = ROOT / "src"
    expected = {str(path.relative_to(source)) for path in tracked() if path.is_relative_to(source)}
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert f"{NAME}.dist-info/licenses/LICENSE" in names


def test_the_wheel_runs_where_nothing_else_of_us_is(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import deniable; print(deniable.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert run(installed / "deniable", "--version", cwd=tmp_path) == f"deniable {deniable.__version__}\n"
    (tmp_path / "visits.csv").write_text("patient_id,cost\n" + "".join(f"p{i},{i}\n" for i in range(100)))
    ledger = ["--epsilon", "9", "--unit", "patient_id"]
    run(installed / "deniable", "ledger", "create", "a.ledger", *ledger, cwd=tmp_path)
    asked = ["visits.csv", "SELECT COUNT(*) AS visits FROM visits", "--epsilon", "9", "--ledger", "a.ledger"]
    told = run(installed / "deniable", "query", *asked, "--groups-per-unit", "1", "--rows-per-unit", "1", cwd=tmp_path)
    assert "remaining  ε = 0" in told
    run(installed / "python", "-m", "deniable", "ledger", "verify", "a.ledger", cwd=tmp_path)


def test_every_link_of_the_description_leads_somewhere(wheel: Path) -> None:
    """An index shows the description without the repository: a relative link leads nowhere there."""
    told = described(wheel)
    text = str(told.get_payload())
    assert "# deniable" in text
    links = re.findall(r"\]\(([^)]*)\)|^\[[^\]]+\]: (\S+)|(?:href|src)=\"([^\"]*)\"", text, re.MULTILINE)
    assert [link for link in map("".join, links) if not link.startswith(("https://", "#"))] == []
    for path in re.findall(r"`(docs/[^`]+\.md|[A-Z]+\.md)`", text):
        assert (ROOT / path).exists(), path
    for page in re.findall(r"`([a-z-]+\.md)`", text):
        assert (ROOT / "docs" / page).exists(), page


def test_the_wheel_names_its_licence_its_makers_and_no_address_that_is_not_there(wheel: Path) -> None:
    told = described(wheel)
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Author"] == "The deniable developers"
    assert all(url.split(", ")[1].startswith("https://") for url in told.get_all("Project-URL", []))
