"""Mechanisms whose noise or test looks at the data: their distances and sensitivities by brute force, their (ε, δ) in
numbers.

About 10 seconds on a busy machine with two cores.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from deniable import mechanisms as dm
from deniable.errors import DataError, InvalidArgument
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms.quantiles import rounded_laplace, smooth_sensitivity
from deniable.mechanisms.sparse_vector import _UNIT_GRID
from deniable.mechanisms.stable import distance_needed, find_mode, mode_distance
from deniable.mechanisms.stable import spread_distance as replacements
from deniable.noise import Grid, InsecureSource, RecordingSource
from deniable.numerics import discrete
from deniable.units import ADD_REMOVE, REPLACE, Relation

# the test of propose-test-release


def survival(scale: float, m: int) -> float:
    r = math.exp(-1 / scale)
    return r**m / (1 + r) if m >= 1 else 1 - r ** (1 - m) / (1 + r)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-9), (5, 0.3), (Fraction(1, 3), 1e-3)])
def test_unsafe_data_pass_with_probability_at_most_delta_and_one_less_would_not_do(epsilon: Any, delta: float) -> None:
    scale = 1 / Fraction(str(epsilon)) if not isinstance(epsilon, Fraction) else 1 / epsilon
    bar = discrete.laplace_threshold(scale, Fraction(str(delta)))
    assert survival(float(scale), bar) <= delta * (1 + 1e-12)
    assert bar == 1 or survival(float(scale), bar - 1) > delta


def test_needed_is_enough_and_no_more() -> None:
    epsilon, delta = Fraction(1, 2), Fraction(1, 10**6)
    bar = discrete.laplace_threshold(1 / epsilon, delta)
    far = distance_needed(epsilon, delta, 0.95)
    assert survival(2, bar - far) >= 0.95 > survival(2, bar - far + 1)


def test_the_whole_costs_the_sum_and_the_larger_delta() -> None:
    m = dm.propose_test_release(base=print, distance=len, promise=ApproxDP(2, 1e-3), epsilon=1, delta=1e-6)
    assert m.event.guarantee == ApproxDP(3, 1e-3)
    pure = dm.propose_test_release(base=print, distance=len, promise=PureDP(2, relation=REPLACE), epsilon=1, delta=1e-6)
    assert pure.event.guarantee == ApproxDP(3, 1e-6, relation=REPLACE)


def test_a_distance_below_zero_counts_as_zero() -> None:
    """A lower bound may be negative; it must not make unsafe data look safer, nor fail."""
    m = dm.propose_test_release(
        base=lambda d, s: d, distance=lambda d: -(10**9), promise=PureDP(0), epsilon=0.1, delta=0.4
    )
    shown = sum(m(7) == 7 for _ in range(400))
    assert 80 < shown <= stats.binom.isf(1e-6, 400, 0.4)


# the mode


def hockey_stick(p: dict[Any, float], q: dict[Any, float], epsilon: float) -> float:
    return sum(max(0.0, mass - math.exp(epsilon) * q.get(key, 0.0)) for key, mass in p.items())


def neighbours(data: tuple[str, ...], domain: str, relation: Relation) -> list[tuple[str, ...]]:
    if relation is ADD_REMOVE:
        removed = [data[:i] + data[i + 1 :] for i in range(len(data))]
        return [*removed, *((*data, extra) for extra in domain)]
    return [(*data[:i], other, *data[i + 1 :]) for i in range(len(data)) for other in domain]


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_the_distance_of_the_mode(relation: Relation) -> None:
    """0 on data one of whose neighbours has another mode, and within 1 of every neighbour's."""
    domain = "abc"
    for size in range(7):
        for data in combinations_with_replacement(domain, size):
            found, gap = find_mode(list(data))
            d = mode_distance(gap, relation)
            around = [find_mode(list(other)) for other in neighbours(data, domain, relation)]
            if any(other != found for other, _ in around):
                assert d == 0, data
            assert all(abs(mode_distance(other_gap, relation) - d) <= 1 for _, other_gap in around), data


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_the_mode_keeps_its_promise_exactly(relation: Relation) -> None:
    """The two-outcome law of every small data set against all its neighbours."""
    m = dm.mode(epsilon=0.7, delta=0.05, relation=relation)
    bar = discrete.laplace_threshold(1 / m.epsilon, m.delta)

    def law(data: tuple[str, ...]) -> dict[Any, float]:
        found, gap = find_mode(list(data))
        shown = survival(float(1 / m.epsilon), bar - mode_distance(gap, relation))
        return {found: shown, None: 1 - shown} if found is not None else {None: 1.0}

    worst = 0.0
    for size in range(9):
        for data in combinations_with_replacement("abc", size):
            for other in neighbours(data, "abc", relation):
                worst = max(worst, hockey_stick(law(data), law(other), 0.7))
    assert 0.01 < worst <= 0.05 + 1e-12


