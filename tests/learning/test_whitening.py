"""The default of linear models: its sensitivity by brute force, its event, and what it learns."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from deniable import Ledger, noise
from deniable.guarantees import GDP, ApproxDP
from deniable.learning import LinearRegression, LinearSVC, LogisticRegression, Ridge, Whitened, losses
from deniable.learning.optimizers import Data, Task, whitening
from deniable.learning.optimizers.statistics import second_moments
from deniable.learning.optimizers.whitening import NoisyMoments, Outlook, whiten
from deniable.learning.privacy import MARGIN, largest_mu
from deniable.learning.table import ONE, IntegerTable
from deniable.noise import InsecureSource
from deniable.noise.discrete import SPREAD
from deniable.units import ADD_REMOVE, REPLACE

CONSTANT = math.sqrt(0.5)
LOSSES = [
    losses.Logistic(),
    losses.Multinomial(3),
    losses.Squared(),
    losses.Hinge(),
    losses.Huber(0.3),
    losses.Pinball(0.9),
]


def task_of(
    loss: losses.LinearLoss, *, relation: Any = ADD_REMOVE, constant: float = CONSTANT, columns: int = 3
) -> Task:
    return Task(loss, columns, ApproxDP(1, 1e-6, relation=relation), size=0, constant=constant)


def released(data: Data, plan: Any) -> np.ndarray:
    """The vector that gets noise σ in every coordinate, from integer records without noise."""
    real = plan.task.linear.regression
    beside = [np.trunc(data.labels * ONE)] if real else []
    if plan.counted:
        beside.append(np.full(data.table.count, float(whitening._COUNTED)))
    sums = second_moments(data, beside)
    above = np.triu_indices(len(sums.second), 1)
    parts = [np.diagonal(sums.second), math.sqrt(2) * sums.second[above]]
    if real:
        parts += [sums.products[0], float(whitening.SQUARES) * sums.squares[:1]]
    if plan.counted:
        parts.append(sums.squares[-1:])
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("constant", [CONSTANT, 0.0])
def test_no_record_moves_the_moments_further_than_declared(loss: losses.LinearLoss, constant: float) -> None:
    """Adding: the vector's own length. Exchanging: the worst of many pairs, those that point apart among them."""
    generator = np.random.default_rng(1)
    added, exchanged = (Whitened().plan(task_of(loss, relation=r, constant=constant)) for r in (ADD_REMOVE, REPLACE))
    rows = generator.normal(size=(60, 3 - bool(constant)))
    rows[:20] = np.outer(np.linspace(-1, 1, 20), rows[0])  # along one line: the worst angles
    labels = np.where(np.arange(60) % 2, 1.0, -1.0)
    table = IntegerTable.place(rows * 9, norm=1.0, intercept=1.0 if constant else 0.0)
    data = Data(table, labels, np.ones(60))
    vectors = [released(data.take(np.array([i])), added) for i in range(60)]
    unit = ONE * ONE
    length = float(added.length) * unit
    apart = max(np.linalg.norm(one - two) for one in vectors for two in vectors)
    assert max(map(np.linalg.norm, vectors)) <= length
    assert max(map(np.linalg.norm, vectors)) > 0.95 * length
    assert apart <= float(exchanged.event.parts[0].sensitivity) * length
    assert exchanged.length == added.length


def test_the_worst_exchange_is_nearly_attained_in_regression() -> None:
    """q = ⟨z, z*⟩ = −½ and yy* = 1 minimise the product of two records: −0.16."""
    z = np.array([[1.0, 0.0], [-0.5, math.sqrt(0.75)]])
    plan = Whitened().plan(task_of(losses.Squared(), relation=REPLACE, columns=2, constant=1.0))
    data = Data(IntegerTable.place(z, norm=1.0), np.ones(2), np.ones(2))
    one, two = (released(data.take(np.array([i])), plan) for i in (0, 1))
    declared = float(plan.event.parts[0].sensitivity * plan.length) * ONE * ONE
    assert 0.999 * declared < np.linalg.norm(one - two) <= declared


