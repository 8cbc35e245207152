"""Bad input, line by line, for every estimator: every value has a meaning; what is public and wrong has an error."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.learning import (
    BinEncoder,
    CategoryEncoder,
    GeometricMedian,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Mean,
    RangeScaler,
    Ridge,
)
from deniable.ledger import Ledger
from deniable.noise import InsecureSource

N = 200
X = np.random.default_rng(6).normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(int)
KINDS = [LogisticRegression, LinearSVC, LinearRegression, Ridge, Mean, GeometricMedian]
SUPERVISED = KINDS[:4]
CLASSIFIERS = KINDS[:2]


def make(kind: type, **changes: Any) -> Any:
    known: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "data_norm": 3.0}
    if kind in CLASSIFIERS:
        known["classes"] = [0, 1]
    if kind in (LinearRegression, Ridge):
        known["label_bounds"] = (-1, 2)
    return kind(**(known | changes))


def numbers(model: Any) -> np.ndarray:
    return np.ravel(model.location_ if hasattr(model, "location_") else model.coef_)


every = pytest.mark.parametrize("kind", KINDS)


def same(kind: type, rows: Any, labels: Any, other_rows: Any, other_labels: Any, **changes: Any) -> None:
    """With the same noise, both tables give the same numbers."""
    found = [
        numbers(make(kind, source=InsecureSource(3), size=N, **changes).fit(x, y))
        for x, y in ((rows, labels), (other_rows, other_labels))
    ]
    assert (found[0] == found[1]).all()


@every
@pytest.mark.parametrize(
    "value",
    [np.nan, np.inf, -np.inf, None, pd.NA, pd.NaT, "x", "nan", b"\xff", 10**400, 1j, {"a": 1}, [1, 2], object()],
)
def test_what_is_no_number_counts_as_zero(kind: type, value: Any) -> None:
    rows, zero = X.astype(object), X.copy()
    rows[3, 1], zero[3, 1] = value, 0.0
    same(kind, rows, Y, zero, Y)
    if isinstance(value, float):
        same(kind, rows.astype(float), Y, zero, Y)
    same(kind, pd.DataFrame(rows), Y, zero, Y)


@every
@pytest.mark.parametrize(("value", "number"), [("1.5", 1.5), (b"2", 2.0), (True, 1.0), (2 + 0j, 2.0), ("True", 1.0)])
def test_what_reads_as_a_number_is_one(kind: type, value: Any, number: float) -> None:
    rows, plain = X.astype(object), X.copy()
    rows[3, 1], plain[3, 1] = value, number
    same(kind, rows, Y, plain, Y)


@every
def test_one_word_changes_no_other_record(kind: type) -> None:
    """Text among numbers makes text of the whole array, of the file's column, of a Polars column."""
    zero = X.copy()
    zero[3, 1] = 0.0
    texts = np.array([[repr(float(value)) for value in row] for row in X])
    texts[3, 1] = "secret"
    for table in (texts, pd.DataFrame(texts), pl.DataFrame(texts.tolist(), orient="row"), texts.astype(bytes)):
        same(kind, table, Y, zero, Y)
    labels = Y.astype(object)
    if kind in SUPERVISED:
        same(kind, X, labels.astype(str), X, Y)
        gone = labels.copy()
        gone[5] = "secret"
        weights = (np.arange(N) != 5).astype(float)
        one = make(kind, source=InsecureSource(3), size=N).fit(X, gone.astype(str))
        two = make(kind, source=InsecureSource(3), size=N).fit(X, Y, sample_weight=weights)
        assert (numbers(one) == numbers(two)).all()


@pytest.mark.parametrize("kind", SUPERVISED)
@pytest.mark.parametrize("value", [np.nan, np.inf, None, pd.NA, "x", 10**400, 0.5j, [1], object()])
def test_a_record_without_a_usable_label_does_not_count(kind: type, value: Any) -> None:
    labels = Y.astype(object)
    labels[5] = value
    weights = (np.arange(N) != 5).astype(float)
    one = make(kind, source=InsecureSource(3), size=N).fit(X, labels)
    two = make(kind, source=InsecureSource(3), size=N).fit(X, Y, sample_weight=weights)
    assert (numbers(one) == numbers(two)).all()


@every
def test_a_row_beyond_the_norm_is_clipped(kind: type) -> None:
    rows = X.copy()
    rows[0] *= 1e12
    assert np.isfinite(numbers(make(kind).fit(rows, Y))).all()


