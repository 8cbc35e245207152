"""Additive models, declared columns, and what is known of coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from deniable.errors import InvalidArgument, NotSupported
from deniable.guarantees import ApproxDP
from deniable.learning import (
    AdditiveClassifier,
    AdditiveDescent,
    AdditiveRegressor,
    Columns,
    HatEncoder,
    LinearRegression,
    LogisticRegression,
    losses,
)
from deniable.learning.optimizers import Task
from deniable.learning.optimizers.intervals import DescentRecursion
from deniable.noise import InsecureSource
from deniable.units import ADD_REMOVE, REPLACE

GENERATOR = np.random.default_rng(8)
X = GENERATOR.uniform(0, 1, size=(6000, 3))
CURVE = 2 * np.sin(6 * X[:, 0]) + np.abs(X[:, 1] - 0.5)
Y = CURVE + 0.3 * GENERATOR.normal(size=6000)
FRAME = pd.DataFrame(
    {"size-a": 100 * X[:, 0], "b": X[:, 1], "kind": np.where(X[:, 2] > 0.5, "big", "small"), "note": "secret"}
)
DECLARED = Columns({"size-a": (0, 100)}, b=(0, 1), kind=["small", "big"], note=None)
KNOWN = {"epsilon": 2, "delta": 1e-6, "label_bounds": (-4, 4)}


def test_curves_are_learned_where_a_line_is_not_enough() -> None:
    model = AdditiveRegressor(**KNOWN, columns=(0, 1), source=InsecureSource(1)).fit(X, Y)
    line = LinearRegression(**KNOWN, data_norm=3**0.5, source=InsecureSource(1)).fit(2 * X - 1, Y)
    assert model.score(X, Y) > 0.85 > line.score(2 * X - 1, Y)
    first, _, third = model.shape_functions()
    assert first.values[np.array(first.points) == 0.2] > 1
    assert np.abs(third.values).max() < 0.3
    inside = (first.lower <= first.values) & (first.values <= first.upper)
    assert inside.all()
    assert np.max(first.upper - first.lower) < 2


def test_few_records_get_straight_lines_in_the_same_shape() -> None:
    few, many = (AdditiveRegressor(**KNOWN, columns=(0, 1), size=n, source=InsecureSource(1)) for n in (20, 6000))
    few.fit(X[:20], Y[:20])
    many.fit(X, Y)
    assert few.coef_.shape == many.coef_.shape == (18,)
    assert few.event_ == many.event_
    for curve in few.shape_functions():
        assert np.diff(curve.values) == pytest.approx(np.full(5, np.diff(curve.values)[0]), abs=1e-9)


def test_the_count_is_part_of_the_event_unless_it_is_public() -> None:
    method = AdditiveDescent((6, 6), 2)
    tasks = [Task(losses.Squared(), 13, ApproxDP(1, 1e-6), size=n, constant=0.7) for n in (0, 100)]
    unknown, known = (method.plan(task).event for task in tasks)
    assert len(unknown.parts) == 3
    assert len(known.parts) == 2
    swapped = Task(losses.Squared(), 13, ApproxDP(1, 1e-6, relation=REPLACE), size=100, constant=0.7)
    assert len(method.plan(swapped).event.parts) == 2
    model = AdditiveRegressor(epsilon=1, delta=1e-6, columns=(0, 1), label_bounds=(-4, 4)).fit(X[:500], Y[:500])
    assert 0.999 < model.profile_.epsilon(1e-6) <= 1
    assert model.event_.relation is ADD_REMOVE


def test_straight_rows_are_no_longer_than_hats() -> None:
    """|Σ t_k hat_k| ≤ 1 for a column, and the squares of a column's hats add up to at least ½ and at most 1."""
    rows = HatEncoder(bounds=(0, 1)).fit_transform(X[:200])
    lines = rows @ AdditiveDescent((6, 6, 6), 3).straight(18)
    assert lines == pytest.approx(2 * X[:200] - 1)
    assert (np.square(rows).sum(axis=1) <= 3 + 1e-12).all()
    assert rows.reshape(200, 3, 6).sum(axis=2) == pytest.approx(np.ones((200, 3)))


