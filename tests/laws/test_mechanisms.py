"""Laws that every mechanism obeys. A mechanism without an example here fails the first of them.

1. The event describes the noise that is drawn (the calls to the samplers are recorded).
2. The stated error holds (each test raises a false alarm with probability at most 1e-6).
3. Neighbours under the mechanism's relation give events that are the same: an event never depends on data.
4. Bad data never raise, and never change what is drawn.
5. Bad arguments raise InvalidArgument, with a message that names the argument.

About 40 seconds on a busy machine with two cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import mechanisms as dm
from deniable import noise
from deniable.accounting.accountant import account
from deniable.errors import DeniableError, InvalidArgument
from deniable.events import Claimed, DiscreteGaussian, DiscreteLaplace, Event, ExponentialMechanism, RandomizedResponse
from deniable.events.sampling import leaves
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import Mechanism
from deniable.noise import InsecureSource, RecordingSource
from deniable.units import ADD_REMOVE, REPLACE, ZERO_OUT, Relation

KEYS = ["a", "b", "c"]
FLAGS = [True] * 30 + [False] * 20
LETTERS = ["a"] * 25 + ["b"] * 15 + ["c"] * 10
NUMBERS = [0.5 * i for i in range(50)]
TABLE = {"x": [0, 1] * 25, "y": ["u", "v", "v", "u", "u"] * 10}
ATTRIBUTES = {"x": [0, 1], "y": ["u", "v"]}
ROWS = [[i / 50, 1 - i / 50] for i in range(50)]


@dataclass(frozen=True)
class Example:
    """How to make a mechanism under each relation it has, data for it, and how wrong a release is."""

    make: Callable[[Relation], Mechanism]
    data: Any
    wrong: Callable[[Any, Mechanism], float]
    relations: tuple[Relation, ...] = (ADD_REMOVE, REPLACE, ZERO_OUT)
    assumptions: dict[str, Any] = field(default_factory=dict)
    promise: Callable[[Relation], PureDP | ApproxDP] = lambda relation: PureDP(1, relation=relation)
    records: bool = True
    """Whether data are records, so that any of them may be missing or absurd."""


def approximate(relation: Relation) -> ApproxDP:
    return ApproxDP(1, 1e-6, relation=relation)


def largest(found: Any, truth: Any) -> float:
    return float(np.max(np.abs(np.asarray(found, dtype=float) - np.asarray(truth, dtype=float))))


def histogram_error(found: dict[Any, int], truth: list[str]) -> float:
    return max(abs(found[key] - truth.count(key)) for key in KEYS)


def table_of(names: tuple[str, ...]) -> np.ndarray:
    truth = np.zeros([2] * len(names), dtype=int)
    for row in zip(*(TABLE[name] for name in names), strict=True):
        truth[tuple(ATTRIBUTES[name].index(value) for name, value in zip(names, row, strict=True))] += 1
    return truth


def shares(found: dict[Any, dm.Estimate]) -> float:
    return max(abs(found[key].value - LETTERS.count(key) / 50) for key in KEYS)


def rank_error(value: float, q: float) -> float:
    below, upto = sum(x < value - 1e-4 for x in NUMBERS), sum(x <= value + 1e-4 for x in NUMBERS)
    return max(0.0, below - q * 50, q * 50 - upto)


UTILITIES = [0, 3, 9, 10, 2]
BOTH = (ADD_REMOVE, REPLACE)
CLUSTER = [5 + i / 1000 for i in range(400)]
BIDS = [1, 1, 1, 3.01, 2, 2.5] * 10
MIDDLE = 12.0  # the lower median of NUMBERS

EXAMPLES: dict[str, list[Example]] = {
    "Laplace": [
        Example(
            lambda r: dm.laplace(sensitivity=1, epsilon=1, relation=r), 3.25, lambda y, m: abs(y - 3.25), records=False
        ),
        Example(
            lambda r: dm.laplace(sensitivity=2, epsilon=1, step=1, relation=r),
            7,
            lambda y, m: abs(y - 7),
            records=False,
        ),
        Example(
            lambda r: dm.laplace(sensitivity=1, epsilon=1, norm=2, dimension=3, relation=r),
            [1.0, 2.5, -4.125],
            lambda y, m: largest(y, [1.0, 2.5, -4.125]),
            records=False,
        ),
    ],
    "Gaussian": [
        Example(
            lambda r: dm.gaussian(sensitivity=1, epsilon=1, delta=1e-6, relation=r),
            3.25,
            lambda y, m: abs(y - 3.25),
            promise=approximate,
            records=False,
        ),
        Example(
            lambda r: dm.gaussian(sensitivity=1, epsilon=1, delta=1e-6, norm=math.inf, dimension=4, step=1, relation=r),
            [1, 2, 3, 4],
            lambda y, m: largest(y, [1, 2, 3, 4]),
            promise=approximate,
            records=False,
        ),
    ],
    "Count": [
        Example(lambda r: dm.count(epsilon=1, relation=r), FLAGS, lambda y, m: abs(y - 30)),
        Example(
            lambda r: dm.count(epsilon=1, delta=1e-6, relation=r), FLAGS, lambda y, m: abs(y - 30), promise=approximate
        ),
    ],
    "Sum": [
        Example(
            lambda r: dm.sum_of(bounds=(-5, 40), epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - sum(NUMBERS)) - 1e-3,
        ),
        Example(
            lambda r: dm.sum_of(bounds=(0, 40), epsilon=1, step=0.5, delta=1e-6, relation=r),
            NUMBERS,
            lambda y, m: abs(y - sum(NUMBERS)),
            promise=approximate,
        ),
    ],
    "Mean": [
        Example(
            lambda r: dm.mean(bounds=(0, 25), n=50, epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - 12.25),
            (REPLACE, ZERO_OUT),
        )
    ],
    "MeanOfUnknownSize": [
        Example(
            lambda r: dm.mean(bounds=(0, 25), epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - 12.25),
            (ADD_REMOVE,),
            {"n": 50},
        )
    ],
    "Variance": [
        Example(
            lambda r: dm.variance(bounds=(0, 25), n=50, epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - np.var(NUMBERS)),
            (REPLACE,),
        )
    ],
    "VarianceOfUnknownSize": [
        Example(
            lambda r: dm.variance(bounds=(0, 25), epsilon=1, delta=1e-6, relation=r),
            NUMBERS * 40,
            lambda y, m: abs(y - np.var(NUMBERS)),
            (ADD_REMOVE,),
            {"n": 2000},
            approximate,
        )
    ],
    "Histogram": [
        Example(
            lambda r: dm.histogram(keys=KEYS, epsilon=1, relation=r), LETTERS, lambda y, m: histogram_error(y, LETTERS)
        ),
        Example(
            lambda r: dm.histogram(keys=KEYS, epsilon=1, delta=1e-6, relation=r),
            LETTERS,
            lambda y, m: histogram_error(y, LETTERS),
            promise=approximate,
        ),
    ],
    "Contingency": [
        Example(
            lambda r: dm.contingency(attributes=ATTRIBUTES, epsilon=1, relation=r),
            TABLE,
            lambda y, m: largest(y, table_of(("x", "y"))),
            records=False,
        )
    ],
    "Marginals": [
        Example(
            lambda r: dm.marginals(attributes=ATTRIBUTES, ways=1, epsilon=1, relation=r),
            TABLE,
            lambda y, m: max(largest(y[names], table_of(names)) for names in y),
            records=False,
        )
    ],
    "ColumnMeans": [
        Example(
            lambda r: dm.column_means(bounds=[(0, 1)] * 2, n=50, epsilon=1, relation=r),
            ROWS,
            lambda y, m: largest(y, np.mean(ROWS, axis=0)),
            (REPLACE,),
        )
    ],
    "LinearQueries": [
        Example(
            lambda r: dm.linear_queries(matrix=[[1, 0.5, 0], [0, 1, -1]], keys=KEYS, epsilon=1, relation=r),
            LETTERS,
            lambda y, m: largest(y, [32.5, 5]),
        )
    ],
    "Exponential": [
        Example(
            lambda r: dm.exponential(candidates=5, sensitivity=1, epsilon=1, relation=r),
            UTILITIES,
            lambda y, m: 10 - UTILITIES[y],
            records=False,
        )
    ],
    "PermuteAndFlip": [
        Example(
            lambda r: dm.permute_and_flip(candidates=5, sensitivity=1, epsilon=1, step=1, relation=r),
            UTILITIES,
            lambda y, m: 10 - UTILITIES[y],
            records=False,
        )
    ],
    "NoisyMax": [
        Example(
            lambda r, z=z: dm.noisy_max(candidates=5, sensitivity=1, epsilon=1, step=1, noise=z, relation=r),
            UTILITIES,
            lambda y, m: 10 - UTILITIES[y],
            records=False,
        )
        for z in (noise.LAPLACE, noise.EXPONENTIAL, noise.GUMBEL)
    ],
    "TopK": [
        Example(
            lambda r: dm.top_k(candidates=5, places=2, sensitivity=1, epsilon=1, step=1, relation=r),
            UTILITIES,
            lambda y, m: max(10 - UTILITIES[y[0]], (10 if y[0] != 3 else 9) - UTILITIES[y[1]]),
            records=False,
        )
    ],
    "AboveThreshold": [
        Example(
            lambda r: dm.above_threshold(threshold=50, sensitivity=1, epsilon=1, step=1, relation=r),
            [0, 20, 45, 55, 120],
            lambda y, m: threshold_error(y),
            assumptions={"queries": 5},
            records=False,
        )
    ],
    "Quantile": [
        Example(
            lambda r: dm.quantile(bounds=(0, 25), q=0.3, epsilon=1, step=0.25, relation=r),
            NUMBERS,
            lambda y, m: rank_error(y, 0.3),
            BOTH,
        )
    ],
    "AuctionPrice": [
        Example(
            lambda r: dm.auction_price(prices=[1, 2, 3, 3.01], epsilon=1, relation=r),
            BIDS,
            lambda y, m: float(max(m.revenues(BIDS)) - m.revenues(BIDS)[m.prices.index(y)]),
        )
    ],
    "BestOf": [
        Example(
            lambda r: dm.best_of([dm.count(epsilon=0.5, relation=r)], score=lambda y: -abs(y - 30), trials=5),
            FLAGS,
            lambda y, m: 1 - chance_at_least(y.score),
        )
    ],
    "ProposeTestRelease": [
        Example(
            lambda r: dm.propose_test_release(
                base=first, distance=count_of, promise=PureDP(0, relation=r), epsilon=1, delta=1e-6
            ),
            LETTERS,
            lambda y, m: 0.0 if y in (None, "a") else 1.0,
            promise=approximate,
        )
    ],
    "Mode": [
        Example(
            lambda r: dm.mode(epsilon=1, delta=1e-6, relation=r),
            LETTERS * 4,
            lambda y, m: 0.0 if y in (None, "a") else 1.0,
            BOTH,
            promise=approximate,
        )
    ],
    "ClusteredMean": [
        Example(
            lambda r: dm.clustered_mean(width=1, n=400, epsilon=1, delta=1e-6, relation=r),
            CLUSTER,
            lambda y, m: 0.0 if y is None else abs(y - np.mean(CLUSTER)),
            (REPLACE,),
            promise=approximate,
        )
    ],
    "StabilityHistogram": [
        Example(
            lambda r: dm.stability_histogram(epsilon=1, delta=1e-6, relation=r),
            ["a"] * 500,
            lambda y, m: abs(y["a"] - 500),
            promise=approximate,
        )
    ],
    "Median": [
        Example(
            lambda r: dm.median(bounds=(0, 25), n=50, epsilon=1, delta=1e-6, relation=r),
            NUMBERS,
            lambda y, m: abs(y - MIDDLE),
            (REPLACE,),
            promise=approximate,
        )
    ],
    "BinaryResponse": [
        Example(
            lambda r: dm.binary_response(epsilon=1),
            FLAGS,
            lambda y, m: abs(m.estimate(y).value - 0.6),
            (REPLACE,),
            {"n": 50},
        )
    ],
    "CategoryResponse": [
        Example(
            lambda r: dm.category_response(keys=KEYS, epsilon=1),
            LETTERS,
            lambda y, m: shares(m.estimate(y)),
            (REPLACE,),
            {"n": 50},
        )
    ],
    "UnaryResponse": [
        Example(
            lambda r: dm.unary_response(keys=KEYS, epsilon=1),
            LETTERS,
            lambda y, m: shares(m.estimate(y)),
            (REPLACE,),
            {"n": 50},
        )
    ],
    "Shuffled": [
        Example(
            lambda r: dm.shuffled(dm.binary_response(epsilon=1), n=50),
            FLAGS,
            lambda y, m: abs(m.estimate(y).value - 0.6),
            (REPLACE,),
        )
    ],
}


def first(data: Any, source: Any) -> Any:
    return "a"


def count_of(data: Any) -> int:
    return 20


def threshold_error(answers: list[bool]) -> float:
    """The smallest α for which the answers are right about 0, 20, 45, 55, 120 against 50."""
    values = [0, 20, 45, 55, 120]
    return max(max(50 - v, 0) if yes else max(v - 50, 0) for v, yes in zip(values, answers, strict=False))


def chance_at_least(score: float) -> float:
    """1 − the share of one trial's outcomes that score better: discrete Laplace of scale 2, |noise| < −score."""
    r = math.exp(-0.5)
    m = int(-score)
    return 1 - (0.0 if m == 0 else 1 - 2 * r**m / (1 + r))


