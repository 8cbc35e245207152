"""A minimum is found on every data set: in float64, in integers, and by a descent that is proved to arrive.

What is checked here is checked by other means than it is computed: long decimals of mpmath, and the lemma's own terms.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import sparse

from deniable.errors import NotSupported
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import LogisticRegression, losses
from deniable.learning.optimizers import Data, Localisation, ObjectivePerturbation, OutputPerturbation, Task, minimum
from deniable.learning.optimizers.minimum import Objective, minimise
from deniable.learning.optimizers.whole import Slope, WholeObjective, descend
from deniable.learning.table import ONE, IntegerTable
from deniable.noise import InsecureSource
from deniable.units import REPLACE

LOSSES: dict[str, losses.LinearLoss] = {
    "logistic": losses.Logistic(),
    "multinomial": losses.Multinomial(3),
    "hinge": losses.SmoothedHinge(0.5),
    "sharp hinge": losses.SmoothedHinge(1e-3),
    "huber": losses.Huber(0.3),
    "wide huber": losses.Huber(50.0),
    "quantile": losses.SmoothedPinball(0.9, 0.3),
}
every = pytest.mark.parametrize("name", LOSSES)


def labels_of(loss: losses.LinearLoss, codes: np.ndarray) -> np.ndarray:
    return codes % loss.outputs if loss.outputs > 1 else np.where(codes % 2, 1.0, -1.0)


def shape_of(loss: losses.LinearLoss, columns: int) -> tuple[int, ...]:
    return (columns,) if loss.outputs == 1 else (columns, loss.outputs)


# long decimals


def derivative(loss: losses.LinearLoss, margins: list[mpmath.mpf], label: float) -> list[mpmath.mpf]:
    """∂φ/∂m by its formula."""
    m = margins[0]
    if isinstance(loss, losses.Logistic):
        return [-label / (1 + mpmath.exp(label * m))]
    if isinstance(loss, losses.Multinomial):
        total = sum(mpmath.exp(one) for one in margins)
        return [mpmath.exp(one) / total - (j == int(label)) for j, one in enumerate(margins)]
    if isinstance(loss, losses.SmoothedHinge):
        width = mpmath.mpf(loss.width)
        return [-label * min(max((1 - label * m + width) / (2 * width), mpmath.mpf(0)), mpmath.mpf(1))]
    if isinstance(loss, losses.SmoothedPinball):
        width = mpmath.mpf(loss.width)
        return [min(max((m - label + width) / (2 * width), mpmath.mpf(0)), mpmath.mpf(1)) - mpmath.mpf(loss.level)]
    assert isinstance(loss, losses.Huber)
    return [min(max(m - label, -mpmath.mpf(loss.width)), mpmath.mpf(loss.width))]


def true_gradient(
    data: Data, loss: losses.LinearLoss, at: Any, *, strength: float, slope: Slope | None = None, origin: Any = None
) -> list[mpmath.mpf]:
    """∇J record by record; `at` is a float vector, or mpmath numbers."""
    columns, outputs = data.table.columns, loss.outputs
    z = [mpmath.mpf(entry) for entry in np.asarray(at, dtype=object).reshape(-1)]
    base = [mpmath.mpf(0)] * len(z) if origin is None else [mpmath.mpf(float(entry)) for entry in origin.reshape(-1)]
    theta = [one + other for one, other in zip(base, z, strict=True)]
    total = [mpmath.mpf(strength) * entry for entry in z]
    if slope is not None:
        fixed = [mpmath.mpf(int(entry)) * mpmath.mpf(slope.step) for entry in slope.multiples.reshape(-1)]
        total = [one + other for one, other in zip(total, fixed, strict=True)]
    rows = data.table.rows if isinstance(data.table.rows, np.ndarray) else data.table.rows.toarray()
    for i in range(data.table.count):
        row = [mpmath.mpf(int(entry)) / ONE for entry in rows[i]]
        margins = [mpmath.fsum(row[j] * theta[j * outputs + k] for j in range(columns)) for k in range(outputs)]
        weight = mpmath.mpf(1) if data.weights is None else mpmath.mpf(float(data.weights[i]))
        for k, slope_k in enumerate(derivative(loss, margins, float(data.labels[i]))):
            for j in range(columns):
                total[j * outputs + k] += weight * row[j] * slope_k
    return total


def norm(vector: list[mpmath.mpf]) -> mpmath.mpf:
    return mpmath.sqrt(mpmath.fsum(entry**2 for entry in vector))


@every
@pytest.mark.parametrize("bits", [64, 130])
def test_residuals_in_integers_are_off_by_at_most_one(name: str, bits: int) -> None:
    loss, unit = LOSSES[name], 90
    rng = random.Random(name)
    sizes = [0.0, 1e-30, 1e-6, 0.5, 0.999, 1.0, 1.001, 7.0, 40.0, 300.0, 1e6, 1e30]
    with mpmath.workdps(120):
        for size, other, code in itertools.product(sizes, (0.0, 1e-9, 2.0, 1e30), range(3)):
            whole = [int(mpmath.mpf(rng.choice([-1, 1]) * scale) * 2**unit) for scale in (size, size + other, other)]
            label = float(labels_of(loss, np.array([code]))[0])
            margins = [mpmath.mpf(one) / 2**unit for one in whole[: loss.outputs]]
            found = loss.whole_residuals(whole[: loss.outputs], unit, label, bits)
            for one, exact in zip(found, derivative(loss, margins, label), strict=True):
                assert abs(mpmath.mpf(one) - exact * 2**bits) <= 1


@every
@pytest.mark.parametrize("form", ["dense", "sparse", "weighted", "moved"])
def test_gradients_in_integers_are_as_near_as_they_say(name: str, form: str) -> None:
    loss, generator = LOSSES[name], np.random.default_rng(5)
    rows = generator.normal(size=(20, 3)) * (generator.random((20, 3)) < 0.2 if form == "sparse" else 1.0)
    weights = generator.choice([0.0, 0.1, 1.0, 1e-300], 20) if form == "weighted" else None
    data = Data(IntegerTable.place(rows, norm=2.0), labels_of(loss, generator.integers(0, 6, 20)), weights)
    assert sparse.issparse(data.table.rows) == (form == "sparse")
    shape = shape_of(loss, 3)
    origin = generator.normal(size=shape) * 1e3 if form == "moved" else np.zeros(shape)
    slope = Slope(
        np.array(generator.integers(-(2**55), 2**55, math.prod(shape)).tolist(), dtype=object).reshape(shape), 1e-9
    )
    whole = WholeObjective(data, loss, 0.37, slope, origin, tolerance=1e-9)
    at = whole.placed(generator.normal(size=shape) * 50)
    gradient, margins = whole.evaluate(at)
    assert margins.shape == (20, *shape[1:])
    with mpmath.workdps(90):
        exact = true_gradient(
            data, loss, [mpmath.mpf(entry) / 2**whole.step_bits for entry in at.reshape(-1)],
            strength=0.37, slope=slope, origin=origin,
        )  # fmt: skip
        found = [mpmath.mpf(entry) / 2**whole.gradient_bits for entry in gradient.reshape(-1)]
        assert norm([a - b for a, b in zip(found, exact, strict=True)]) <= float(whole.error)
        assert norm(found) <= mpmath.mpf(whole.length(gradient).numerator) / whole.length(gradient).denominator


@every
def test_the_error_of_float64_is_as_small_as_it_says(name: str) -> None:
    """Long vectors, offsets, 1000 records in several blocks: the true gradient is within the stated error."""
    loss, generator = LOSSES[name], np.random.default_rng(6)
    data = Data(
        IntegerTable.place(generator.normal(size=(1000, 3)), norm=2.0), labels_of(loss, generator.integers(0, 6, 1000))
    )
    shape = shape_of(loss, 3)
    slope = Slope(np.full(shape, 12345678901234567, dtype=object), 1e-10)
    for size in (0.0, 1.0, 1e4, 1e9):
        at, origin = generator.normal(size=shape) * size, generator.normal(size=shape) * size
        gradient, error = Objective(data, loss, 0.7, slope.floats(), origin).measure(at)
        with mpmath.workdps(50):
            exact = true_gradient(data, loss, at, strength=0.7, slope=slope, origin=origin)
            away = norm([mpmath.mpf(a) - b for a, b in zip(gradient.reshape(-1).tolist(), exact, strict=True)])
            assert away <= error


# data sets


def hard(loss: losses.LinearLoss) -> dict[str, Data]:
    """Data that are hard to minimise on."""
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(60, 3))
    side = (rows[:, 0] > 0).astype(int)
    tables: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "none": (rows[:0], side[:0]),
        "one": (rows[:1], side[:1]),
        "few": (rows[:2], side[:2]),
        "separable": (np.sign(rows), side),
        "duplicates": (np.tile(rows[:1], (60, 1)), np.arange(60)),
        "one direction": (rows[:, :1] * np.ones(3), np.arange(60)),
        "one label": (rows, side * 0),
        "empty rows": (rows * 0, np.arange(60)),
        "scales": (rows * [1.0, 1e-2, 1e-4], np.arange(60)),
        "one far": (np.vstack([rows[:-1] * 1e-3, [[1.0, 1.0, 1.0]]]), side),
    }
    return {
        name: Data(IntegerTable.place(table, norm=1.5, intercept=1.0), labels_of(loss, codes), None)
        for name, (table, codes) in tables.items()
    }


def check(
    data: Data, loss: losses.LinearLoss, theta: np.ndarray, *, strength: float, tolerance: float, **known: Any
) -> None:
    """The gradient at θ, in long decimals: at most the tolerance, but for the rounding of θ itself to float64."""
    with mpmath.workdps(60):
        length = norm(true_gradient(data, loss, theta, strength=strength, **known))
        rounded = (strength + loss.smoothness * data.table.count) * float(np.linalg.norm(theta)) * 2.0**-52
        assert length <= tolerance * (1 + 1e-9) + rounded


@every
@pytest.mark.parametrize("ratio", [1e-5, 1e-2, 10.0])
def test_every_data_set_has_a_minimum(name: str, ratio: float) -> None:
    loss = LOSSES[name]
    strength = ratio * loss.smoothness
    for data in hard(loss).values():
        theta = minimise(data, loss, strength=strength, tolerance=1e-6 * loss.lipschitz)
        check(data, loss, theta, strength=strength, tolerance=1e-6 * loss.lipschitz)


@every
def test_conjugate_gradients_find_it_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for very many parameters; without them this would be slow, so nothing may be left to integers."""
    loss = LOSSES[name]
    monkeypatch.setattr(minimum, "_DENSE", 0)
    monkeypatch.setattr(minimum, "_in_integers", None)
    for label in ("few", "separable", "one direction", "one label"):
        data = hard(loss)[label]
        theta = minimise(data, loss, strength=0.5 * loss.smoothness, tolerance=1e-6 * loss.lipschitz)
        check(data, loss, theta, strength=0.5 * loss.smoothness, tolerance=1e-6 * loss.lipschitz)


