"""Every solver's event is taken by every kind of ledger whose budget is just what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.errors import BudgetExceeded, DeniableError, NotSupported, UnitMismatch
from deniable.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from deniable.learning import GeometricMedian, LinearRegression, LinearSVC, LogisticRegression, Mean, losses
from deniable.learning.optimizers import (
    SGD,
    FrankWolfe,
    GradientDescent,
    LastIterate,
    Localisation,
    Method,
    NoisySum,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedSGD,
    RegularisedExponential,
    SufficientStatistics,
    Task,
    TextbookGradientDescent,
)
from deniable.learning.privacy import multiplier, round_up
from deniable.ledger import Ledger
from deniable.units import ADD_REMOVE, REPLACE, Relation

SMOOTH = losses.Logistic()
GAUSSIAN: list[tuple[Method, losses.LinearLoss | losses.PointLoss, Relation]] = [
    (GradientDescent(steps=30), SMOOTH, ADD_REMOVE),
    (GradientDescent(steps=30), losses.Distance(), REPLACE),
    (OutputPerturbation(), SMOOTH, ADD_REMOVE),
    (OutputPerturbation(), SMOOTH, REPLACE),
    (SufficientStatistics(), losses.Squared(), ADD_REMOVE),
    (SufficientStatistics(), losses.Squared(), REPLACE),
    (NoisySum(), losses.HalfSquare(), ADD_REMOVE),
    (PhasedSGD(), SMOOTH, REPLACE),
    (Localisation(), SMOOTH, REPLACE),
    (RegularisedExponential(), SMOOTH, ADD_REMOVE),
]


def charged(tmp_path: Path, budget: Guarantee, event: object) -> bool:
    """Whether a fresh ledger takes the event; and whether it then refuses it a second time."""
    with Ledger.create(tmp_path / f"{type(budget).__name__}.ledger", unit="row", budget=budget) as ledger:
        try:
            ledger.charge(event, purpose="fit")  # type: ignore[arg-type]
        except BudgetExceeded:
            return False
        with pytest.raises(BudgetExceeded):
            ledger.charge(event, purpose="again")  # type: ignore[arg-type]
        return True


@pytest.mark.parametrize(("method", "loss", "relation"), GAUSSIAN, ids=lambda v: str(v)[:24])
def test_gaussian_methods_fit_gdp_zcdp_and_approximate_budgets(
    method: Method, loss: losses.LinearLoss | losses.PointLoss, relation: Relation, tmp_path: Path
) -> None:
    target = ApproxDP(1, 1e-6, relation=relation)
    plan = method.plan(Task(loss, 3, target, size=2000, radius=1.0 if isinstance(loss, losses.PointLoss) else None))
    mu = 1 / multiplier(target)
    assert charged(tmp_path, target, plan.event)
    assert charged(tmp_path, GDP(mu, relation=relation), plan.event)
    assert charged(tmp_path, ZCDP(mu * mu / 2, relation=relation), plan.event)


def test_the_textbook_costs_less_than_its_target(tmp_path: Path) -> None:
    target = ApproxDP(1, 1e-6, relation=REPLACE)
    plan = TextbookGradientDescent().plan(Task(SMOOTH, 3, target, size=500, radius=1.0))
    with Ledger.create(tmp_path / "one.ledger", unit="row", budget=target) as ledger:
        ledger.charge(plan.event, purpose="fit")
    mu = round_up(2 * math.sqrt(plan.steps) / float(plan.ratio) * (1 + 1e-12))
    assert charged(tmp_path, GDP(mu, relation=REPLACE), plan.event)


@pytest.mark.parametrize("method", [OutputPerturbation(), ObjectivePerturbation(), NoisySum()], ids=lambda m: m.name)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_pure_methods_fit_pure_budgets(method: Method, relation: Relation, tmp_path: Path) -> None:
    target = PureDP(0.7, relation=relation)
    loss = losses.HalfSquare() if isinstance(method, NoisySum) else SMOOTH
    event = method.plan(Task(loss, 3, target, size=2000)).event
    assert charged(tmp_path, target, event)
    with Ledger.create(tmp_path / "less.ledger", unit="row", budget=PureDP(0.699, relation=relation)) as less:
        assert not less.fits(event)
    with Ledger.create(tmp_path / "z.ledger", unit="row", budget=ZCDP(0.7**2 / 2, relation=relation)) as concentrated:
        concentrated.charge(event, purpose="fit")


@pytest.mark.parametrize(
    ("method", "relation"),
    [
        (ObjectivePerturbation(), ADD_REMOVE),
        (ObjectivePerturbation(), REPLACE),
        (SGD(steps=20, rate=0.1), ADD_REMOVE),
        (LastIterate(), REPLACE),
        (FrankWolfe(steps=20, radius=2.0), ADD_REMOVE),
    ],
    ids=lambda v: str(v)[:24],
)
def test_the_others_fit_an_approximate_budget(method: Method, relation: Relation, tmp_path: Path) -> None:
    target = ApproxDP(1, 1e-6, relation=relation)
    plan = method.plan(Task(SMOOTH, 3, target, size=2000))
    assert charged(tmp_path, target, plan.event)
    if isinstance(method, FrankWolfe):
        rho = plan.event.event.epsilon**2 * plan.event.count / 8
        assert charged(tmp_path, ZCDP(rho), plan.event)


def test_a_fit_with_its_count_needs_no_more_than_its_promise(tmp_path: Path) -> None:
    """With the noisy count, and whatever the choice was: the budget may be just (ε, δ)."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(500, 3))
    y = (X[:, 0] > 0).astype(int)
    known = {"epsilon": 1, "delta": 1e-6, "data_norm": 2}
    for i, model in enumerate(
        (
            LogisticRegression(**known, classes=[0, 1]),
            LogisticRegression(**known, classes=[0, 1], solver="gradient_descent"),
            LinearRegression(**known, label_bounds=(-1, 2)),
            LinearRegression(**known, label_bounds=(-1, 2), solver="statistics"),
            Mean(**known),
        )
    ):
        path = tmp_path / f"{i}.ledger"
        Ledger.create(path, unit="row", budget=ApproxDP(1, 1e-6)).close()
        model.set_params(ledger=str(path)).fit(X, y)
    for pure in (Mean(epsilon=1, data_norm=2), LogisticRegression(epsilon=1, data_norm=2, classes=[0, 1])):
        path = tmp_path / f"{type(pure).__name__}.ledger"
        Ledger.create(path, unit="row", budget=PureDP(1)).close()
        pure.set_params(ledger=str(path)).fit(X, y)