ABSTRACT = {"Answer", "Choice"}
CASES = [(name, i) for name, found in EXAMPLES.items() for i in range(len(found))]
PAIRS = [(name, i, r) for name, i in CASES for r in EXAMPLES[name][i].relations]


def test_every_mechanism_has_an_example() -> None:
    assert set(Mechanism.registry) - ABSTRACT == set(EXAMPLES)


def test_every_public_function_makes_one_of_them() -> None:
    made = {type(EXAMPLES[name][i].make(r)).__name__ for name, i, r in PAIRS}
    assert made == set(EXAMPLES)


@pytest.mark.parametrize(("name", "i", "relation"), PAIRS)
def test_the_event_is_stated_under_the_relation_and_costs_what_was_asked(name: str, i: int, relation: Relation) -> None:
    example = EXAMPLES[name][i]
    m = example.make(relation)
    promise = example.promise(relation)
    delta = promise.delta if isinstance(promise, ApproxDP) else Fraction(0)
    assert m.event.relation is relation is m.relation
    if name == "Shuffled":
        delta = Fraction(1, 10**6)  # costs less than its local reports, which cost 1
    assert account(m.event).epsilon(delta) <= float(promise.epsilon) * (1 + 1e-9)
    assert Event.from_json(m.event.to_json()) == m.event