def test_the_mode_of_real_numbers() -> None:
    m = dm.mode(epsilon=1, delta=1e-6, relation=REPLACE)
    assert m([math.pi] * 100 + [1.5, 2.5, math.nan, None]) == math.pi
    assert m([0.1 * i for i in range(100)]) is None


def test_histogram_or_ptr() -> None:
    """Noisy max needs a gap of (ln k)/ε, PTR one of 2 ln(1/δ)/ε whatever k; neither statement is loose by much."""
    few = dm.histogram_or_ptr(epsilon=1, delta=1e-6, keys=10)
    many = dm.histogram_or_ptr(epsilon=1, delta=1e-6, keys=10**12)
    assert few.better == "noisy max"
    assert many.better == "propose-test-release"
    assert few.ptr_gap == many.ptr_gap
    assert many.noisy_max_gap - few.noisy_max_gap == pytest.approx(math.log(10**11), abs=1.5)
    swapped = dm.histogram_or_ptr(epsilon=1, delta=1e-6, keys=10, relation=REPLACE)
    assert swapped.noisy_max_gap == pytest.approx(2 * few.noisy_max_gap, abs=1)
    assert swapped.ptr_gap == pytest.approx(2 * few.ptr_gap, abs=1)


def test_the_comparison_is_true_of_the_mechanisms() -> None:
    """At the gaps it names, both are right in at least 95 % of 200 runs (alarm with probability below 1e-6)."""
    found = dm.histogram_or_ptr(epsilon=1, delta=1e-6, keys=50)
    choose = dm.noisy_max(candidates=50, sensitivity=1, epsilon=1, monotone=True, step=1)
    scores = [100 + found.noisy_max_gap] + [100] * 49
    least = stats.binom.ppf(4e-7, 200, 0.95)
    assert sum(choose(scores) == 0 for _ in range(200)) >= least
    m = dm.mode(epsilon=1, delta=1e-6)
    assert sum(m(["x"] * found.ptr_gap) == "x" for _ in range(200)) >= least


# the clustered mean


def trimmed(data: tuple[int, ...], trim: int) -> int:
    return sum(sorted(data)[trim : len(data) - trim])


@pytest.mark.parametrize(("n", "trim"), [(3, 1), (5, 1), (5, 2)])
def test_safe_data_have_a_trimmed_sum_that_moves_by_at_most_the_width(n: int, trim: int) -> None:
    domain, tau = range(5), 2
    for data in combinations_with_replacement(domain, n):
        if replacements(np.array(data), trim, tau) == 0:
            continue
        for i, other in product(range(n), (-100, *domain, 100)):
            assert abs(trimmed(data, trim) - trimmed((*data[:i], other, *data[i + 1 :]), trim)) <= tau, data


@pytest.mark.parametrize(("n", "trim"), [(3, 1), (4, 1), (5, 2)])
def test_the_distance_counts_replacements(n: int, trim: int) -> None:
    """Breadth-first over replacements: the fewest that make the trimmed spread exceed the width."""
    domain, tau = (0, 1, 2, 3, 4, 50, -50), 2

    def spread(data: tuple[int, ...]) -> int:
        return data[n - trim] - data[trim - 1]

    for data in combinations_with_replacement((0, 1, 2, 3, 4), n):
        frontier, steps = {data}, 0
        while not any(spread(one) > tau for one in frontier):
            frontier = {
                tuple(sorted((*one[:i], other, *one[i + 1 :])))
                for one in frontier
                for i in range(n)
                for other in domain
            }
            steps += 1
        assert replacements(np.array(data), trim, tau) == steps, data