def test_a_declared_size_and_a_named_solver_fit_a_gaussian_budget(tmp_path: Path) -> None:
    X = np.random.default_rng(1).normal(size=(500, 3))
    target = ApproxDP(1, 1e-6)
    path = tmp_path / "people.ledger"
    Ledger.create(path, unit="row", budget=GDP(1 / multiplier(target))).close()
    known = {"epsilon": 1, "delta": 1e-6, "data_norm": 2, "size": 500, "ledger": str(path)}
    LogisticRegression(**known, classes=[0, 1], solver="gradient_descent").fit(X, (X[:, 0] > 0).astype(int))


ENDLESS = [
    (LogisticRegression, {"classes": [0, 1]}),
    (LinearSVC, {"classes": [0, 1]}),
    (LinearRegression, {"label_bounds": (-1, 2)}),
    (GeometricMedian, {}),
    (Mean, {}),
]


@pytest.mark.parametrize(("kind", "known"), ENDLESS, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_what_applies_applies_to_every_number_of_records(kind: type, known: dict[str, object], delta: float) -> None:
    """The noisy count is read after the charge, so no method may refuse a number then, unless it says so beforehand."""
    model = kind(epsilon=1, delta=delta, data_norm=2, **known)
    loss = model._loss(2) if "classes" in known else losses.Squared() if "label_bounds" in known else model._loss()
    target = ApproxDP(1, delta) if delta else PureDP(1)
    radius = 1.0 if isinstance(loss, losses.PointLoss) else None
    for method in (*model._methods(), *model._by_name()):
        if isinstance(method, SGD):
            continue  # the size sets the length of its steps and nothing else, and its noise is searched for slowly
        found = []
        for size in (1, 1000, 10**12):
            try:
                found.append(bool(method.plan(Task(loss, 2, target, size=size, radius=radius))))
            except DeniableError:
                found.append(False)
        assert method.limited or len(set(found)) == 1, (method, found)


def test_a_limited_solver_asks_for_the_size_before_the_charge(tmp_path: Path) -> None:
    X = np.random.default_rng(2).uniform(-1, 1, size=(50, 2))
    with Ledger.create(tmp_path / "one.ledger", unit="row", budget=ApproxDP(1, 1e-6)) as ledger:
        known = {"epsilon": 1, "delta": 1e-6, "data_norm": 2, "solver": "exponential", "ledger": ledger}
        with pytest.raises(NotSupported, match="size="):
            GeometricMedian(**known).fit(X)
        GeometricMedian(**known, size=50).fit(X)


@dataclass(frozen=True)
class Choosy(GradientDescent):
    """A method that applies to a thousand records, as is tried before the charge, and to no other number."""

    def plan(self, task: Task) -> Any:
        if task.size != 1000:
            raise self.refuse("it likes thousands.") if task.size % 2 else OverflowError("beyond floating point")
        return super().plan(task)


def test_nothing_is_refused_because_of_the_noisy_count(tmp_path: Path) -> None:
    """The count is read after the charge: where no solver applies to it, the plan that was tried beforehand runs."""
    rows = np.random.default_rng(5).normal(size=(500, 2))
    path = tmp_path / "one.ledger"
    Ledger.create(path, unit="row", budget=ApproxDP(9, 1e-3)).close()
    for _ in range(4):
        known = {"epsilon": 1, "delta": 1e-6, "data_norm": 2, "solver": Choosy(steps=2), "ledger": str(path)}
        model = LogisticRegression(**known, classes=[0, 1]).fit(rows, (rows[:, 0] > 0).astype(int))
        assert model.solver_.plan.task.size == 1000


def test_a_ledger_of_people_asks_whether_rows_are_people(tmp_path: Path) -> None:
    """A fit protects rows. Charged to a ledger of patients who own several, it would cost each of them too little."""
    X = np.array([[-0.6, 0.8], [0.6, 0.8]] * 50)
    y = np.array([0, 1] * 50)
    model = LogisticRegression(epsilon=1, delta=1e-6, data_norm=1.0, classes=[0, 1], size=100)
    with Ledger.create(tmp_path / "people.ledger", unit="patient_id", budget=ApproxDP(1, 1e-6)) as ledger:
        for unit in (None, "row", "city"):
            with pytest.raises(UnitMismatch, match=r"one patient.*unit='patient_id'"):
                model.set_params(ledger=ledger, unit=unit).fit(X, y)
        assert ledger.head().seq == 0
        model.set_params(unit="patient_id").fit(X, y)
        assert ledger.head().seq == 1
    assert model.profile_.cost(1e-6) == "ε ≤ 1.00, δ = 1e-6, one patient added or removed"
    assert model.describe().guarantee.neighbours == "one patient added or removed"
    with Ledger.create(tmp_path / "rows.ledger", unit="row", budget=ApproxDP(1, 1e-6)) as ledger:
        with pytest.raises(UnitMismatch, match="one row"):
            model.set_params(ledger=ledger).fit(X, y)
        model.set_params(unit=None).fit(X, y)