def test_a_frame_goes_in_as_it_is() -> None:
    target = np.where(CURVE > 0, "up", "down")
    model = AdditiveClassifier(
        epsilon=2, delta=1e-6, columns=DECLARED, classes=["down", "up"], source=InsecureSource(1)
    ).fit(FRAME, target)
    assert model.score(FRAME, target) > 0.85
    assert [curve.name for curve in model.shape_functions()] == ["size-a", "b", "kind"]
    assert model.shape_functions()[2].points == ("small", "big")
    three = np.digitize(CURVE, [-1, 1])
    joint = AdditiveClassifier(epsilon=2, delta=1e-6, columns=DECLARED, classes=[0, 1, 2]).fit(FRAME, three)
    assert joint.score(FRAME, three) > 0.7
    assert len(joint.shape_functions()) == 9
    assert clone(joint).columns.declared == DECLARED.declared
    figure = Figure()
    assert len(joint.plot(figure.subplots(1, 3))) == 3
    with pytest.raises(InvalidArgument, match="3 axes"):
        model.plot(figure.subplots(1, 2))
    model.plot(figure.subplots(1, 3))


def test_a_pipeline_is_three_lines() -> None:
    columns = Columns(a=(0, 1), kind=["small", "big"])
    frame = pd.DataFrame({"a": X[:, 0], "kind": FRAME["kind"]})
    model = make_pipeline(columns, LogisticRegression(epsilon=2, delta=1e-6, data_norm=columns.norm, classes=[0, 1]))
    assert model.fit(frame, X[:, 2] > 0.5).score(frame, X[:, 2] > 0.5) > 0.95
    assert list(model[:-1].get_feature_names_out()) == ["a", "kind_small", "kind_big"]
    assert columns.norm == pytest.approx(2**0.5)


def test_columns_are_matched_by_name_and_refused_by_name_alone() -> None:
    rows = DECLARED.transform(FRAME)
    assert DECLARED.transform(FRAME[["note", "kind", "b", "size-a"]]) == pytest.approx(rows)
    assert DECLARED.transform(pl.DataFrame(FRAME.to_dict("list"))) == pytest.approx(rows)
    assert (np.square(rows).sum(axis=1) <= DECLARED.norm**2 + 1e-12).all()
    assert DECLARED.transform(FRAME.drop(columns="note")) == pytest.approx(rows)
    with pytest.raises(InvalidArgument, match="kind missing"):
        DECLARED.transform(FRAME.drop(columns="kind"))
    with pytest.raises(InvalidArgument, match="new undeclared"):
        DECLARED.transform(FRAME.assign(new=1))
    wrong: list[Any] = [5, (1, 0), [], None, "text"]
    for value in wrong:
        with pytest.raises(InvalidArgument):
            Columns({"a": value}).fit({"a": [1]})
    with pytest.raises(InvalidArgument, match="frame"):
        DECLARED.transform(X)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str) -> None:
    """90 % intervals in 12 fits of five numbers: below 75 % has probability 1e-3 if they are right, by these seeds."""
    truth = np.array([1.5, -1.0, 0.5, 0.0, 0.3])
    held = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        rows = generator.uniform(-1, 1, size=(4000, 4))
        margin = rows @ truth[:4] + truth[4]
        known = {"epsilon": 2, "delta": 1e-6, "data_norm": 2, "source": InsecureSource(seed)}
        if kind == "numbers":
            model = LinearRegression(**known, label_bounds=(-6, 6)).fit(
                rows, margin + 0.8 * generator.normal(size=4000)
            )
        else:
            labels = (generator.uniform(size=4000) < 1 / (1 + np.exp(-margin))).astype(int)
            model = LogisticRegression(**known, classes=[0, 1]).fit(rows, labels)
        found = model.coefficient_intervals(confidence=0.9)
        held += [one.lower <= at <= one.upper for one, at in zip(found, truth, strict=True)]
    assert np.mean(held) > 0.75
    assert found[0].p_value < 1e-6
    assert found[-1].name == "intercept"


def test_intervals_say_where_there_are_none() -> None:
    model = LogisticRegression(epsilon=2, delta=1e-6, data_norm=2, classes=[0, 1, 2]).fit(X, np.digitize(Y, [-1, 1]))
    with pytest.raises(NotSupported, match="one margin"):
        model.coefficient_intervals()


def test_the_recursion_is_the_descent() -> None:
    """On one direction with noise: the average is start + G(optimum − start) + Σ w_t noise_t, to rounding."""
    noise = np.random.default_rng(1).normal(size=12)
    recursion = DescentRecursion(np.array([0.7]), 1.1, 0.6, np.array([1.05]), 12, 5)
    theta = speed = total = 0.0
    for turn in range(12):
        speed = 0.6 * speed + 0.7 * (theta - 2.0) + noise[turn]
        theta = (theta - 1.1 * 0.4 * speed) / 1.05
        total += theta if turn >= 7 else 0.0
    parts = sum(noise[turn] * recursion.average(shock=turn)[0] for turn in range(12))
    assert total / 5 == pytest.approx(2.0 * recursion.average(optimum=1.0)[0] + parts)