def test_the_clustered_mean_answers_for_clusters_only() -> None:
    m = dm.clustered_mean(width=2, size=300, epsilon=1, delta=1e-6)
    near = [1e6 + i / 300 for i in range(300)]
    answers = [m(near) for _ in range(30)]
    given = [answer for answer in answers if answer is not None]
    assert len(given) >= 25  # released with probability 0.999 each: fewer than 25 of 30 has probability below 1e-12
    assert max(abs(answer - np.mean(near)) for answer in given) < m.error(1 - 1e-9)
    assert [m([1000.0 * i for i in range(300)]) for _ in range(20)] == [None] * 20
    outliers = [*near[:290], math.inf, -math.inf, math.nan, None, 1e300, -1e300, 0, 0, 0, 0]
    assert any(m(outliers) is not None for _ in range(10))


def test_the_distance_of_vectors_counts_replacements() -> None:
    """Breadth-first over replaced rows: the fewest that make either column's trimmed spread exceed its width."""
    n, trim, domain = 3, 1, [(0, 0), (0, 2), (2, 0), (3, 3), (50, 0), (0, -50), (50, 50)]
    for data in combinations_with_replacement([(0, 0), (0, 2), (2, 1), (3, 3)], n):
        columns = [np.array(sorted(row[c] for row in data)) for c in range(2)]
        frontier, steps = {data}, 0
        while not any(max(r[c] for r in one) - min(r[c] for r in one) > 2 for one in frontier for c in range(2)):
            frontier = {(*one[:i], other, *one[i + 1 :]) for one in frontier for i in range(n) for other in domain}
            steps += 1
        assert min(replacements(column, trim, 2) for column in columns) == steps, data


def test_safe_rows_have_trimmed_sums_that_move_by_at_most_the_widths() -> None:
    n, trim, tau, domain = 3, 1, 2, [*product((0, 1, 3), repeat=2), (-100, 100)]
    for data in combinations_with_replacement(domain[:-1], n):
        if min(replacements(np.array(sorted(row[c] for row in data)), trim, tau) for c in range(2)) == 0:
            continue
        for i, other in product(range(n), domain):
            changed = (*data[:i], other, *data[i + 1 :])
            moves = [
                trimmed(tuple(r[c] for r in data), trim) - trimmed(tuple(r[c] for r in changed), trim) for c in range(2)
            ]
            assert sum(move**2 for move in moves) <= 2 * tau**2


def test_clustered_means_answer_for_clusters_only() -> None:
    m = dm.clustered_means(widths=[2, 0.5], size=300, epsilon=1, delta=1e-6)
    near = np.array([[1e6 + i / 300, -5 + i / 1000] for i in range(300)])
    given = [answer for answer in (m(near) for _ in range(30)) if answer is not None]
    assert len(given) >= 25  # each is released with probability 0.999
    assert max(np.abs(answer - near.mean(axis=0)).max() for answer in given) < m.error(1 - 1e-9)
    apart = near.copy()
    apart[:, 1] *= np.arange(300)  # one column that is spread out is enough
    assert [m(apart) for _ in range(20)] == [None] * 20
    assert dm.clustered_means(widths=[1] * 64, size=300, epsilon=1, delta=1e-6).error() < 9 * m.error()
    for wrong in ([], "12", 3, [1, 0], [1, None]):
        with pytest.raises(InvalidArgument, match="width"):
            dm.clustered_means(widths=wrong, size=500, epsilon=1, delta=1e-6)  # type: ignore[arg-type]


# the reusable holdout


def test_one_record_moves_the_gap_and_the_mean_of_a_holdout_by_one_at_most() -> None:
    """What is compared and what is released, on every holdout of three records and every neighbour of it."""
    grid, worst = _UNIT_GRID, 0
    width = grid.highest - grid.lowest
    for values in product((0.0, 0.3, 1.0), repeat=3):
        for other, training in product((-5, 0, 0.7, 1, math.nan, math.inf), (0, 0.37, 1)):
            totals = [grid.total(grid.place(np.array(v))) for v in (values, (other, *values[1:]))]
            gaps = [abs(total - round(Fraction(training) * 3 / grid.step)) for total in totals]
            worst = max(worst, abs(totals[0] - totals[1]), abs(gaps[0] - gaps[1]))
    assert worst == width


