"""Wherever a promise with a δ meets a number of units that is public, a δ that is large for so many is warned of."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import deniable as dn
from deniable._checks import warn_of_delta
from deniable.cli import main
from deniable.errors import InvalidArgument, PrivacyWarning
from tests.house.test_glossary import callables

X, Y = np.zeros((1000, 2)), np.arange(1000) % 2

CALLS: dict[str, Callable[[float, Path], object]] = {
    # Each states 1,000 units and takes the δ that it is given.
    "deep.Plan": lambda delta, _: dn.deep.Plan(size=1000, batch=1000, steps=1, clip=1, epsilon=1, delta=delta),
    "ledger.Ledger.create": lambda delta, folder: dn.Ledger.create(
        folder / "a.ledger", unit="row", epsilon=1, delta=delta, size=1000
    ).close(),
    "query.open": lambda delta, folder: dn.open(
        {"t": pandas.DataFrame({"a": [1, 2]})},
        unit="row",
        epsilon=1,
        delta=delta,
        ledger=folder / "b.ledger",
        size=1000,
    ).close(),
    "mechanisms.mean": lambda delta, _: dn.mechanisms.mean(
        bounds=(0, 1), epsilon=1, delta=delta, size=1000, relation="replace"
    ),
    "mechanisms.variance": lambda delta, _: dn.mechanisms.variance(
        bounds=(0, 1), epsilon=1, delta=delta, size=1000, relation="replace"
    ),
    "mechanisms.column_means": lambda delta, _: dn.mechanisms.column_means(
        bounds=[(0, 1)], epsilon=1, delta=delta, size=1000
    ),
    "mechanisms.median": lambda delta, _: dn.mechanisms.median(bounds=(0, 1), epsilon=1, delta=delta, size=1000),
    "mechanisms.clustered_means": lambda delta, _: dn.mechanisms.clustered_means(
        widths=[1], epsilon=1, delta=delta, size=1000
    ),
    "mechanisms.clustered_mean": lambda delta, _: dn.mechanisms.clustered_mean(
        width=1, epsilon=1, delta=delta, size=1000
    ),
}
ESTIMATORS = {"fit": {"size": 1000}, "fit, where the number of rows is public": {"relation": "replace"}}
COMMANDS = {
    "account": "account --noise-multiplier 1 --batch 1000 --size 1000 --steps 1",
    "calibrate": "calibrate --epsilon 1 --batch 1000 --size 1000 --steps 1",
    "ledger create": "ledger create {folder}/c.ledger --unit row --epsilon 1 --size 1000",
}
ELSEWHERE = {
    # Public signatures that name both, and where the warning is not theirs to give.
    r"mechanisms\.[A-Z].*": "what the functions return",
    r"learning\..*": "a constructor stores, `fit` acts",
    r"textbook\..*": "formulas, to compare and to teach",
}


def warned(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]


def test_every_public_signature_with_a_size_and_a_delta_is_in_the_table() -> None:
    both = set()
    for name, function in callables():
        try:
            names = set(inspect.signature(function).parameters)
        except ValueError:
            continue
        if "size" in names and names & {"delta", "target", "budget"}:
            both.add(name)
    known = {name for name in both if any(re.fullmatch(pattern, name) for pattern in ELSEWHERE)}
    assert both - known == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_a_large_delta_is_warned_of_and_a_small_one_is_not(name: str, tmp_path: Path) -> None:
    (folder := tmp_path / "other").mkdir()
    (message,) = warned(lambda: CALLS[name](2e-4, tmp_path))
    assert "0.2 of them on average. Choose delta=1e-4 or less" in message
    assert not warned(lambda: CALLS[name](1e-4, folder))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_warns_where_the_number_of_rows_is_public(name: str) -> None:
    def fit(**settings: Any) -> object:
        return dn.learning.LogisticRegression(epsilon=1, data_norm=1, classes=[0, 1], **settings).fit(X, Y)

    assert len(warned(lambda: fit(delta=2e-4, **ESTIMATORS[name]))) == 1
    assert not warned(lambda: fit(delta=1e-4, **ESTIMATORS[name]))
    assert not warned(lambda: fit(delta=2e-4))  # the number of rows is private, and no warning may tell it


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_it_as_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = COMMANDS[name].format(folder=tmp_path)
    monkeypatch.setattr(sys, "argv", ["deniable", *command.split(), "--delta", "2e-3"])
    with warnings.catch_warnings():
        warnings.resetwarnings()
        with pytest.raises(SystemExit):
            main()
    shown = capsys.readouterr().err
    assert shown.startswith("deniable: delta=0.002 is large for 1,000 units: at least one over their number")


def test_planning_a_fit_warns() -> None:
    assert warned(lambda: dn.size(dn.learning.LogisticRegression, columns=3, size=1000, error=0.5, delta=2e-4))


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(PrivacyWarning) as caught:
        CALLS["deep.Plan"](1e-3, Path())
    assert caught[0].filename == __file__


def test_what_has_no_delta_or_no_size_is_not_warned_of() -> None:
    assert not warned(lambda: warn_of_delta(dn.PureDP(1), size=10**9))
    assert not warned(lambda: warn_of_delta(dn.ZCDP(1), size=10**9))
    assert not warned(lambda: warn_of_delta(dn.ApproxDP(1, 0.5), size=None))
    assert warned(lambda: warn_of_delta(dn.ApproxDP(1, 1e-300), size=10**300))
    assert warned(lambda: warn_of_delta(dn.ApproxDP(1, 0.9), size=10**3000))
    with pytest.raises(InvalidArgument, match="size"):
        warn_of_delta(dn.ApproxDP(1, 0.5), size=0)
