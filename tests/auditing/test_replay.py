"""Replays prove where the noise was followed through every operation, and give leads otherwise. About 10 seconds."""

from __future__ import annotations

import functools
import math
import os
import random
import time
from collections.abc import Callable
from random import gauss
from typing import Any

import numpy as np
import pytest

import deniable as dn
from deniable import mechanisms as dm
from deniable import noise
from deniable.auditing.additive import Measured
from deniable.auditing.claims import Claim
from deniable.auditing.generators import seeded
from deniable.auditing.neighbours import Pair
from deniable.auditing.recording import DrawTape, recorded
from deniable.auditing.replay import Replayed, Replayer
from deniable.errors import UnitMismatch

ONES = [1.0] * 9
WITH = [*ONES, 25.0]
GENERATOR = np.random.default_rng(3)
STATE = np.random.RandomState(3)
STANDARD = random.Random(3)


def replayed(mechanism: Callable[[Any], Any], claim: Any, pair: tuple[Any, Any] = (ONES, WITH)) -> Replayed:
    return Replayer(mechanism, Pair(*pair, check=False), Claim.of(claim), lambda data: data).replay()


def kinds(found: Replayed) -> list[str]:
    return [finding.kind for finding in found.findings]


class Object:
    """A mechanism that keeps its generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(8)

    def __call__(self, data: list[float]) -> float:
        return self.helper(data)

    def helper(self, data: list[float]) -> float:
        return sum(data) + self.rng.laplace(0, 2)


def closure() -> Callable[[list[float]], float]:
    rng = np.random.default_rng(1)
    return lambda data: sum(data) + rng.laplace(scale=2)


def fresh(data: list[float]) -> float:
    return float(np.random.default_rng().laplace(sum(data), 2))


def partly(rng: np.random.Generator, data: list[float]) -> float:
    return sum(data) + 2 * rng.laplace()


LAPLACE = {
    "legacy functions": lambda data: sum(data) + np.random.laplace(0, 2),
    "a generator of the module": lambda data: sum(data) + GENERATOR.laplace(0, 2),
    "a legacy generator": lambda data: sum(data) + STATE.laplace(0, 2),
    "a generator made inside, noise around the answer": fresh,
    "a closure": closure(),
    "an object": Object(),
    "scaled afterwards": lambda data: (sum(data) + np.random.laplace(0, 2)) / 100,
    "a list": lambda data: [len(data) + np.random.laplace(0, 2), sum(data) + np.random.laplace(0, 2)],
}


def test_finalizers_of_others_are_no_calls_of_the_mechanism() -> None:
    """Garbage that draws when it is collected does not spoil the proof about a mechanism that makes garbage too."""

    class Leftover:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            os.urandom(1)

    def mechanism(data: list[float]) -> float:
        for _ in range(3000):  # enough for a collection
            cycle: list[Any] = []
            cycle.append(cycle)
        return sum(data) + np.random.laplace(0, 2)

    for _ in range(200):
        Leftover()
    assert replayed(mechanism, dn.PureDP(12)).measured is not None


@pytest.mark.parametrize("name", LAPLACE)
def test_laplace_noise_is_measured_wherever_it_is_drawn(name: str) -> None:
    """A shift of 25 (26 with the count) at scale 2 is ε = 12.5 (13): at most that is a promise kept."""
    exact = 13.0 if name == "a list" else 12.5
    refuted = replayed(LAPLACE[name], dn.PureDP(exact * 0.999))
    assert refuted.measured is not None
    assert refuted.measured.epsilon(0) == pytest.approx(exact, rel=1e-6)
    assert refuted.findings[0].proof
    kept = replayed(LAPLACE[name], dn.PureDP(exact))
    assert kept.measured is None
    assert kept.findings == ()
    assert (refuted.runs, kept.runs) == (2 + 8, 2 + 6)


GAUSSIAN = {
    "numpy": lambda data: sum(data) + np.random.normal(0, 5),
    "numpy, standard": lambda data: sum(data) + 5 * np.random.randn(),
    "random": lambda data: sum(data) + random.gauss(0, 5),
    "imported by name": lambda data: gauss(sum(data), 5),
    "an object of random": lambda data: sum(data) + STANDARD.gauss(0, 5),
    "two numbers": lambda data: np.array([0.6, 0.8]) * sum(data) + np.random.normal(0, 5, 2),
}


@pytest.mark.parametrize("name", GAUSSIAN)
def test_normal_noise_is_measured(name: str) -> None:
    """A shift of 25 at σ = 5 is μ = 5."""
    refuted = replayed(GAUSSIAN[name], dn.GDP(4.99))
    assert refuted.measured is not None
    assert refuted.measured.mu == pytest.approx(5, rel=1e-6)
    assert replayed(GAUSSIAN[name], dn.GDP(5)).measured is None


def test_torch_noise_is_measured() -> None:
    """Single precision: what rounding blurs is not counted against the mechanism."""
    torch = pytest.importorskip("torch", reason="needs torch; run: pip install 'deniable[deep]'")

    def functions(data: list[float]) -> Any:
        return torch.tensor(data).sum() + torch.randn(()) * 5

    def in_place(data: list[float]) -> Any:
        return torch.tensor([sum(data), 0.0]) + torch.empty(2).normal_(0, 5.0)

    generator = torch.Generator()

    def given(data: list[float]) -> Any:
        return sum(data) + torch.normal(0.0, 5.0, (1,), generator=generator)

    for mechanism in (functions, given):
        assert replayed(mechanism, dn.GDP(4.9)).measured is not None
        assert replayed(mechanism, dn.GDP(5.001)).measured is None
    # Noise that is drawn into a tensor cannot be followed: a lead, and the game decides.
    found = replayed(in_place, dn.GDP(4.9))
    assert found.measured is None
    assert kinds(found)[0] == "lead"


CLAMPED: dict[str, Callable[[list[float]], Any]] = {
    "cut below": lambda data: max(0.0, sum(data) + np.random.laplace(0, 2)),
    "cut by NumPy": lambda data: float(np.clip(sum(data) + np.random.laplace(0, 2), 0, 1e9)),
    "an array, cut": lambda data: np.maximum(np.array([sum(data)]) + np.random.laplace(0, 2, 1), 0),
    "rounded": lambda data: round(sum(data) + np.random.laplace(0, 2), 3),
    "formatted": lambda data: f"{sum(data) + np.random.laplace(0, 2):.9f}",
    "single precision": lambda data: np.float32(sum(data) + np.random.laplace(0, 2)),
    "a threshold far away": lambda data: -1.0 if np.random.laplace(0, 2) > 1e9 else sum(data) + np.random.laplace(0, 2),
    "an index": lambda data: [sum(data) + np.random.laplace(0, 2)][int(np.random.laplace(0, 2) > 1e12)],
    "a logarithm": lambda data: float(np.log(1000 + sum(data) + np.random.laplace(0, 2))),
    "a sum of two draws": lambda data: sum(data) + np.random.laplace(0, 2) + np.random.laplace(0, 1e-12),
    "caught": lambda data: guarded(lambda: min(1e12, sum(data) + np.random.laplace(0, 2))),
    "a sampler it seeds itself": lambda data: sum(data) + np.random.default_rng(len(data)).laplace(0, 2),
}


def guarded(run: Callable[[], float]) -> float:
    """Swallows everything that is raised."""
    try:
        return run()
    except BaseException:  # noqa: BLE001  (the worst that a mechanism may do)
        return float(np.random.laplace(0, 2))


@pytest.mark.parametrize("name", CLAMPED)
def test_whatever_else_touches_the_noise_there_is_no_proof(name: str) -> None:
    """However rarely a cut would bite: only a form that holds for every value of the noise is a proof."""
    found = replayed(CLAMPED[name], dn.PureDP(0.01))
    assert found.measured is None
    assert not any(finding.proof for finding in found.findings)


HELD = (np.random.default_rng(5),)


def moved_elsewhere(data: list[float], generator: Any = HELD) -> float:
    """The noise is followed, and a generator that no name leads to adds something now and then."""
    return sum(data) + np.random.laplace(0, 2) + 100.0 * (generator[0].random() > 0.999)


SYSTEM = random.SystemRandom()
HIDDEN: dict[str, Callable[[list[float]], Any]] = {
    "the operating system": lambda data: sum(data) + np.random.laplace(0, 2) + (SYSTEM.random() > 0.999),
    "bytes": lambda data: sum(data) + np.random.laplace(0, 2) + (os.urandom(2) == b"aa"),
    "a fresh generator": lambda data: (
        sum(data) + np.random.laplace(0, 2) + (np.random.Generator(np.random.PCG64()).random() > 0.999)
    ),
    "another draw": lambda data: sum(data) + np.random.laplace(0, 2) + (np.random.random() > 0.999),
    "a sampler that is not recorded": lambda data: (
        sum(data) + np.random.laplace(0, 2) + (np.random.noncentral_chisquare(2, 1) > 1e9)
    ),
    "a generator in a tuple": moved_elsewhere,
    "the clock": lambda data: sum(data) + np.random.laplace(0, 2) + (time.time_ns() % 1000 == 7),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_whatever_else_is_random_there_is_no_proof(name: str) -> None:
    """A rare event that a few runs cannot show would make the laws other than they seem."""
    found = replayed(HIDDEN[name], dn.PureDP(0.01))
    assert found.measured is None


def test_what_cannot_be_recorded_is_named() -> None:
    found = replayed(HIDDEN["the operating system"], dn.PureDP(0.01))
    assert any("operating system" in finding.text for finding in found.findings if finding.kind == "randomness")


def sampled(data: list[float], *, bound: float, own_size: bool = False) -> float:
    rng = np.random.default_rng()
    kept = np.array(data)[rng.random(len(data)) < 0.5]
    size = max(1, len(kept)) if own_size else 5
    return float((np.clip(kept, 0, bound).sum() + rng.normal(0, 1)) / size)


def test_given_other_draws_a_plain_claim_is_not_refuted() -> None:
    """Amplification by sampling is real: what one sample shows does not break the claim about all of them."""
    found = replayed(functools.partial(sampled, bound=1), dn.GDP(0.7))
    assert found.measured is None


def test_noise_fitted_to_the_data_breaks_pure_privacy() -> None:
    """Two scales that differ by a fifth: ε is infinite, and the loss at (1, 0.01) is still small."""

    def fitted(data: list[float]) -> float:
        return float(np.random.laplace(0, 1 + 0.2 * (len(data) - 9)))

    assert replayed(fitted, dn.PureDP(50)).measured is not None
    assert replayed(fitted, dn.ApproxDP(1, 0.01)).measured is None
    assert "scale" in kinds(replayed(fitted, dn.ApproxDP(1, 0.01)))


def test_the_data_deciding_how_much_is_drawn_is_told_and_not_judged() -> None:
    """Sparse vector and permute-and-flip do so rightly."""

    def sparse(data: list[float]) -> int:
        threshold = 20 + np.random.laplace(0, 2)
        return next((i for i in range(20) if sum(data) * i / 10 + np.random.laplace(0, 4) >= threshold), -1)

    found = replayed(sparse, dn.PureDP(0.01))
    assert found.measured is None
    assert kinds(found) == ["draws"]
    assert not found.findings[0].proof


def branching(data: list[float]) -> float:
    """No noise where there is nothing to hide."""
    return float(np.random.laplace(sum(data), 30)) if len(data) > 9 else 0.0


def raising(data: list[float]) -> float:
    if len(data) == 9:
        raise ValueError("too few")
    return float(np.random.laplace(sum(data), 30))


def spoilt(data: list[float]) -> float:
    return float(np.random.laplace(sum(data), 30)) + (math.nan if len(data) == 9 else 0.0)


@pytest.mark.parametrize("mechanism", [branching, raising, spoilt])
def test_an_output_of_one_world_alone_is_a_lead_that_the_game_proves(mechanism: Callable[[Any], Any]) -> None:
    """A constant seen in a few draws is a lead. The game needs about ln(1/α)/ln 2 rounds and the detectors' share."""
    found = replayed(mechanism, dn.ApproxDP(3, 0.5))
    assert found.measured is None
    assert kinds(found)[0] == "lead"
    report = dn.audit(mechanism, neighbours=(ONES, WITH), claim=dn.PureDP(1), confidence=1 - 1e-6, runs=200)
    assert (report.verdict, report.by) == ("refuted", "testing")
    assert report.runs < 100