def test_a_holdout_is_not_overfitted() -> None:
    """Labels are coin tosses. An analyst keeps the features on which training and holdout agree, and votes."""
    rng, n, d = np.random.default_rng(7), 4000, 500
    train, hold = (rng.choice([-1.0, 1.0], size=(n, d)) for _ in range(2))
    labels = [rng.choice([-1.0, 1.0], size=n) for _ in range(2)]
    share_train, share_hold = ((x * y[:, None] > 0).mean(axis=0) for x, y in zip((train, hold), labels, strict=True))

    def vote(reported: np.ndarray) -> tuple[float, np.ndarray]:
        """What the chosen vote scores on the training set, and its hits on the holdout."""
        agree = (share_train - 0.5) * (reported - 0.5) > 0
        weights = np.where(agree, np.sign(share_train - 0.5), 0)
        hits = [(np.sign(x @ weights) == y) for x, y in zip((train, hold), labels, strict=True)]
        return float(hits[0].mean()), hits[1]

    overfitted = vote(share_hold)[1].mean()
    m = dm.reusable_holdout(size=n, threshold=0.05, epsilon=3, positives=20)
    run = m.start()
    told = np.array([run(hold[:, j] * labels[1] > 0, training=float(share_train[j])) for j in range(d) if not run.over])
    assert len(told) == d
    scored, hits = vote(told)
    assert overfitted > 0.55  # the truth is one half
    assert abs(run(hits, training=scored) - 0.5) < 0.06
    assert scored > 0.58  # so this answer came from the holdout


def test_a_holdout_run_ends_and_refuses_by_public_numbers() -> None:
    m = dm.reusable_holdout(size=10, threshold=0.1, epsilon=1000)
    run = m.start()
    assert run([1] * 10, training=0) == pytest.approx(1, abs=0.05)
    assert run.over
    with pytest.raises(DataError, match="start another"):
        run([1] * 10, training=0)
    with pytest.raises(DataError, match="size=10"):
        m.start()([1] * 9, training=0)
    with pytest.raises(InvalidArgument, match="pairs"):
        m([[1] * 10])
    with pytest.raises(InvalidArgument, match="training"):
        m.start()([1] * 10, training=2)
    with pytest.raises(InvalidArgument, match="REPLACE"):
        dm.reusable_holdout(size=10, threshold=0.1, epsilon=1, relation=ADD_REMOVE)


def test_trimming_needs_enough_records() -> None:
    with pytest.raises(InvalidArgument, match="n above"):
        dm.clustered_mean(width=1, size=50, epsilon=1, delta=1e-6)
    with pytest.raises(InvalidArgument, match="REPLACE"):
        dm.clustered_mean(width=1, size=500, epsilon=1, delta=1e-6, relation=ADD_REMOVE)


# the stability histogram


def key_law(count: int, scale: float, threshold: int, span: int = 120) -> dict[Any, float]:
    """What is shown of one key: nothing, or its noisy count."""
    if count == 0:
        return {None: 1.0}
    r = math.exp(-1 / scale)
    law = {y: (1 - r) / (1 + r) * r ** abs(y - count) for y in range(threshold, threshold + span)}
    return {None: 1 - sum(law.values()), **law}


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("per_unit", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (2.0, 0.05), (0.5, 0.2), (0.2, 0.45)])
def test_the_stability_histogram_keeps_its_promise(
    relation: Relation, per_unit: int, epsilon: float, delta: float
) -> None:
    """Exact hockey-stick divergences of all ways one unit's keys can come and go, from counts 0 to 3."""
    m = dm.stability_histogram(epsilon=epsilon, delta=delta, per_unit=per_unit, relation=relation)
    scale, bar = float(m.noise.scale), m.threshold
    changes = [(1, 0), (2, 1), (3, 2), (40, 39)]
    joined = [(b, a) for a, b in changes]
    worst = 0.0
    for left in combinations_with_replacement(changes, per_unit):
        arrivals = combinations_with_replacement(joined, per_unit) if relation is REPLACE else [()]
        for arrived in arrivals:
            pairs = [*left, *arrived]
            for order in (pairs, [(b, a) for a, b in pairs]):
                worst = max(worst, product_divergence(order, scale, bar, epsilon))
    assert worst <= delta + 1e-12
    assert worst > delta / 40  # thresholds are integers, so there is slack, but not much


