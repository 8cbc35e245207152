"""Build a release and check it: `make release`.

    python .ci/release.py 3.11 3.12 3.13

1. The version is the same in the package, in CITATION.cff and in the first released section of CHANGELOG.md.
2. A wheel and a source distribution are built into dist/.
3. Each is installed into an empty environment, with each Python of these that is at hand, and answers a question.
4. dist/NOTES.md has the notes of the release, from the changelog, and the hashes of both files.

Nothing is uploaded.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from elsewhere import ROOT, interpreter

DIST = ROOT / "dist"
QUESTION = ("query", "visits.csv", "SELECT COUNT(*) AS visits FROM visits", "--unit", "patient_id", "--budget", "3")


def version() -> str:
    """The version, if everything that states it agrees."""
    source = (ROOT / "src" / "deniable" / "__init__.py").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    stated = {
        "src/deniable/__init__.py": _first(r'^__version__ = "([^"]+)"', source),
        "CITATION.cff": _first(r"^version: (\S+)", citation),
        "CHANGELOG.md": _first(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
    }
    if len(set(stated.values())) > 1:
        raise SystemExit(f"the versions differ: {stated}")
    return stated["CITATION.cff"]


def notes(changelog: str, name: str) -> str:
    """The section of one version.

    >>> notes("## [Unreleased]\\n\\n## [2.0] - 2026\\n\\n- New.\\n\\n## [1.0] - 2025\\n\\n- Old.\\n", "2.0")
    '- New.'
    """
    found = re.search(rf"^## \[{re.escape(name)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section [{name}]")
    return found[1].strip()


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else "nothing"


def build() -> list[Path]:
    """The wheel and the source distribution."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", str(DIST)], cwd=ROOT, check=True)
    return sorted(DIST.iterdir())


def check(package: Path, python: str, name: str) -> None:
    """Install one file into an empty environment and ask a first question there."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
        pip = [str(folder / "env" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(package)], check=True)
        command = str(folder / "env" / "bin" / "deniable")
        rows = "".join(f"p{i % 900},{i % 3}\n" for i in range(1800))
        (folder / "visits.csv").write_text(f"patient_id,city\n{rows}", encoding="utf-8")
        told = subprocess.run([command, "--version"], cwd=folder, check=True, capture_output=True, text=True).stdout
        if told.split() != ["deniable", name]:
            raise SystemExit(f"{package.name} says {told!r}")
        limits = ("--epsilon", "1", "--groups-per-unit", "1", "--rows-per-unit", "2", "--yes")
        asked = subprocess.run([command, *QUESTION, *limits], cwd=folder, check=True, capture_output=True, text=True)
        visits = int(asked.stdout.splitlines()[1].split()[0])
        if not 1700 < visits < 1900:  # noise of scale 2: further off less than once in 10^20 releases
            raise SystemExit(f"{package.name} counts {visits} of 1800 visits")
        subprocess.run([command, "ledger", "verify", "visits.ledger"], cwd=folder, check=True, capture_output=True)


def main(pythons: list[str]) -> int:
    name = version()
    text = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), name)
    packages = build()
    checked = []
    for wanted in pythons:
        python = interpreter(wanted)
        if python is None:
            print(f"Python {wanted}: no interpreter at hand")
            continue
        for package in packages:
            check(package, python, name)
            print(f"Python {wanted}: {package.name} answers", flush=True)
        checked.append(wanted)
    hashes = "\n".join(f"- `{file.name}` sha256 `{hashlib.sha256(file.read_bytes()).hexdigest()}`" for file in packages)
    ran = ", ".join(checked) or "none"
    (DIST / "NOTES.md").write_text(
        f"# deniable {name}\n\n{text}\n\n## Files\n\n{hashes}\n\nInstalled and asked with Python {ran}.\n",
        encoding="utf-8",
    )
    print(f"dist: {', '.join(file.name for file in packages)}, NOTES.md")
    return 0 if checked else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