@pytest.mark.parametrize(("name", "i"), CASES)
def test_the_stated_error_holds(name: str, i: int) -> None:
    """At 80 % confidence, failures are at most binomial(runs, 0.2): alarm with probability 1e-6."""
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    runs = 120
    bound = m.error(0.8, **example.assumptions)
    failures = sum(example.wrong(m(example.data), m) > bound for _ in range(runs))
    assert failures <= stats.binom.isf(1e-6, runs, 0.2)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_more_confidence_costs_accuracy_and_it_is_said(name: str, i: int) -> None:
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    bounds = [m.error(c, **example.assumptions) for c in (0.5, 0.9, 0.95, 0.999)]
    assert bounds == sorted(bounds)
    assert all(math.isfinite(bound) for bound in bounds)
    assert m.statement(0.95, **example.assumptions).startswith("with probability 95 % the error is at most ")
    for bad in (0, 1, float("nan"), -1, 2):
        with pytest.raises(InvalidArgument, match="confidence"):
            m.error(bad, **example.assumptions)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Every draw of noise: the sampler's name and what decides its law."""
    seen: list[tuple[str, Any]] = []

    def watch(name: str, law: Callable[..., Any]) -> None:
        real = getattr(noise, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            seen.append((name, law(*args, **kwargs)))
            return real(*args, **kwargs)

        monkeypatch.setattr(noise, name, watched)

    watch("discrete_laplace", lambda scale, size=None, **_: (scale, size))
    watch("discrete_gaussian", lambda scale, size=None, **_: (scale, size))
    watch("race", lambda scores, *, rate, noise, **_: (rate, noise))
    watch("ranking", lambda scores, places, *, rate, noise, **_: (rate, noise, places))
    watch("categorical", lambda weights, size=None, *, multiples=None, **_: (tuple(weights), multiples))
    watch("bernoulli", lambda p, size=None, **_: p)
    return seen


@pytest.mark.parametrize(("name", "i", "relation"), PAIRS)
def test_the_event_matches_the_noise_that_is_drawn(
    name: str, i: int, relation: Relation, calls: list[tuple[str, Any]]
) -> None:
    example = EXAMPLES[name][i]
    m = example.make(relation)
    m(example.data)
    parts = leaves(m.event)
    if all(isinstance(part, DiscreteLaplace | DiscreteGaussian) for part in parts):
        samplers = {"discrete_laplace": DiscreteLaplace, "discrete_gaussian": DiscreteGaussian}
        assert [(samplers[sampler], scale) for sampler, (scale, _) in calls] == [(type(p), p.scale) for p in parts]
    elif isinstance(parts[0], RandomizedResponse):
        # A lie has e^−ε times the weight of the truth, for each of the other categories.
        (weights, multiples) = calls[0][1]
        assert weights[1] - weights[0] == -parts[0].epsilon
        assert (multiples or [1, 1]) == [1, parts[0].categories - 1]
    elif name == "UnaryResponse":
        assert calls[0][1][0][1] - calls[0][1][0][0] == -m.epsilon
        assert calls[1] == ("bernoulli", Fraction(1, 2))
    elif isinstance(parts[0], ExponentialMechanism):
        check_exponential(m, parts[0].epsilon, calls)
    else:
        assert isinstance(m.event, Claimed)
        CLAIMED[name](m, m.event.guarantee, calls)


def check_exponential(m: Any, epsilon: Fraction, calls: list[tuple[str, Any]]) -> None:
    """The utilities' largest change, times the rate, is half of ε, or all of it if they are monotone."""
    sampler, law = calls[0]
    if sampler == "categorical":
        nearest = sorted({abs(w) for w in law[0]})[1]  # NUMBERS are all different: ranks are 1 apart, q·n = 15 is whole
        assert nearest == epsilon / (2 if m.relation is REPLACE else 2 * Fraction(7, 10))
        return
    rate, law_of_noise = law[:2]
    assert law_of_noise is noise.GUMBEL
    if isinstance(m, dm.AuctionPrice):
        assert rate * 100 * max(m.prices) == epsilon / (2 if m.relation is REPLACE else 1)  # revenues are in cents
        return
    assert rate * m.steps == epsilon / 2
    assert m.steps * m.step >= m.sensitivity


def check_pure_choice(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    (_, (rate, law)) = calls[0]
    assert law is (noise.EXPONENTIAL if isinstance(m, dm.PermuteAndFlip) else m.noise)
    assert rate * m.steps == promise.epsilon / 2


def check_threshold(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    """ε = Δ/b₁ + 2cΔ/b₂."""
    scales = [scale for _, (scale, _) in calls]
    assert len(set(scales[1:])) == 1
    assert promise.epsilon == m.steps / scales[0] + 2 * m.positives * m.steps / scales[1]


def check_best_of(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    scales = {law[0] for sampler, law in calls if sampler == "discrete_laplace"}
    assert scales == {2}
    assert promise.epsilon == (2 + m.eta) / 2


def check_test(m: Any, promise: ApproxDP, calls: list[tuple[str, Any]]) -> None:
    """The test's noise has scale 1/ε_T; for the clustered mean the other half of ε pays for Laplace noise."""
    share = Fraction(1, 2) if isinstance(m, dm.ClusteredMean) else 1
    assert calls[0] == ("discrete_laplace", (1 / (promise.epsilon * share), None))
    if isinstance(m, dm.ClusteredMean) and len(calls) > 1:
        event = m.noised.noise
        assert calls[1] == ("discrete_laplace", (event.scale, 1))
        assert event.sensitivity / event.scale == promise.epsilon / 2


def check_stability(m: Any, promise: ApproxDP, calls: list[tuple[str, Any]]) -> None:
    changed = 2 if m.relation is REPLACE else 1
    assert calls == [("discrete_laplace", (changed / promise.epsilon, 1))]


def check_median(m: Any, promise: ApproxDP, calls: list[tuple[str, Any]]) -> None:
    assert calls == []  # drawn from bits, in test_median
    alpha, beta, epsilon = float(m.alpha), float(m.beta), float(promise.epsilon)
    assert alpha + beta <= epsilon
    assert math.expm1(beta) * math.log(1 / float(promise.delta)) <= epsilon - alpha + beta


CLAIMED: dict[str, Callable[..., None]] = {
    "PermuteAndFlip": check_pure_choice,
    "NoisyMax": check_pure_choice,
    "AboveThreshold": check_threshold,
    "BestOf": check_best_of,
    "ProposeTestRelease": check_test,
    "Mode": check_test,
    "ClusteredMean": check_test,
    "StabilityHistogram": check_stability,
    "Median": check_median,
}

ABSURD = [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    10**400,
    -(10**400),
    1e308,
    Decimal("NaN"),
    Decimal("1e999"),
    Fraction(10**400, 3),
    "text",
    b"bytes",
    [],
    {},
    object(),
    True,
    np.nan,
    np.float32("inf"),
    np.int64(-(2**63)),
    3 + 4j,
    (),
]


@pytest.mark.parametrize("bad", ABSURD, ids=lambda bad: type(bad).__name__ + repr(bad)[:12])
@pytest.mark.parametrize(("name", "i"), [case for case in CASES if EXAMPLES[case[0]][case[1]].records])
def test_no_record_raises(name: str, i: int, bad: object) -> None:
    """One absurd record among the others, and nothing but absurd ones: a release all the same."""
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    data = list(example.data)
    row = [bad, 0.5] if name == "ColumnMeans" else bad
    m([row, *data[1:]])
    m([row] * len(data))


@pytest.mark.parametrize(("name", "i"), CASES)
def test_bad_answers_do_not_raise_either(name: str, i: int) -> None:
    """Computed answers that are not finite, where floats are allowed."""
    example = EXAMPLES[name][i]
    if example.records or isinstance(example.data, dict):
        return
    m = example.make(example.relations[0])
    if getattr(m, "step", None) == 1:
        bad: list[Any] = [None, 10**400, -(10**400)]
    else:
        bad = [None, math.nan, math.inf, -math.inf, 1e308, 10**400, Decimal("NaN")]
    for one in bad:
        m([one, *example.data[1:]] if isinstance(example.data, list) else one)


SIZE_PUBLIC = {"Mean", "Variance", "ColumnMeans", "ClusteredMean", "Median", "Shuffled"}


@pytest.mark.parametrize(("name", "i"), [case for case in CASES if EXAMPLES[case[0]][case[1]].records])
def test_empty_data(name: str, i: int) -> None:
    """Where the number of records is private an empty table is like any other; where it is public it is wrong."""
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    if name in SIZE_PUBLIC:
        with pytest.raises(DeniableError, match="public"):
            m([])
    else:
        m([])


@pytest.mark.parametrize(("name", "i"), [case for case in CASES if EXAMPLES[case[0]][case[1]].records])
@pytest.mark.parametrize(
    "data", ["text", 5, None, {"a": 1}, np.zeros((2, 2, 2)), np.array(["2020"], dtype="datetime64[Y]")]
)
def test_what_is_no_column_is_refused_by_its_type(name: str, i: int, data: object) -> None:
    example = EXAMPLES[name][i]
    if name in {"ProposeTestRelease"}:  # data go to the caller's own functions
        return
    if getattr(data, "dtype", np.dtype(int)).kind == "M" and name in {
        "Histogram",
        "LinearQueries",
        "Mode",
        "StabilityHistogram",
        "CategoryResponse",
        "UnaryResponse",
    }:
        return  # a date is a key
    with pytest.raises(DeniableError) as caught:
        example.make(example.relations[0])(data)
    assert "2020" not in str(caught.value)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_the_words_read_do_not_depend_on_the_data(name: str, i: int) -> None:
    """The same number of random words for ordinary and for absurd records (up to rare refinements)."""
    example = EXAMPLES[name][i]
    if not example.records or name in {
        "BestOf",
        "ClusteredMean",
        "StabilityHistogram",
        "Quantile",
        "ProposeTestRelease",
    }:
        return  # these draw for what they find: trials, a second stage, keys, a stretch
    m = example.make(example.relations[0])
    counts = set()
    row = [None, 0.5] if name == "ColumnMeans" else None
    for data in (example.data, [row] * len(example.data)):
        for seed in range(3):
            source = RecordingSource(InsecureSource(seed))
            m(data, source=source)
            counts.add((seed, source.count))
    assert len(counts) == 3


@pytest.mark.parametrize(("name", "i"), CASES)
def test_a_mechanism_is_a_frozen_value_without_data(name: str, i: int) -> None:
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    before = repr(m)
    m(example.data)
    assert repr(m) == before
    if name not in {"BestOf", "ProposeTestRelease"}:
        assert m == example.make(example.relations[0])
        assert hash(m) == hash(example.make(example.relations[0]))
    with pytest.raises(AttributeError):
        m.epsilon = 5  # type: ignore[attr-defined]


MAKERS: dict[str, Callable[..., Mechanism]] = {
    "laplace": lambda **k: dm.laplace(**{"sensitivity": 1, "epsilon": 1, **k}),
    "gaussian": lambda **k: dm.gaussian(**{"sensitivity": 1, "epsilon": 1, "delta": 1e-6, **k}),
    "count": lambda **k: dm.count(**{"epsilon": 1, **k}),
    "sum_of": lambda **k: dm.sum_of(**{"bounds": (0, 1), "epsilon": 1, **k}),
    "mean": lambda **k: dm.mean(**{"bounds": (0, 1), "epsilon": 1, **k}),
    "variance": lambda **k: dm.variance(**{"bounds": (0, 1), "epsilon": 1, **k}),
    "histogram": lambda **k: dm.histogram(**{"keys": KEYS, "epsilon": 1, **k}),
    "contingency": lambda **k: dm.contingency(**{"attributes": ATTRIBUTES, "epsilon": 1, **k}),
    "marginals": lambda **k: dm.marginals(**{"attributes": ATTRIBUTES, "epsilon": 1, **k}),
    "column_means": lambda **k: dm.column_means(**{"bounds": [(0, 1)], "n": 9, "epsilon": 1, **k}),
    "linear_queries": lambda **k: dm.linear_queries(**{"matrix": [[1, 2, 3]], "keys": KEYS, "epsilon": 1, **k}),
    "exponential": lambda **k: dm.exponential(**{"candidates": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "permute_and_flip": lambda **k: dm.permute_and_flip(**{"candidates": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "noisy_max": lambda **k: dm.noisy_max(**{"candidates": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "top_k": lambda **k: dm.top_k(**{"candidates": 3, "places": 2, "sensitivity": 1, "epsilon": 1, **k}),
    "above_threshold": lambda **k: dm.above_threshold(**{"threshold": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "quantile": lambda **k: dm.quantile(**{"bounds": (0, 1), "q": 0.5, "epsilon": 1, **k}),
    "auction_price": lambda **k: dm.auction_price(**{"prices": [1, 2], "epsilon": 1, **k}),
    "mode": lambda **k: dm.mode(**{"epsilon": 1, "delta": 1e-6, **k}),
    "clustered_mean": lambda **k: dm.clustered_mean(**{"width": 1, "n": 500, "epsilon": 1, "delta": 1e-6, **k}),
    "stability_histogram": lambda **k: dm.stability_histogram(**{"epsilon": 1, "delta": 1e-6, **k}),
    "median": lambda **k: dm.median(**{"bounds": (0, 1), "n": 9, "epsilon": 1, "delta": 1e-6, **k}),
    "binary_response": lambda **k: dm.binary_response(**{"epsilon": 1, **k}),
    "category_response": lambda **k: dm.category_response(**{"keys": KEYS, "epsilon": 1, **k}),
    "unary_response": lambda **k: dm.unary_response(**{"keys": KEYS, "epsilon": 1, **k}),
    "propose_test_release": lambda **k: dm.propose_test_release(
        **{"base": first, "distance": count_of, "promise": PureDP(0), "epsilon": 1, "delta": 1e-6, **k}
    ),
}

BAD_NUMBERS = [0, -1, float("nan"), float("inf"), "1", None, True]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("maker", MAKERS)
def test_epsilon_is_a_positive_number(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        MAKERS[maker](epsilon=bad)


WITH_SENSITIVITY = ["laplace", "gaussian", "exponential", "permute_and_flip", "noisy_max", "top_k", "above_threshold"]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("maker", WITH_SENSITIVITY)
def test_sensitivity_is_positive(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="sensitivity"):
        MAKERS[maker](sensitivity=bad)


WITH_BOUNDS = ["sum_of", "mean", "variance", "quantile", "median"]
BAD_BOUNDS = [(1, 0), (1, 1), (0, float("inf")), (float("nan"), 1), (None, 1), (0,), 5, None, (0, 1, 2), ("a", "b")]


@pytest.mark.parametrize("bad", BAD_BOUNDS, ids=repr)
@pytest.mark.parametrize("maker", WITH_BOUNDS)
def test_bounds_are_a_pair_in_order(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="bounds"):
        MAKERS[maker](bounds=bad)


@pytest.mark.parametrize("bad", [1, -0.1, float("nan"), "x", None], ids=repr)
@pytest.mark.parametrize(
    "maker",
    [
        "gaussian",
        "count",
        "sum_of",
        "histogram",
        "marginals",
        "column_means",
        "linear_queries",
        "mode",
        "clustered_mean",
        "stability_histogram",
        "median",
        "top_k",
        "propose_test_release",
    ],
)
def test_delta_is_a_probability(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        MAKERS[maker](delta=bad)


@pytest.mark.parametrize(
    "maker",
    [
        name
        for name in MAKERS
        if name not in {"binary_response", "category_response", "unary_response", "propose_test_release"}
    ],
)
def test_relation_is_a_relation(maker: str) -> None:
    with pytest.raises(InvalidArgument, match="relation"):
        MAKERS[maker](relation="replace")
