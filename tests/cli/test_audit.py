"""`deniable audit`: a named mechanism, scores from two worlds, exit codes. About 5 seconds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from deniable.cli.app import app
from deniable.errors import DataError, InvalidArgument

MODULE = """
import numpy as np
from deniable.auditing import Booleans, Search
from deniable.mechanisms import count

pair = ([1, 2, 3], [1, 2])
search = Search(Booleans(), size=3)
exact = count(epsilon=1)

def loud(rows):
    return len(rows) + np.random.laplace(0, 0.5)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audited_module.py").write_text(MODULE)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_a_refuted_claim_exits_with_4(folder: Path) -> None:
    code, shown = run(
        "audited_module:loud", "--neighbours", "audited_module:pair", "--epsilon", "1", "--plot", "curve.svg"
    )
    assert code == 4
    assert shown.startswith("REFUTED: ε ≤ 1.00")
    assert (folder / "curve.svg").stat().st_size > 1000


def test_a_consistent_claim_exits_with_0() -> None:
    """The function's own event, a search for neighbours; false alarm with probability at most 1e-9."""
    code, shown = run(
        "audited_module:exact", "--neighbours", "audited_module:search", "--runs", "300", "--confidence", "0.999999999"
    )
    assert code == 0
    assert shown.startswith("consistent with")


def test_scores_and_json(folder: Path) -> None:
    generator = np.random.default_rng(0)
    rows = [f"{i % 2},{generator.normal() + 3 * (i % 2)}" for i in range(1000)]
    (folder / "scores.csv").write_text("world,score\n" + "\n".join(rows))
    code, shown = run("scores.csv", "--epsilon", "0.21", "--delta", "1e-5", "--json")
    assert code == 4
    found = json.loads(shown)
    assert (found["verdict"], found["claimed"], found["delta"]) == ("refuted", pytest.approx(0.21), 1e-5)
    code, shown = run("scores.csv", "--mu", "4", "--confidence", "0.999999")
    assert code == 0


def test_the_claim_from_a_file(folder: Path) -> None:
    from deniable.events import Laplace

    (folder / "claim.json").write_text(Laplace(scale=0.4).to_json())
    code, _ = run(
        "audited_module:loud",
        "--neighbours",
        "audited_module:pair",
        "--from",
        "claim.json",
        "--runs",
        "100",
        "--seed",
        "1",
    )
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audited_module:loud", "--epsilon", "1"], "--neighbours"),
        (["audited_module:nothing", "--neighbours", "audited_module:pair", "--epsilon", "1"], "can be imported"),
        (["nowhere:loud", "--neighbours", "audited_module:pair", "--epsilon", "1"], "can be imported"),
        (["loud", "--neighbours", "audited_module:pair", "--epsilon", "1"], "MODULE:NAME"),
        (["audited_module:loud", "--neighbours", "audited_module:pair"], "claim must be given"),
        (["audited_module:loud", "--neighbours", "audited_module:pair", "--epsilon", "1", "--mu", "1"], "given alone"),
        (["audited_module:loud", "--neighbours", "audited_module:pair", "--from", "none.json"], "readable JSON"),
        (["one.csv"], "given with scores"),
    ],
)
def test_mistakes_are_explained(folder: Path, arguments: list[str], words: str) -> None:
    (folder / "one.csv").write_text("world,score\n0,1\n")
    with pytest.raises(InvalidArgument, match=words):
        run(*arguments)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "world,score\n2,1\n", "world,score\n0,high\n", "world,score\n0\n"])
def test_a_file_without_scores_is_refused(folder: Path, text: str) -> None:
    (folder / "scores.csv").write_text(text)
    with pytest.raises((DataError, InvalidArgument), match=r"world|8 or more"):
        run("scores.csv", "--epsilon", "1")
    with pytest.raises(DataError, match="cannot be read"):
        run("absent.csv", "--epsilon", "1")
