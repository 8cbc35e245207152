"""Far-out parameters have an answer or one sentence: no raw error and no warning reaches a user.

What is refused is refused by public parameters, before a ledger is charged.
"""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.errors import DeniableError, InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.learning import (
    FrankWolfe,
    GeometricMedian,
    GradientDescent,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Mean,
    OutputPerturbation,
    QuantileRegressor,
    RegularisedExponential,
    Ridge,
)
from deniable.ledger import Ledger
from tests.laws.neighbours.learning import COUNT, SOLVERS, model_of
from tests.laws.test_estimators import fitted_numbers

X = np.random.default_rng(3).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)
KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "two classes": (LogisticRegression, {"classes": [0, 1]}),
    "three classes": (LogisticRegression, {"classes": [0, 1, 2]}),
    "hinge": (LinearSVC, {"classes": [0, 1], "loss": "hinge"}),
    "smoothed hinge": (LinearSVC, {"classes": [0, 1]}),
    "regression": (LinearRegression, {"label_bounds": (-1, 2)}),
    "quantile": (QuantileRegressor, {"label_bounds": (-1, 2), "quantile": 0.1}),
    "ridge": (Ridge, {"label_bounds": (-1, 2)}),
    "mean": (Mean, {}),
    "median": (GeometricMedian, {"steps": 3}),
}
every = pytest.mark.parametrize("name", KINDS)


def fit(name: str, **changes: Any) -> Any:
    kind, known = KINDS[name]
    model = kind(**{"epsilon": 1, "delta": 1e-6, "data_norm": 2, **known, **changes})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "delta=.* is large for")
        model.fit(X) if name in ("mean", "median") else model.fit(X, Y)
        assert np.isfinite(fitted_numbers(model)).all()
        if model.event_ is not None:
            model.describe()
    return model


@every
@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-4, 50, 1e3, 1e6, 10**9, np.float32(1), np.float16(1), math.inf])
def test_epsilons_that_fit(name: str, epsilon: Any) -> None:
    fit(name, epsilon=epsilon)


@every
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, 1e-300, 1e12, 10**400, "1", None, [1], 1j, True, -math.inf])
def test_epsilons_that_do_not(name: str, epsilon: Any) -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        fit(name, epsilon=epsilon)


@every
@pytest.mark.parametrize("delta", [5e-324, 1e-320, 1e-300, 1e-30, 0.5, 0.999999])
def test_deltas_that_fit(name: str, delta: Any) -> None:
    fit(name, delta=delta)


@every
@pytest.mark.parametrize("delta", [1, 2, -1, math.nan, "1e-6", None])
def test_deltas_that_do_not(name: str, delta: Any) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        fit(name, delta=delta)


def test_solvers_that_need_a_delta_say_so() -> None:
    for name in ("regression", "ridge", "median"):
        with pytest.raises(DeniableError, match="delta"):
            fit(name, delta=0)


@every
@pytest.mark.parametrize("norm", [1e-50, 1e-5, 1e6, 1e50, np.float32(2)])
def test_norms_that_fit(name: str, norm: Any) -> None:
    fit(name, data_norm=norm)


@every
@pytest.mark.parametrize("norm", [1e-300, 1e300, 0, -1, math.inf, math.nan, 10**400, "3", None, [1]])
def test_norms_that_do_not(name: str, norm: Any) -> None:
    with pytest.raises(InvalidArgument, match="data_norm"):
        fit(name, data_norm=norm)


WRONG: list[tuple[str, str, Any]] = [
    ("regression", "label_bounds", (-1e308, 1e308)),
    ("regression", "label_bounds", (0, 1e-300)),
    ("ridge", "alpha", 1e300),
    ("ridge", "alpha", -1),
    ("ridge", "alpha", "a"),
    ("two classes", "C", 1e-300),
    ("two classes", "C", 0),
    ("two classes", "intercept_scaling", 1e300),
    ("smoothed hinge", "width", 1e-300),
    ("smoothed hinge", "loss", "square"),
    ("mean", "center", 1e300),
    ("mean", "center", "a"),
    ("mean", "center", [1, 2, 3]),
    ("mean", "size", 0),
    ("mean", "size", 1.5),
    ("mean", "size", "a"),
    ("two classes", "source", 5),
    ("two classes", "unit", 5),
    ("two classes", "ledger", 5),
    ("two classes", "solver", None),
    ("two classes", "relation", 5),
]


@pytest.mark.parametrize(("name", "argument", "value"), WRONG, ids=lambda v: str(v)[:20])
def test_other_arguments_have_one_sentence(name: str, argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=argument):
        fit(name, **{argument: value})


FAR: list[tuple[str, dict[str, Any]]] = [
    ("two classes", {"solver": GradientDescent(steps=3, learning_rate=1e300)}),
    ("two classes", {"solver": GradientDescent(steps=3, clip=1e-40)}),
    ("three classes", {"solver": GradientDescent(steps=3, clip=1e40)}),
    ("two classes", {"solver": FrankWolfe(steps=3, radius=1e40)}),
    ("two classes", {"solver": OutputPerturbation(strength=1e50)}),
    ("two classes", {"C": 1e-40}),
    ("two classes", {"C": 1e40}),
    ("two classes", {"size": 10**30}),
    ("two classes", {"intercept_scaling": 1e40}),
    ("ridge", {"alpha": 1e40}),
    ("ridge", {"label_bounds": (-1e40, 1e-40)}),
    ("mean", {"center": 1e40}),
    ("smoothed hinge", {"width": 1e-40}),
    ("smoothed hinge", {"width": 1e40}),
]


@pytest.mark.parametrize(("name", "changes"), FAR, ids=lambda v: str(v)[:40])
def test_far_parameters_fit(name: str, changes: dict[str, Any]) -> None:
    fit(name, **changes)


def test_a_density_that_is_too_narrow_is_refused_beforehand(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "people.ledger", unit="row", budget=ApproxDP(9, 1e-3))
    narrow = {"solver": RegularisedExponential(), "size": 40, "ledger": ledger}
    for name, changes in (("ridge", {"alpha": 1e40}), ("smoothed hinge", {"width": 1e40})):
        with pytest.raises(DeniableError, match=r"too narrow|too large"):
            fit(name, **narrow, **changes)
    assert ledger.head().seq == 0
    ledger.close()


ALL = [(name, place) for name, solvers in SOLVERS.items() for place in range(len(solvers))]


@pytest.mark.parametrize(("name", "place"), ALL)
def test_every_solver_takes_every_number_of_records(name: str, place: int) -> None:
    """None, one, fewer than columns: where their number is private, it decides nothing. Where it is public, two are."""
    solver, changes = SOLVERS[name][place]
    swapped = changes.get("relation") == "replace"
    events = []
    for count in (2, 3) if swapped else (0, 1, COUNT):
        model = model_of(name, solver=solver, **changes)
        rows, labels = np.tile(X, (2, 1))[:count], np.arange(count) % 2
        try:
            model.fit(rows) if name in ("Mean", "GeometricMedian") else model.fit(rows, labels)
        except DeniableError:
            assert swapped  # by the number of records, which is public there
            continue
        assert np.isfinite(fitted_numbers(model)).all()
        events.append(model.event_)
    assert swapped or all(one == other for one, other in itertools.pairwise(events))