def test_an_answer_that_ignores_its_noise_is_told() -> None:
    def forgetful(data: list[float]) -> float:
        np.random.laplace()
        return float(sum(data))

    assert kinds(replayed(forgetful, dn.PureDP(1))) == ["lead", "noise"]


def test_randomness_that_cannot_be_recorded_never_refutes() -> None:
    """A difference that comes from fresh noise is no sensitivity."""
    system = random.SystemRandom()

    def hidden(data: list[float]) -> float:
        return float(sum(data)) + system.gauss(0, 1000) + np.random.laplace(0, 1e-9)

    found = replayed(hidden, dn.PureDP(1))
    assert found.measured is None


def test_everything_is_as_it_was_afterwards() -> None:
    """Wrappers gone, states restored, the shared source untouched."""
    before = (np.random.laplace, np.random.default_rng, random.gauss, noise.discrete_laplace, GENERATOR)
    states = (np.random.get_state()[1].copy(), random.getstate(), GENERATOR.bit_generator.state)
    replayed(LAPLACE["a generator of the module"], dn.PureDP(1))
    with seeded(4, 2, LAPLACE["a generator of the module"]):
        LAPLACE["a generator of the module"](ONES)
    after = (np.random.laplace, np.random.default_rng, random.gauss, noise.discrete_laplace, GENERATOR)
    assert all(a is b for a, b in zip(before, after, strict=True))
    assert (np.random.get_state()[1] == states[0]).all()
    assert (random.getstate(), GENERATOR.bit_generator.state) == states[1:]
    assert "words" not in vars(noise.secure())