def test_noise_is_drawn_with_the_variances_of_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Fraction, tuple[int, ...]]] = []
    real = noise.discrete_gaussian

    def watch(*, variance: Fraction, size: Any, source: Any = None) -> Any:
        drawn.append((variance, tuple(size)))
        return real(variance=variance, size=size, source=source)

    monkeypatch.setattr(noise, "discrete_gaussian", watch)
    plan = Whitened().plan(task_of(losses.Squared()))
    data = Data(IntegerTable.place(np.zeros((9, 2)), norm=1.0, intercept=1.0), np.zeros(9), np.ones(9))
    plan.run(data)
    full = (plan.first * MARGIN * plan.length * ONE * ONE) ** 2
    diagonal, above, products, squares, *steps = drawn
    assert diagonal == (full + SPREAD, (3,))
    assert above == (full / 2 + SPREAD, (3,))  # √2 × the upper triangle counts
    assert products == (full + SPREAD, (3,))
    assert squares == (full / whitening.SQUARES**2 + SPREAD, (1,))
    assert len(steps) == plan.setting.steps
    assert all(size == (3,) for _, size in steps)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_both_parts_together_cost_the_target(loss: losses.LinearLoss, relation: Any) -> None:
    plan = Whitened().plan(task_of(loss, relation=relation))
    first, steps = plan.event.parts
    mu = (first.sensitivity / first.scale) ** 2 + steps.count * (steps.event.sensitivity / steps.event.scale) ** 2
    assert 0.9999999 < math.sqrt(mu) / largest_mu(plan.task.target) <= 1
    assert steps.event.sensitivity == (2 if relation is REPLACE else 1)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_budgets_of_just_this_size_take_it(relation: str, tmp_path: Path) -> None:
    rows, labels = np.zeros((40, 2)), np.arange(40) % 2
    kind = REPLACE if relation == "replace" else ADD_REMOVE
    mu = largest_mu(ApproxDP(1, 1e-6)) * (1 + 1e-9)
    for budget in (ApproxDP(1, 1e-6, relation=kind), GDP(mu, relation=kind)):
        ledger = Ledger.create(tmp_path / f"{type(budget).__name__}.ledger", unit="row", budget=budget)
        model = LogisticRegression(
            epsilon=1, delta=1e-6, data_norm=1, classes=[0, 1], relation=relation, ledger=ledger
        ).fit(rows, labels)
        assert len(list(ledger.charges())) == 1
        assert model.profile_.epsilon(1e-6) <= 1


@pytest.mark.parametrize("wide", [False, True])
def test_a_whitened_row_depends_on_no_other(wide: bool) -> None:
    """Bits and all: the sums over neighbours then differ by exactly one record's gradient."""
    generator = np.random.default_rng(2)
    table = IntegerTable.place(generator.normal(size=(50, 6)), norm=2.0, intercept=1.0)
    second = table.points().T @ table.points() + 0.1 * np.eye(7)
    basis = whiten(NoisyMoments(np.diagonal(second) if wide else second, np.zeros(7), 0.0, 50.0, 1.0, 0.3), ridge=0.3)
    whole = basis.apply(table)
    for kept in (np.array([7]), np.arange(0, 50, 3), np.arange(49, -1, -1)):
        part = basis.apply(table.take(kept))
        assert (part.rows == whole.rows[kept]).all()
        assert (part.lengths == whole.lengths[kept]).all()


def test_whitened_rows_are_as_long_as_planned() -> None:
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(4000, 5)) * [1, 0.1, 0.01, 1, 0.5]
    table = IntegerTable.place(rows, norm=3.0, intercept=1.0)
    second = table.points().T @ table.points()
    basis = whiten(NoisyMoments(second, np.zeros(6), 0.0, 4000.0, 1.0, 1e-3), ridge=0.3)
    white = basis.apply(table).points() * whitening.LONGEST
    assert np.mean(np.sum(white**2, axis=1)) == pytest.approx(1, abs=0.01)
    assert np.linalg.eigvalsh(white.T @ white / 4000).max() == pytest.approx(basis.largest, rel=0.01)


# what it learns


DIGITS, DIGIT = load_digits(return_X_y=True)
GENERATOR = np.random.default_rng(4)
X = GENERATOR.uniform(-1, 1, size=(4000, 4)) * [1, 0.05, 1, 1]
MARGIN_OF_X = X @ [2.0, 40.0, -1.0, 0.0] + 0.5
Y = (GENERATOR.uniform(size=4000) < 1 / (1 + np.exp(-MARGIN_OF_X))).astype(int)


def test_digits_are_learned_without_a_setting() -> None:
    rows = DIGITS / np.linalg.norm(DIGITS, axis=1, keepdims=True)
    model = LogisticRegression(epsilon=1, delta=1e-6, data_norm=1, classes=range(10), source=InsecureSource(1))
    assert model.fit(rows[:1400], DIGIT[:1400]).score(rows[1400:], DIGIT[1400:]) > 0.8
    assert abs(model.size_ - 1400) < 200
    assert 0.03 < model.noise_number_ < 0.15
    assert "noise number" in dict(model.describe().facts)