def product_divergence(pairs: list[tuple[int, int]], scale: float, bar: int, epsilon: float) -> float:
    """H_{e^ε} of independent keys: joint over (loss, masses), grouping outcomes of a key by their loss."""
    joint: dict[tuple[float, ...], tuple[float, float]] = {(0.0,): (1.0, 1.0)}
    for a, b in pairs:
        p, q = key_law(a, scale, bar), key_law(b, scale, bar)
        grouped: dict[float, list[float]] = {}
        for key in p.keys() | q.keys():
            x, y = p.get(key, 0.0), q.get(key, 0.0)
            loss = math.inf if y == 0 else (-math.inf if x == 0 else round(math.log(x / y), 9))
            held = grouped.setdefault(loss, [0.0, 0.0])
            held[0] += x
            held[1] += y
        grown: dict[tuple[float, ...], tuple[float, float]] = {}
        for key, (x, y) in joint.items():
            for loss, (u, v) in grouped.items():
                old = grown.get((*key, loss), (0.0, 0.0))
                grown[(*key, loss)] = (old[0] + x * u, old[1] + y * v)
        joint = grown
    return sum(max(0.0, x - math.exp(epsilon) * y) for x, y in joint.values())


def test_the_continuous_threshold_of_the_notes_is_near() -> None:
    """1 + ln(1/(2δ))/ε for real noise; the discrete tail gives the integer at or just above it."""
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-8)):
        real = 1 + math.log(1 / (2 * delta)) / epsilon
        assert 0 <= dm.stability_histogram(epsilon=epsilon, delta=delta).threshold - real < 2


def test_absent_and_rare_keys_are_not_shown_and_order_tells_nothing() -> None:
    m = dm.stability_histogram(epsilon=1, delta=1e-9)
    found = m(["z"] * 400 + ["rare"] + ["b"] * 300 + [None, math.nan, []])
    assert list(found) == ["b", "z"]
    assert m.needed(0.95) > m.threshold


EQUAL = [
    (True, 1),
    (1.0, 1),
    (-0.0, 0.0),
    (Fraction(1, 2), 0.5),
    ((1, True), (1, 1)),
    (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=repr)
def test_equal_keys_that_print_differently_are_told_apart(one: Any, other: Any) -> None:
    """One record at the front must not name everybody's key: that was seen with certainty."""
    assert one == other
    histogram, most = dm.stability_histogram(epsilon=1, delta=1e-6), dm.mode(epsilon=1, delta=1e-6)
    several = dm.stability_histogram(epsilon=1, delta=1e-6, per_unit=2)
    for data in ([other] * 1000, [one] + [other] * 1000, [other] * 1000 + [one]):
        assert list(map(repr, histogram(data))) == [repr(other)]
        assert list(map(repr, several([[key] for key in data]))) == [repr(other)]
        assert repr(most(data)) == repr(other)


def test_several_keys_of_one_unit_are_bounded() -> None:
    m = dm.stability_histogram(epsilon=1, delta=1e-6, per_unit=2)
    found = m([["d", "c", "b", "a", "a"]] * 500 + ["text", None, 3, []])
    assert set(found) == {"a", "b"}  # each unit counts for its first two keys only
    assert abs(found["a"] - 500) < 60


# the smooth-sensitivity median


def medians(data: tuple[int, ...]) -> int:
    return sorted(data)[(len(data) + 1) // 2 - 1]


def local_sensitivity(data: tuple[int, ...], domain: range) -> int:
    return max(
        abs(medians(data) - medians((*data[:i], other, *data[i + 1 :]))) for i in range(len(data)) for other in domain
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_smooth_sensitivity_bounds_the_local_one_and_is_smooth(n: int) -> None:
    grid, beta = Grid(low=0, high=3, step=1), Fraction(1, 5)
    domain = range(4)
    smooth = {data: smooth_sensitivity(np.array(data), grid, beta) for data in combinations_with_replacement(domain, n)}
    for data, value in smooth.items():
        assert value >= local_sensitivity(data, domain)
        for i, other in product(range(n), domain):
            neighbour = tuple(sorted((*data[:i], other, *data[i + 1 :])))
            assert value <= smooth[neighbour] * Fraction(math.exp(0.2))


def test_smooth_sensitivity_is_that_of_the_paper() -> None:
    """max_k e^{−kβ}·A_k with A_k by brute force over all data sets within k replacements."""
    grid, beta, domain, n = Grid(low=0, high=4, step=1), Fraction(1, 10), range(5), 5
    for data in [(0, 1, 2, 3, 4), (2, 2, 2, 2, 2), (0, 0, 4, 4, 4), (1, 1, 2, 2, 3)]:
        frontier: set[tuple[int, ...]] = {data}
        reference = 0.0
        for k in range(n + 1):
            reference = max(reference, math.exp(-0.1 * k) * max(local_sensitivity(one, domain) for one in frontier))
            frontier = {
                tuple(sorted((*one[:i], other, *one[i + 1 :])))
                for one in frontier
                for i in range(n)
                for other in domain
            }
        found = float(smooth_sensitivity(np.array(data), grid, beta))
        assert reference <= found * (1 + 1e-9)
        assert found <= reference * 1.05  # (1 + β)^k instead of e^{βk}


def laplace_divergence(shift: float, scale: float, other: float, epsilon: float) -> float:
    """∫ (p − e^ε q)₊ for p = Laplace(0, scale), q = Laplace(shift, other), with kinks located first."""

    def excess(x: float) -> float:
        p = math.exp(-abs(x) / scale) / (2 * scale)
        q = math.exp(epsilon - abs(x - shift) / other) / (2 * other)
        return p - q

    span = 80 * max(scale, other)
    grid = np.unique(np.concatenate([np.linspace(-span, span, 4001), [0.0, shift]]))
    values = [excess(float(x)) for x in grid]
    total = 0.0
    for a, b, fa, fb in zip(grid, grid[1:], values, values[1:], strict=False):
        if fa > 0 or fb > 0:
            total += quad(lambda x: max(0.0, excess(x)), a, b, limit=20)[0]
    return total


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (0.5, 1e-3), (3.0, 1e-4)])
def test_the_noise_of_the_median_keeps_its_promise(epsilon: float, delta: float) -> None:
    """The worst medians and scales that smoothness allows, in both orders: δ holds."""
    m = dm.median(bounds=(0, 1), size=9, epsilon=epsilon, delta=delta)
    alpha, beta = float(m.alpha), float(m.beta)
    worst = 0.0
    for ratio in (-beta, -beta / 2, 0.0, beta / 2, beta):
        other = math.exp(-ratio)  # scales 1 and e^−λ; the medians differ by at most α times either
        shift = alpha * min(1.0, other)
        worst = max(worst, laplace_divergence(shift, 1.0, other, epsilon))
    assert worst <= delta
    assert worst > delta / 100


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-6), (1e-8, 1e-10), (1e-5, 1e-6)])
def test_an_epsilon_that_no_beta_fits_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidArgument, match="epsilon must be larger"):
        dm.median(bounds=(0, 1), size=9, epsilon=epsilon, delta=delta)


