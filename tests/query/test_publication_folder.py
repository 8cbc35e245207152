"""A publication that is cut short, resumed, begun by somebody else, or refused: one charge, one draw of every table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import BudgetExceeded, DataError
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import Publication
from deniable.query.publication import folder as folders
from deniable.query.publication import publication as publishing
from tests.query.publications import ALL, CITIES, HEAD, _home, _publication, charges

__all__ = ["_home", "_publication"]
"""Fixtures."""


class Cut(BaseException):
    """Power fails."""


def test_cut_anywhere_a_second_run_finishes_and_pays_nothing_more(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write and every rename is a place to be cut at, before it and after it."""
    Ledger.create(home / "large.ledger", unit="patient_id", budget=PureDP(1000)).close()
    found = publication(HEAD.replace("hospital.ledger", "large.ledger") + ALL + CITIES + "diagnose = 0.05\n")
    monkeypatch.setattr(publishing, "rehearse", lambda publication: None)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # what is synced does not matter to a process
    true_write, true_replace, true_link, true_rename = folders.write_text, os.replace, os.link, os.rename
    true_compute = publishing.compute
    steps = 0
    for cut_at in range(1, 60):
        out, seen, answered = home / f"release-{cut_at}", 0, []

        def step() -> None:
            nonlocal seen
            seen += 1
            if seen == cut_at:  # noqa: B023
                raise Cut

        def around(true: Callable[..., Any]) -> Callable[..., Any]:
            def stepped(*args: Any, **named: Any) -> Any:
                step()
                done = true(*args, **named)
                step()
                return done

            return stepped

        def compute(plan: Any) -> Any:
            answered.append(plan.sql)  # noqa: B023
            return true_compute(plan)

        monkeypatch.setattr(folders, "write_text", around(true_write))
        monkeypatch.setattr(os, "replace", around(true_replace))
        monkeypatch.setattr(os, "link", around(true_link))
        monkeypatch.setattr(os, "rename", around(true_rename))
        monkeypatch.setattr(publishing, "compute", around(compute))
        before = len(charges(home, "large.ledger"))
        try:
            with pytest.raises(Cut):
                found.write(out)
        except pytest.fail.Exception:
            break
        finally:
            monkeypatch.setattr(folders, "write_text", true_write)
            monkeypatch.setattr(os, "replace", true_replace)
            monkeypatch.setattr(os, "link", true_link)
            monkeypatch.setattr(os, "rename", true_rename)
        steps += 1
        if not out.exists():
            kept = {p.name: p.read_bytes() for p in (home / f"{out.name}.partial").glob("*.csv")}
            answered.clear()
            monkeypatch.setattr(publishing, "compute", compute)
            assert found.write(out) == out
            assert len(answered) == 2 - len(kept), "a table that was written is not computed again"
            for name, content in kept.items():
                assert (out / name).read_bytes() == content, "nor drawn again"
        assert len(charges(home, "large.ledger")) == before + 1, "one charge"
        assert sorted(path.name for path in out.iterdir()) == ["METHOD.md", "all.csv", "by_city.csv", "release.json"]
        assert not (home / f"{out.name}.partial").exists()
        assert "- clamped: " in (out / "METHOD.md").read_text(encoding="utf-8"), "what was found is not lost"
    assert steps > 20
    with Ledger.open(home / "large.ledger") as ledger:
        ledger.verify()


def test_whoever_deletes_what_was_begun_pays_again(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    found = publication(HEAD + ALL)
    with monkeypatch.context() as cut:
        cut.setattr(publishing, "compute", lambda plan: (_ for _ in ()).throw(Cut))
        with pytest.raises(Cut):
            found.write(home / "release")
    shutil.rmtree(home / "release.partial")
    found.write(home / "release")
    assert len(charges(home)) == 2


def test_another_plan_does_not_finish_it(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(publishing, "compute", lambda plan: (_ for _ in ()).throw(Cut))
        with pytest.raises(Cut):
            publication(HEAD + ALL).write(home / "release")
    with pytest.raises(DataError, match="begun by another plan"):
        publication(HEAD + ALL.replace("rows = 2", "rows = 3")).write(home / "release")
    assert len(charges(home)) == 1


def test_other_keys_are_another_plan(home: Path, publication: Callable[[str], Publication]) -> None:
    """Also keys from a file, and whole numbers in a row, which are no list in the SQL."""
    pq.write_table(pa.table({"patient_id": [1], "age": [20], "cost": [0.5]}), home / "visits.parquet")
    by_age = (HEAD + CITIES).replace("cities.txt", "ages.txt").replace("city", "age").replace(".csv", ".parquet")
    found = []
    for ages in (range(20, 30), range(20, 31), [20, 22]):
        (home / "ages.txt").write_text("\n".join(map(str, ages)))
        found.append(publication(by_age).digest)
    assert len(set(found)) == 3


def test_only_one_process_at_a_time(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD + ALL)
    with (
        folders.Folder.open(home / "release", digest=found.digest),
        pytest.raises(DataError, match="another process"),
    ):
        found.write(home / "release")
    assert found.write(home / "release").exists()


def test_the_unfinished_folder_is_private(home: Path) -> None:
    with folders.Folder.open(home / "release", digest="x") as folder:
        assert folder.work.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("there", ["file", "folder", "full", "link"])
def test_nothing_is_overwritten(home: Path, publication: Callable[[str], Publication], there: str) -> None:
    out = home / "release"
    if there == "file":
        out.write_text("mine")
    elif there == "link":
        out.symlink_to(home / "nowhere")
    else:
        out.mkdir()
        if there == "full":
            (out / "all.csv").write_text("mine")
    with pytest.raises(DataError, match="never overwritten"):
        publication(HEAD + ALL).write(out)
    assert not charges(home)


def test_a_refused_charge_leaves_nothing_behind(home: Path, publication: Callable[[str], Publication]) -> None:
    found = publication(HEAD.replace("epsilon = 1", "epsilon = 4") + ALL)
    with pytest.raises(BudgetExceeded):
        found.write(home / "release")
    assert sorted(path.name for path in home.iterdir() if "release" in path.name) == []


def test_a_full_disk_after_the_charge(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = publication(HEAD + ALL)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    def opened(handle: int) -> str:
        return os.readlink(f"/proc/self/fd/{handle}")

    with monkeypatch.context() as disk:
        write = os.fsync
        disk.setattr(os, "fsync", lambda handle: (full if opened(handle).endswith(".csv") else write)(handle))
        with pytest.raises(DataError, match=r"the disk is full; .*all\.csv was not written\..* The charge stands"):
            found.write(home / "release")
    assert found.write(home / "release").exists()
    assert len(charges(home)) == 1


def test_keys_that_changed_are_another_plan(
    home: Path, publication: Callable[[str], Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(publishing, "compute", lambda plan: (_ for _ in ()).throw(Cut))
        with pytest.raises(Cut):
            publication(HEAD + CITIES).write(home / "release")
    (home / "cities.txt").write_text("Bern\nBale\n", encoding="utf-8")
    with pytest.raises(DataError, match="begun by another plan"):
        publication(HEAD + CITIES).write(home / "release")