@every
def test_curvatures_are_the_derivatives_of_residuals(name: str) -> None:
    loss, generator = LOSSES[name], np.random.default_rng(4)
    shape = (50,) if loss.outputs == 1 else (50, loss.outputs)
    margins, moves = generator.normal(size=shape) * 0.1, generator.normal(size=shape)
    labels = labels_of(loss, np.arange(50))
    step = 1e-7
    numeric = (loss.residuals(margins + step * moves, labels) - loss.residuals(margins - step * moves, labels)) / (
        2 * step
    )
    whole = loss.curvatures(margins, labels)
    for found in (
        loss.curvatures_times(margins, labels, moves),
        losses.LinearLoss.curvatures_times(loss, margins, labels, moves),
    ):
        assert found == pytest.approx(numeric, abs=1e-5)
    assert whole.shape == (50,) if loss.outputs == 1 else (50, loss.outputs, loss.outputs)


@every
def test_what_float64_cannot_tell_is_found_in_integers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tolerance far below the rounding of float64; Newton's steps are enough."""
    loss = LOSSES[name]
    monkeypatch.setattr(minimum, "descend", None)
    for label in ("one", "separable", "one direction"):
        data = hard(loss)[label]
        theta = minimise(data, loss, strength=0.1, tolerance=1e-20)
        check(data, loss, theta, strength=0.1, tolerance=1e-20)