def test_a_call_for_one_more_number_shares_the_others() -> None:
    """So that sampling masks of neighbours differ in one record alone, and the noise after them not at all."""

    def mechanism(size: int) -> tuple[np.ndarray, float]:
        return np.random.random(size), np.random.laplace()

    with recorded(mechanism, DrawTape(1)):
        mask, drawn = mechanism(9)
    with recorded(mechanism, DrawTape(1)):
        longer, again = mechanism(10)
    assert (longer[:9] == mask).all()
    assert drawn == again
    with recorded(mechanism, DrawTape(1, variation=1)):
        same, other = mechanism(9)
    assert (same == mask).all()
    assert other != drawn


def test_seeded_runs_repeat_whatever_generator_is_used() -> None:
    mechanisms = [*LAPLACE.values(), *GAUSSIAN.values(), dm.count(epsilon=1)]
    for mechanism in mechanisms:
        values = []
        for number in (0, 0, 1):
            with seeded(7, number, mechanism):
                values.append(np.ravel(mechanism(ONES)).tolist())
        assert values[0] == values[1]
        if mechanism is not mechanisms[-1]:  # integers may well agree
            assert values[0] != values[2]


def test_noise_is_traced_through_a_sum_whatever_its_size() -> None:
    """Rounding is counted: at 1e12 the last places of floats blur a shift of 1000 scales by 14."""

    def far(data: list[float]) -> float:
        return 1e12 + len(data) + np.random.laplace(0, 0.001)

    assert replayed(far, dn.PureDP(990)).measured is None
    near = replayed(lambda data: 1e3 + len(data) + np.random.laplace(0, 0.001), dn.PureDP(990))
    assert near.measured is not None