def test_a_larger_beta_would_break_it() -> None:
    """The condition on β is not idle: with twice the β, and ε as it is, δ is exceeded."""
    m = dm.median(bounds=(0, 1), size=9, epsilon=0.5, delta=1e-3)
    other = math.exp(-3 * float(m.beta))
    assert laplace_divergence(float(m.alpha) * other, 1.0, other, 0.5) > 1e-3


def test_rounded_laplace_has_its_law() -> None:
    """floor(s·Z + 1/2) against the exact masses; χ², false alarm 1e-6."""
    scale = Fraction(7, 3)
    draws = np.array([rounded_laplace(0, scale, None) for _ in range(4000)])
    edges = [-math.inf, *(k + 0.5 for k in range(-8, 8)), math.inf]
    cdf = stats.laplace(scale=float(scale)).cdf
    expected = np.diff([cdf(e) for e in edges]) * len(draws)
    observed = np.histogram(draws, bins=[-1e9, *(k + 0.5 for k in range(-8, 8)), 1e9])[0]
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-6


def test_rounded_laplace_takes_more_bits_when_it_must() -> None:
    """With a huge scale one word names a whole range of integers: a second word decides."""
    tape = RecordingSource(InsecureSource(5))
    rounded_laplace(0, Fraction(10**30), tape)
    assert tape.count >= 2
    again = rounded_laplace(0, Fraction(10**30), tape.replay())
    assert again == rounded_laplace(0, Fraction(10**30), RecordingSource(tape.replay()))


def test_tight_data_get_little_noise() -> None:
    m = dm.median(bounds=(0, 1000), size=2001, epsilon=1, delta=1e-6)
    data = [500 + (i - 1000) / 1000 for i in range(2001)]
    errors = [abs(m(data) - 500) for _ in range(30)]
    assert max(errors) < 5  # against noise of 2000 for the global sensitivity
    assert m.error(0.95) <= 1000.01
    assert m.error(0.95, sensitivity=0.01) < 0.1