@pytest.mark.parametrize("name", ["logistic", "multinomial", "hinge", "huber"])
def test_the_descent_arrives_as_proved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any Newton step, from a far start, with a slope: certified after no more rounds than were promised."""
    loss = LOSSES[name]
    monkeypatch.setattr(Objective, "newton", lambda self, tolerance: np.full(self.base.shape, 30.0))
    monkeypatch.setattr(Objective, "newton_step", lambda self, margins, gradient: None)
    counts = []

    def counted(whole: WholeObjective, start: Any, gradient: Any) -> Any:
        plain, rounds = whole.evaluate, 0

        def evaluate(at: Any) -> Any:
            nonlocal rounds
            rounds += 1
            return plain(at)

        monkeypatch.setattr(whole, "evaluate", evaluate)
        found = descend(whole, start, gradient)
        monkeypatch.undo()
        assert whole.certified(whole.evaluate(found)[0])
        counts.append((rounds, whole.rounds(gradient)))
        return found

    monkeypatch.setattr(minimum, "descend", counted)
    data = hard(loss)["scales"]
    data = data.take(np.arange(20))
    shape = shape_of(loss, 4)
    slope = Slope(np.full(shape, 3, dtype=object), 0.5)
    theta = minimise(data, loss, strength=1.0, slope=slope, tolerance=1e-7)
    check(data, loss, theta, strength=1.0, tolerance=1e-7, slope=slope)
    assert len(counts) == 1
    assert counts[0][0] <= counts[0][1] < 2000


@pytest.mark.parametrize("kappa", [1.0, 30.0, 3000.0])
def test_the_lemma_of_the_descent(kappa: float) -> None:
    """Wrong gradients in the worst direction that is known, and roundings: Φ stays below its bound in every round."""
    generator = np.random.default_rng(int(kappa))
    for trial in range(40):
        d = int(generator.integers(1, 5))
        bends = np.exp(generator.uniform(0, math.log(kappa), d)) if kappa > 1 else np.ones(d)
        bends[0] = 1.0
        smooth = float(bends.max()) * (1 if trial % 2 else 1.7)
        q = math.sqrt(1 / smooth) * (1 if trial % 3 else 0.8)
        mu, error, nu = q * q * smooth, 10.0 ** generator.uniform(-6, 0), 10.0 ** generator.uniform(-9, -2)
        epsilon = error + 4 * smooth * nu / q
        x = z = generator.normal(size=d) * 10

        def potential(x: np.ndarray, z: np.ndarray, bends: np.ndarray = bends, mu: float = mu) -> float:
            return float(np.sum(bends * x * x) / 2 + mu / 2 * z @ z)

        def unit(vector: np.ndarray) -> np.ndarray:
            return vector / max(float(np.linalg.norm(vector)), 1e-300)

        start = potential(x, z)
        for step in range(1, 300):
            y = (x + q * z) / (1 + q) + nu * unit(bends * x)
            e = -error * unit((1 - q) * z + q * y - bends * y / (q * smooth))
            g = bends * y + e
            x = y - g / smooth
            x = x + nu * unit(bends * x)
            z = (1 - q) * z + q * y - g / (q * smooth)
            z = z + nu * unit(z)
            bound = (1 - q / 2) ** step * start + 8 * epsilon**2 / mu
            assert potential(x, z) <= bound
        assert np.linalg.norm(bends * x) <= math.sqrt(2 * smooth * bound)


# plans


@pytest.mark.parametrize("target", [ApproxDP(1, 1e-6), PureDP(1), ApproxDP(1, 1e-6, relation=REPLACE)], ids=str)
def test_the_declared_size_decides_nothing(target: ApproxDP) -> None:
    """One record or ten million declared, none, one or thousands there: every plan runs."""
    generator = np.random.default_rng(8)
    rows = generator.normal(size=(3000, 2))
    for loss in (losses.Logistic(), losses.Multinomial(3)):
        whole = Data(IntegerTable.place(rows, norm=2.0), labels_of(loss, generator.integers(0, 3, 3000)))
        for method, size, count in itertools.product(
            (OutputPerturbation(), ObjectivePerturbation()), (1, 10**7), (0, 1, 3000)
        ):
            if loss.outputs > 1 and isinstance(method, ObjectivePerturbation):
                continue
            plan = method.plan(Task(loss, 2, target, size=size))
            assert np.isfinite(plan.run(whole.take(np.arange(count)), source=InsecureSource(1))).all()


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 30.0, 1e3, 1e6])
def test_extreme_epsilons_run(epsilon: float) -> None:
    generator = np.random.default_rng(9)
    data = Data(
        IntegerTable.place(generator.normal(size=(300, 2)), norm=2.0), np.where(generator.random(300) < 0.5, 1.0, -1.0)
    )
    for method in (OutputPerturbation(), ObjectivePerturbation()):
        for target in (ApproxDP(epsilon, 1e-6), PureDP(epsilon)):
            plan = method.plan(Task(losses.Logistic(), 2, target, size=300))
            assert np.isfinite(plan.run(data, source=InsecureSource(1))).all()


def test_strengths_that_would_take_for_ever_are_refused_beforehand() -> None:
    swap = ApproxDP(1, 1e-6, relation=REPLACE)
    for method in (OutputPerturbation(strength=1e-9), ObjectivePerturbation(strength=1e-9), Localisation(scale=1e9)):
        with pytest.raises(NotSupported, match="bounded time"):
            method.plan(Task(losses.Logistic(), 2, swap, size=100))


def test_a_loss_without_integers_is_not_minimised() -> None:
    class Plain(losses.Logistic):
        whole_residuals = losses.LinearLoss.whole_residuals

    for method in (OutputPerturbation(), ObjectivePerturbation(), Localisation()):
        with pytest.raises(NotSupported, match="whole_residuals"):
            method.plan(Task(Plain(), 2, ApproxDP(1, 1e-6, relation=REPLACE), size=100))


# several classes


HOSTILE_VALUES = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, -0.0, 5e-324, 2.0**64])
HOSTILE_LABELS = [None, math.nan, math.inf, -1, 99, 2**64 - 1, 1.5, "unknown", "\ud800", b"0", True, (0, 1)]


def fit_classes(seed: int, *, least: int, most: int) -> None:
    """One fit of several classes on data of some kind; it returns."""
    generator = np.random.default_rng(seed)
    count = int(10 ** generator.uniform(math.log10(least), math.log10(most)))
    columns, classes = int(generator.integers(1, 12)), int(generator.choice([3, 4, 5, 8, 12]))
    rows = generator.normal(size=(count, columns)) * 10 ** generator.uniform(-3, 3, size=columns)
    codes = np.digitize(rows @ generator.normal(size=columns), np.linspace(-1, 1, classes - 1))
    if seed % 4 == 1:
        codes = generator.integers(0, classes, count)
    if seed % 4 == 2:
        rows, codes = np.tile(rows[:1], (count, 1)), np.arange(count) % classes
    labels = codes.astype(object)
    if seed % 3:
        for hostile in generator.integers(0, count, 1 + count // 20):
            rows[hostile] = generator.choice(HOSTILE_VALUES, columns)
            labels[hostile] = HOSTILE_LABELS[generator.integers(len(HOSTILE_LABELS))]
    model = LogisticRegression(
        epsilon=10 ** generator.uniform(math.log10(0.05), 1) if seed % 5 else 10 ** generator.uniform(-3, 2),
        delta=generator.choice([0.0, 1e-6]),
        data_norm=columns**0.5,
        classes=list(range(classes)),
        size=[None, count, 1, 10**6][seed % 4],
        solver=["auto", "output"][seed % 2],
        source=InsecureSource(seed),
    ).fit(rows, labels)
    assert np.isfinite(model.coef_).all()
    assert model.coef_.shape == (classes, columns)


@pytest.mark.parametrize("seed", range(24))
def test_several_classes_are_always_fitted(seed: int) -> None:
    fit_classes(seed, least=1, most=3000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(500))
def test_five_hundred_fits_of_several_classes(seed: int) -> None:
    """A hundred to 40,000 records, of which hostile ones are up to a twentieth; no fit is refused."""
    fit_classes(seed, least=100, most=40_000)