def test_cells_bound_the_curve_from_below() -> None:
    """Against closed forms and quadrature: Laplace has δ(ε) = 1 − e^{(ε − t)/2}."""
    from scipy import integrate, stats

    laplace = Measured("laplace", np.array([2.0]), np.array([1.0]))
    for epsilon in (0.0, 0.7, 1.5):
        true = 1 - np.exp((epsilon - 2) / 2)
        assert true - 1e-3 <= laplace.delta(epsilon) <= true
    wide = Measured("gaussian", np.array([0.3]), np.array([1.4]))
    for epsilon in (0.0, 0.5, 1.0):
        one, two = stats.norm(0.3, 1.4).pdf, stats.norm(0, 1).pdf
        odds = np.exp(epsilon)
        true = max(
            integrate.quad(lambda x, a=a, b=b, odds=odds: max(a(x) - odds * b(x), 0), -30, 30, limit=400)[0]
            for a, b in ((one, two), (two, one))
        )
        assert true - 1e-3 <= wide.delta(epsilon) <= true + 1e-7
    discrete = Measured("discrete gaussian", np.array([2.0]), np.array([1.0]), step=4.0)
    profile = dn.account(dn.DiscreteGaussian(scale=4, sensitivity=2))
    for epsilon in (0.0, 0.4, 1.0):
        assert profile.delta(epsilon) - 1e-6 <= discrete.delta(epsilon) <= profile.delta(epsilon) + 1e-12


@pytest.mark.parametrize(
    ("first", "second", "relation", "fine"),
    [
        ([1, 2, 3], [1, 2], dn.ADD_REMOVE, True),
        ([1, 2, 3], [1, 2], dn.REPLACE, False),
        ([1, 2, 3], [3, 1, 4], dn.REPLACE, True),
        ([1, 2, 3], [4, 5, 3], dn.REPLACE, False),
        ([1, 2, 3], [1, 2, 3], dn.ADD_REMOVE, False),
        ([1, 2, 3], [1, 2, 3, 4, 5], dn.ADD_REMOVE, False),
        (np.zeros((3, 2)), np.zeros((4, 2)), dn.ADD_REMOVE, True),
        ({"a": [1, 2], "b": [3, 4]}, {"a": [1], "b": [3]}, dn.ADD_REMOVE, True),
        ({"a": [1, 2], "b": [3, 4]}, {"a": [1, 9], "b": [3, 4]}, dn.ADD_REMOVE, False),
        ([float("nan"), 1.0], [float("nan")], dn.ADD_REMOVE, True),
        (3.0, 4.0, dn.ADD_REMOVE, True),
    ],
)
def test_neighbours_are_checked_against_the_relation(first: Any, second: Any, relation: Any, fine: bool) -> None:
    if fine:
        Pair(first, second).checked(relation)
    else:
        with pytest.raises(UnitMismatch, match="must be neighbours"):
            Pair(first, second).checked(relation)
        Pair(first, second, check=False).checked(relation)


def test_the_rows_of_one_unit_count_as_one() -> None:
    rows = {"id": [1, 1, 2], "x": [5, 6, 7]}
    without = {"id": [2], "x": [7]}
    Pair(rows, without).checked(dn.ADD_REMOVE, dn.Unit.of("id"))
    with pytest.raises(UnitMismatch):
        Pair(rows, without).checked(dn.ADD_REMOVE)