@every
def test_constant_columns(kind: type) -> None:
    assert np.isfinite(numbers(make(kind).fit(np.ones((N, 3)), Y))).all()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_class_in_the_data(kind: type) -> None:
    model = make(kind, epsilon=20.0).fit(X, np.ones(N, dtype=int))
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X, np.ones(N)) > 0.9


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_declared_class(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="two or more different labels"):
        make(kind, classes=[1]).fit(X, np.ones(N, dtype=int))


@every
def test_no_record_and_few_records(kind: type) -> None:
    """Their number is private: none, one, and fewer than columns are data like any other."""
    for count in (0, 1, 2):
        for known in ({}, {"size": 1}, {"size": 10**6}):
            for rows in (X[:count], sparse.csr_array(X[:count]), pd.DataFrame(X[:count])):
                assert np.isfinite(numbers(make(kind, **known).fit(rows, Y[:count]))).all()


@every
def test_one_record(kind: type) -> None:
    assert np.isfinite(numbers(make(kind).fit(X[:1], Y[:1]))).all()
    assert np.isfinite(numbers(make(kind, relation="replace").fit(X[:1], Y[:1]))).all()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_undeclared_labels_do_not_count(kind: type) -> None:
    labels = np.where(np.arange(N) < 50, 40, Y)
    weights = (np.arange(N) >= 50).astype(float)
    one = make(kind, source=InsecureSource(3), size=N).fit(X, labels)
    two = make(kind, source=InsecureSource(3), size=N).fit(X, Y, sample_weight=weights)
    assert (numbers(one) == numbers(two)).all()
    assert make(kind, epsilon=20.0).fit(X, Y).score(X, Y + 40) == 0


@every
def test_epsilon_infinity_is_the_fit_without_privacy(kind: type) -> None:
    model = make(kind, epsilon=math.inf).fit(X, Y)
    assert model.event_ is None
    assert (numbers(model) == numbers(make(kind, epsilon=math.inf).fit(X, Y))).all()
    if kind is Mean:
        assert numbers(model) == pytest.approx(clipped().mean(axis=0), abs=1e-3)
    if kind is GeometricMedian:
        unit = (numbers(model) - clipped()) / np.linalg.norm(numbers(model) - clipped(), axis=1)[:, None]
        assert np.linalg.norm(unit.sum(axis=0)) < 0.1


def clipped() -> np.ndarray:
    return X / np.maximum(1, np.linalg.norm(X, axis=1) / 3)[:, None]


@every
def test_epsilon_infinity_is_refused_by_a_ledger(kind: type, tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "people.ledger", unit="row", budget=ApproxDP(4, 1e-4)) as ledger:
        with pytest.raises(InvalidArgument, match="finite where a ledger"):
            make(kind, epsilon=math.inf, ledger=ledger).fit(X, Y)
        assert list(ledger.charges()) == []


@every
def test_wrong_shapes(kind: type) -> None:
    with pytest.raises(ValueError, match="Reshape your data"):
        make(kind).fit(X[0], Y[:3])
    with pytest.raises(InvalidArgument, match="without rows"):
        make(kind, relation="replace").fit(X[:0], Y[:0])
    with pytest.raises(InvalidArgument, match="as long as X") as caught:
        make(kind).fit(X, Y, sample_weight=np.ones(N - 1))
    assert str(N) not in str(caught.value)


@pytest.mark.parametrize("kind", SUPERVISED)
def test_labels_of_another_length(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="as long as X") as caught:
        make(kind).fit(X, Y[:-1])
    assert str(N) not in str(caught.value)
    assert str(N - 1) not in str(caught.value)


@every
def test_another_number_of_columns_when_predicting(kind: type) -> None:
    model = make(kind).fit(X, Y)
    if hasattr(model, "predict"):
        with pytest.raises(ValueError, match="2 features"):
            model.predict(X[:, :2])


@every
def test_zero_out_is_not_offered(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="relation"):
        make(kind, relation="zero_out").fit(X, Y)


ENCODERS = [RangeScaler(bounds=(0, 1)), BinEncoder(edges=[[0.5]]), CategoryEncoder(categories=[["a"]])]


@pytest.mark.parametrize("model", [*(make(kind) for kind in KINDS), *ENCODERS], ids=lambda model: type(model).__name__)
def test_a_column_in_place_of_a_table_is_not_quoted(model: Any) -> None:
    """scikit-learn's own message prints the array."""
    with pytest.raises(InvalidArgument, match="Reshape your data") as caught:
        model.fit(np.array([0.123456, 0.25]), [0, 1])
    assert "0.123456" not in str(caught.value)