def test_small_columns_are_not_lost() -> None:
    """The second column decides most and has a twentieth of the others' range."""
    model = LogisticRegression(epsilon=2, delta=1e-6, data_norm=1.8, classes=[0, 1], source=InsecureSource(1)).fit(X, Y)
    assert model.coef_[0, 1] == pytest.approx(40, rel=0.35)
    assert model.coef_[0, 0] == pytest.approx(2, rel=0.35)


def test_more_epsilon_does_not_hurt_regression() -> None:
    labels = np.clip(MARGIN_OF_X + GENERATOR.normal(size=4000), -6, 6)
    known = {"delta": 1e-6, "data_norm": 1.8, "label_bounds": (-6, 6)}
    errors = []
    for epsilon in (0.1, 1, 3, 10):
        model = LinearRegression(epsilon=epsilon, **known, source=InsecureSource(2)).fit(X, labels)
        errors.append(float(np.sqrt(np.mean((model.predict(X) - labels) ** 2))))
    assert all(later < 1.01 * earlier for earlier, later in pairwise(errors))
    assert errors[-1] < 1.1


@pytest.mark.parametrize("changes", [{"fit_intercept": False}, {"intercept_scaling": 0.1}, {"relation": "replace"}])
def test_other_intercepts_and_relations(changes: dict[str, Any]) -> None:
    model = LogisticRegression(
        epsilon=3, delta=1e-6, data_norm=1.8, classes=[0, 1], source=InsecureSource(1), **changes
    ).fit(X, Y)
    assert model.score(X, Y) > 0.7
    assert abs(model.size_ - 4000) < 200


def test_a_strength_shrinks_as_without_privacy() -> None:
    """Ridge at a generous ε is near the exact ridge, whose coefficients are far from those of least squares."""
    labels = np.clip(MARGIN_OF_X, -4, 4)
    known = {"data_norm": 1.8, "label_bounds": (-4, 4), "alpha": 300.0}
    exact = Ridge(epsilon=math.inf, **known).fit(X, labels)
    model = Ridge(epsilon=30, delta=1e-6, **known, source=InsecureSource(1)).fit(X, labels)
    assert model.coef_ == pytest.approx(exact.coef_, abs=0.15)
    strong = LogisticRegression(epsilon=5, delta=1e-6, data_norm=1.8, classes=[0, 1], C=1e-4).fit(X, Y)
    assert np.abs(strong.coef_).max() < 0.5


def test_weights_count_and_zero_weights_do_not() -> None:
    known = {"epsilon": 3, "delta": 1e-6, "data_norm": 1.8, "classes": [0, 1]}
    kept = np.arange(4000) % 3 > 0
    one = LogisticRegression(**known, source=InsecureSource(1)).fit(X, Y, sample_weight=kept.astype(float))
    two = LogisticRegression(**known, source=InsecureSource(1)).fit(X[kept], Y[kept])
    assert one.coef_ == pytest.approx(two.coef_, rel=1e-9)
    half = LogisticRegression(**known, source=InsecureSource(1)).fit(X, Y, sample_weight=np.full(4000, 0.5))
    assert abs(half.size_ - 2000) < 100


def test_both_hinges_are_learned() -> None:
    for loss in ("hinge", "smoothed_hinge"):
        model = LinearSVC(epsilon=2, delta=1e-6, data_norm=1.8, classes=[0, 1], loss=loss, source=InsecureSource(1))
        assert model.fit(X, Y).score(X, Y) > 0.74


def test_a_very_wide_table_gets_a_diagonal() -> None:
    from scipy import sparse

    columns = whitening.MOST_COLUMNS + 1
    rows = sparse.random_array((400, columns), density=0.01, rng=np.random.default_rng(1), format="csr")
    model = LogisticRegression(epsilon=3, delta=1e-6, data_norm=3, classes=[0, 1]).fit(rows, np.arange(400) % 2)
    assert model.coef_.shape == (1, columns)
    assert np.isfinite(model.coef_).all()


def test_a_matrix_that_has_no_eigenvalues_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> Any:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(np.linalg, "eigh", fail)
    model = LinearRegression(epsilon=1, delta=1e-6, data_norm=1, label_bounds=(0, 1)).fit(np.zeros((9, 2)), np.ones(9))
    assert np.isfinite(model.coef_).all()


def test_the_outlook_is_said_before_fitting() -> None:
    model = LogisticRegression(epsilon=0.1, delta=1e-6, data_norm=1, classes=[0, 1])
    few, many = (model.outlook(columns=30, size=size) for size in (300, 10**6))
    assert "n is too small for d at this ε" in str(few)
    assert "95 %" in str(many)
    assert few.number == pytest.approx(31 / (300 * largest_mu(ApproxDP(0.1, 1e-6)) * math.sqrt(0.8)))
    assert isinstance(few, Outlook)
