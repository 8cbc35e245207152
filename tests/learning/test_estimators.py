"""What the estimators promise beyond the common rules: see tests/laws/test_estimators.py for those."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from deniable.errors import InvalidArgument, NotSupported, PrivacyWarning
from deniable.events import Claimed, DiscreteLaplace, Gaussian, Repeated
from deniable.guarantees import ApproxDP
from deniable.learning import (
    FrankWolfe,
    GeometricMedian,
    GradientDescent,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Mean,
    QuantileRegressor,
    cross_val_score,
    losses,
)
from deniable.learning.choice import choose
from deniable.learning.optimizers import NoisySum, ObjectivePerturbation, OutputPerturbation, Task
from deniable.noise import InsecureSource

GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(2000, 3))
Y = (X @ [1.0, -1.0, 0.5] > 0).astype(int)
PUBLIC = {"epsilon": 1, "delta": 1e-6, "data_norm": 2.5}


def test_a_private_count_is_bought_under_add_remove_only() -> None:
    one = LogisticRegression(**PUBLIC, classes=[0, 1], solver="gradient_descent").fit(X, Y)
    assert one.event_.parts[0] == DiscreteLaplace(50)
    assert one.size_ >= 1  # a noisy number
    rest = ApproxDP(0.979, 1e-6)
    assert one.event_.parts[1] == GradientDescent(clip=0.25).plan(Task(losses.Logistic(), 4, rest, 1)).event
    for public in ({"size": 1500}, {"relation": "replace"}):
        two = LogisticRegression(**PUBLIC, classes=[0, 1], solver="gradient_descent", **public).fit(X, Y)
        assert isinstance(two.event_.event, Gaussian)
    assert two.size_ == 2000


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_is_below_and_above_as_many_labels_as_it_says(level: float) -> None:
    """Skewed noise: mean and median differ, and cutting the larger residuals would pull every level to the middle."""
    noise = np.random.default_rng(8).standard_exponential(len(X))
    y = X @ [1.0, -1.0, 0.5] + noise
    model = QuantileRegressor(
        quantile=level, epsilon=5, delta=1e-6, data_norm=4.0, label_bounds=(-6, 10), source=InsecureSource(4)
    ).fit(X, y)
    assert abs(np.mean(y <= model.predict(X)) - level) < 0.04
    with pytest.raises(NotSupported):
        model.coefficient_intervals()


@pytest.mark.parametrize("level", [0, 1, 1.5, "a", None])
def test_a_quantile_lies_between_0_and_1(level: object) -> None:
    with pytest.raises(InvalidArgument, match="quantile"):
        QuantileRegressor(**PUBLIC, quantile=level, label_bounds=(-6, 10)).fit(X, Y)


def test_the_default_is_known_before_the_count() -> None:
    """Nothing is claimed: the event says what runs, whatever the number of records."""
    one, two = (LogisticRegression(**PUBLIC, classes=[0, 1]).fit(X[:size], Y[:size]) for size in (10, len(X)))
    assert one.event_ == two.event_
    assert [type(part.event if isinstance(part, Repeated) else part) for part in one.event_.parts] == [Gaussian] * 2


def test_auto_takes_the_first_method_that_applies() -> None:
    task = Task(losses.Logistic(), 5, ApproxDP(1, 1e-6), size=10_000)
    choice = choose([NoisySum(), GradientDescent(), ObjectivePerturbation()], lambda method: method.plan(task))
    assert choice.name == "gradient_descent"
    assert "mean only" in str(choice)
    with pytest.raises(NotSupported, match="no solver applies"):
        choose([NoisySum()], lambda method: method.plan(task))


def test_the_table_lists_every_method_with_its_prediction_or_its_reason() -> None:
    table = LogisticRegression(**PUBLIC, classes=[0, 1]).compare_solvers(columns=5, size=10_000)
    assert {"whitened", "objective", "output", "gradient_descent", "phased"} <= {entry.name for entry in table.entries}
    risks = {entry.name: entry.risk for entry in table.entries}
    assert 0 < risks["objective"] < 1
    assert math.isinf(risks["phased"])
    assert "relation='replace'" in str(table)


def test_predictions_move_the_right_way() -> None:
    for method in (ObjectivePerturbation(), GradientDescent(), OutputPerturbation()):

        def risk(epsilon: float, size: int, columns: int, method: object = method) -> float:
            return method.plan(Task(losses.Logistic(), columns, ApproxDP(epsilon, 1e-6), size)).risk  # type: ignore[attr-defined]

        assert risk(1, 1000, 5) > risk(1, 10_000, 5)
        assert risk(0.1, 1000, 5) > risk(1, 1000, 5)
        assert risk(1, 1000, 50) > risk(1, 1000, 5)


def test_several_classes_are_one_model_with_one_epsilon() -> None:
    rows, labels = load_digits(return_X_y=True)
    model = LogisticRegression(
        epsilon=8, delta=1e-6, data_norm=1.0, classes=range(10), solver="gradient_descent", source=InsecureSource(4)
    ).fit(rows / 64, labels)
    assert model.coef_.shape == (10, 64)
    assert model.score(rows / 64, labels) > 0.85
    assert model.predict_proba(rows[:5] / 64).sum(axis=1) == pytest.approx(np.ones(5))
    gaussians = [part for part in model.event_.parts if not isinstance(part, DiscreteLaplace | Claimed)]
    assert len(gaussians) == 1
    assert gaussians[0].count == 100


def test_log_probabilities_are_logarithms() -> None:
    for classes in ([0, 1], [0, 1, 2]):
        model = LogisticRegression(**PUBLIC, classes=classes).fit(X, Y)
        assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))
        assert np.isfinite(model.predict_log_proba(X * 1e6)).all()


def test_class_weights_are_declared_and_count_at_most_one() -> None:
    plain, few, scaled = (
        LogisticRegression(**PUBLIC, classes=[0, 1], class_weight=given, source=InsecureSource(1)).fit(X, Y)
        for given in (None, {0: 1, 1: 0.05}, {0: 20, 1: 1})
    )
    assert few.predict(X).mean() < 0.8 * plain.predict(X).mean()
    assert scaled.coef_ == pytest.approx(few.coef_)
    assert few.size_ < 1400  # what counts: about 1000 and 1000/20 records
    for wrong in ("balanced", {2: 1}, {0: -1}, {}, {0: "x"}):
        with pytest.raises(InvalidArgument, match="class_weight"):
            LogisticRegression(**PUBLIC, classes=[0, 1], class_weight=wrong).fit(X, Y)


def test_coefficients_are_in_the_units_of_the_columns() -> None:
    """Columns a hundred times as large, with a norm a hundred times as large, give the same predictions."""
    known = {"epsilon": 5, "delta": 1e-6, "classes": [0, 1], "solver": "gradient_descent"}
    one = LogisticRegression(**known, data_norm=2.5, source=InsecureSource(1)).fit(X, Y)
    two = LogisticRegression(**known, data_norm=250, source=InsecureSource(1)).fit(X * 100, Y)
    assert two.coef_ * 100 == pytest.approx(one.coef_, rel=1e-6)
    assert two.intercept_ == pytest.approx(one.intercept_, rel=1e-6)


def test_regression_finds_slope_and_intercept() -> None:
    labels = 40 + 6 * X[:, 0]
    for solver in ("statistics", "gradient_descent"):
        model = LinearRegression(
            epsilon=20, delta=1e-6, data_norm=4, label_bounds=(0, 80), solver=solver, source=InsecureSource(1)
        ).fit(X, labels)
        assert model.score(X, labels) > 0.8
        assert model.intercept_ == pytest.approx(40, abs=3)
    assert model.predict(X * 1e6).max() == 80


def test_a_hopeless_budget_predicts_the_middle() -> None:
    """On average over seeds the error is within a tenth of that of the public middle."""
    labels = 40 + 6 * X[:100, 0]
    known = {"epsilon": 0.01, "delta": 1e-6, "data_norm": 4, "label_bounds": (0, 80)}
    models = [LinearRegression(**known, source=InsecureSource(seed)).fit(X[:100], labels) for seed in range(20)]
    errors = [np.sqrt(np.mean((model.predict(X[:100]) - labels) ** 2)) for model in models]
    assert np.mean(errors) < 1.1 * np.sqrt(np.mean((labels - 40) ** 2))


def test_svc_takes_either_hinge() -> None:
    for loss in ("hinge", "smoothed_hinge"):
        model = LinearSVC(
            epsilon=3, delta=1e-6, data_norm=2.5, classes=[0, 1], loss=loss, source=InsecureSource(1)
        ).fit(X, Y)
        assert model.score(X, Y) > 0.9
    with pytest.raises(InvalidArgument, match="loss"):
        LinearSVC(**PUBLIC, classes=[0, 1], loss="square").fit(X, Y)
    with pytest.raises(InvalidArgument, match="classes"):
        LinearSVC(**PUBLIC, classes=[0, 1, 2]).fit(X, Y)


def test_the_median_does_not_follow_far_points() -> None:
    points = np.vstack([GENERATOR.normal(size=(900, 2)) * 0.1, np.full((200, 2), 6.0)])
    known = {"epsilon": 5, "delta": 1e-6, "data_norm": 10}
    median = GeometricMedian(**known, source=InsecureSource(1)).fit(points).location_
    mean = Mean(**known, source=InsecureSource(1)).fit(points).location_
    assert np.linalg.norm(median) < 0.5
    assert mean == pytest.approx(points.mean(axis=0), abs=0.2)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_mean_is_divided_by_the_count_itself(delta: float) -> None:
    """A count rounded down for caution would push the mean outwards: 20 seeded fits, off by less than 4 % together."""
    points = np.full((100, 2), 0.5)
    known = {"epsilon": 2, "delta": delta, "data_norm": 1.0}
    found = [Mean(**known, source=InsecureSource(seed)).fit(points).location_ for seed in range(20)]
    assert np.mean(found) == pytest.approx(0.5, rel=0.04)


def test_pure_privacy_has_two_solvers_for_two_classes() -> None:
    model = LogisticRegression(epsilon=5, data_norm=2.5, classes=[0, 1], source=InsecureSource(1)).fit(X, Y)
    assert model.solver_.name == "objective"
    assert "delta" in str(model.solver_)  # why not the default
    usable = {entry.name for entry in model.compare_solvers(columns=3, size=4000).entries if np.isfinite(entry.risk)}
    assert usable == {"objective", "output"}
    assert model.profile_.epsilon(0) <= 5
    assert model.score(X, Y) > 0.8


def test_progress_prints_the_solver(capsys: pytest.CaptureFixture[str]) -> None:
    LogisticRegression(**PUBLIC, classes=[0, 1], progress=True).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out.startswith("whitened: ")
    assert shown.err == ""  # not a terminal: no bar
    LogisticRegression(**PUBLIC, classes=[0, 1]).fit(X, Y)
    assert capsys.readouterr().out == ""


def test_a_center_moves_the_ball() -> None:
    points = np.array([1000.0, -50.0]) + GENERATOR.normal(size=(3000, 2))
    model = Mean(epsilon=2, data_norm=5, center=[1000, -50], source=InsecureSource(2)).fit(points)
    assert model.location_ == pytest.approx([1000, -50], abs=0.2)
    with pytest.raises(InvalidArgument, match="center"):
        Mean(epsilon=2, data_norm=5, center=[1, 2, 3]).fit(points)


def test_classes_and_bounds_are_declared() -> None:
    for wrong in (None, "01", [0], [0, 0], [0, False], [0, np.nan], [0, None], ["1", 1], [0, [1]], 5, [0, np.inf]):
        with pytest.raises(InvalidArgument, match="classes"):
            LogisticRegression(**PUBLIC, classes=wrong).fit(X, Y)
    for bounds in (None, 5, (1, 1), (2, 1), "01", (-1e308, 1e308), (0, 1e-300), (0, 10**400), (0, None)):
        with pytest.raises(InvalidArgument, match="label_bounds"):
            LinearRegression(**PUBLIC, label_bounds=bounds).fit(X, Y)


def test_one_class_in_the_data_is_no_error() -> None:
    model = LogisticRegression(**PUBLIC, classes=[0, 1], source=InsecureSource(1)).fit(X, np.ones(2000, dtype=int))
    assert model.score(X, np.ones(2000)) > 0.95


def test_a_method_that_does_not_apply_says_why() -> None:
    with pytest.raises(NotSupported, match="radius"):
        LogisticRegression(**PUBLIC, classes=[0, 1], solver=FrankWolfe()).fit(X, Y)
    model = LogisticRegression(
        **PUBLIC, classes=[0, 1], solver=FrankWolfe(steps=8, radius=4.0), source=InsecureSource(1)
    ).fit(X, Y)
    assert model.score(X, Y) > 0.7
    with pytest.raises(NotSupported, match="delta"):
        LogisticRegression(epsilon=1, data_norm=1, classes=[0, 1], solver="frank_wolfe").fit(X, Y)
    with pytest.raises(NotSupported, match="regularization"):
        LogisticRegression(**PUBLIC, classes=[0, 1], solver=FrankWolfe(radius=4.0), C=1.0).fit(X, Y)


def test_cross_validation_warns_of_its_cost() -> None:
    model = LogisticRegression(**PUBLIC, classes=[0, 1], solver=GradientDescent(steps=5))
    with pytest.warns(PrivacyWarning, match="3 private fits of epsilon=1"):
        scores = cross_val_score(model, X, Y, cv=3)
    assert scores.shape == (3,)


def test_a_fitted_model_describes_itself() -> None:
    from deniable.explaining import explain

    model = LogisticRegression(epsilon=1, delta=1e-6, data_norm=1, classes=[0, 1], size=200)
    X, y = np.tile([[0.5], [-0.5]], (100, 1)), np.tile([0, 1], 100)
    told = model.fit(X, y).describe()
    assert told.title == "LogisticRegression"
    assert dict(told.facts)["solver"] == model.solver_.name
    assert told.profile is not None
    assert told.profile.epsilon(1e-6) <= 1
    assert "possible reports" in str(explain(model))
    with pytest.raises(InvalidArgument, match="epsilon"):
        LogisticRegression(epsilon=float("inf"), data_norm=1, classes=[0, 1]).fit(X, y).describe()
