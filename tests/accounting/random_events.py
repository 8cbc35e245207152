"""Random events for hypothesis: every kind of step, ordinary sizes and sizes that no float has."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from deniable.events import (
    Claimed,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    MatrixGaussian,
    RandomizedResponse,
    TreeGaussian,
)
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff
from deniable.units import Relation

ADD_REMOVE, REPLACE, ZERO_OUT = Relation.ADD_REMOVE, Relation.REPLACE, Relation.ZERO_OUT


def powers(low: float, high: float) -> st.SearchStrategy[Fraction]:
    """Numbers of three digits whose size is uniform between two powers of ten."""
    return st.builds(
        lambda digits, ten: Fraction(digits, 100) * Fraction(10) ** ten,
        st.integers(100, 999), st.integers(round(low), round(high) - 1),
    )  # fmt: skip


def sizes(wild: bool) -> st.SearchStrategy[Fraction]:
    """The size of a parameter: within two powers of ten of 1, or anything."""
    return powers(-2, 2) if not wild else st.one_of(powers(-2, 2), powers(-40, 40), powers(-420, 420))


def leaves(relation: Relation, *, wild: bool) -> st.SearchStrategy[Event]:
    """One mechanism or one promise."""
    size, delta = (
        sizes(wild),
        st.one_of(st.just(Fraction(1)), powers(-12, 0), powers(-420, 0) if wild else powers(-9, 0)),
    )
    reach = st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3)]) if relation is REPLACE else st.none()
    promises = [
        st.builds(lambda e: PureDP(e, relation=relation), st.one_of(st.just(Fraction(0)), size)),
        st.builds(lambda e, d: ApproxDP(e, min(d, 1), relation=relation), size, delta),
        st.builds(lambda r: ZCDP(r, relation=relation), size),
        st.builds(lambda r, d: ApproxZCDP(r, min(d, 1), relation=relation), size, delta),
        st.builds(lambda r, w: TCDP(r, 1 + w, relation=relation), size, size),
        st.builds(lambda a, e: RDP(1 + a, e, relation=relation), size, st.one_of(st.just(Fraction(0)), size)),
        st.builds(lambda m: GDP(m, relation=relation), size),
        st.builds(
            lambda f, a: FDP(TradeOff([(0, f), (a, Fraction(1, 5)), (1, 0)]), relation=relation),
            st.sampled_from([Fraction(1), Fraction(9, 10)]), st.sampled_from([Fraction(1, 3), Fraction(1, 10**9)]),
        ),
    ]  # fmt: skip
    found = [
        st.builds(
            lambda kind, scale, moved, far: kind(scale, moved, relation, reach=None if far is None else far * moved),
            st.sampled_from([Gaussian, Laplace]), size, size, reach,
        ),
        st.builds(
            lambda kind, scale, moved: kind(scale, moved, relation, reach=moved if relation is REPLACE else None),
            st.sampled_from([DiscreteGaussian, DiscreteLaplace]), size, st.sampled_from([1, 1, 2, 7, 10**8]),
        ),
        st.builds(lambda e: ExponentialMechanism(e, relation), size),
        *(st.builds(Claimed, promise) for promise in promises),
    ]  # fmt: skip
    if relation is REPLACE:
        found.append(st.builds(RandomizedResponse, size, st.sampled_from([2, 3, 40, 10**9])))
    if relation is not ADD_REMOVE:
        found.append(st.builds(lambda s, n: TreeGaussian(s, n, 2, relation), size, st.sampled_from([1, 1000])))
        found.append(st.builds(lambda s, c: MatrixGaussian(s, c, 100, 3, 30, relation), size, size))
    return st.one_of(found)


def steps(relation: Relation, *, wild: bool) -> st.SearchStrategy[Event]:
    """A mechanism or two, on all of the data or on a part of it."""
    inner = leaves(relation, wild=wild)
    inner = st.one_of(inner, inner, st.builds(lambda a, b: Composed([a, b]), inner, inner))
    rate = powers(-30 if not wild else -420, 0)
    found = [inner, st.builds(lambda event, q: event.sampled(rate=q), inner, st.one_of(powers(-3, 0), rate))]
    if relation is REPLACE:
        people = st.sampled_from([1, 2, 300, 10**7, 10**15 if not wild else 10**420])
        local = st.one_of(
            st.builds(RandomizedResponse, sizes(wild), st.sampled_from([2, 5])),
            st.builds(lambda e: Claimed(PureDP(e, relation=REPLACE)), sizes(wild)),
        )
        found.append(st.builds(lambda event, n: event.sampled_without_replacement(batch=1, size=n), inner, people))
        found.append(st.builds(lambda event, n: event.shuffled(size=n), local, people))
    return st.one_of(found)


def _moved(event: Event, group: int, replaced: bool) -> Event:
    event = event.for_group(group)
    return event.to_replace() if replaced and event.relation is ADD_REMOVE else event


def _repeated(parts: list[tuple[Event, int]]) -> Event:
    return Composed([event * count for event, count in parts])


def compositions(*, wild: bool) -> st.SearchStrategy[Event]:
    """One to three steps with counts, now and then for a group or under REPLACE."""
    counts = st.one_of(st.sampled_from([1, 2, 30]), st.integers(1, 10**4), powers(0, 15 if not wild else 100).map(int))

    def of(relation: Relation) -> st.SearchStrategy[Event]:
        parts = st.lists(st.tuples(steps(relation, wild=wild), counts), min_size=1, max_size=3)
        group = st.sampled_from([1, 1, 1, 1, 3])
        return st.builds(_moved, st.builds(_repeated, parts), group, st.sampled_from([False, False, False, True]))

    return st.sampled_from([ADD_REMOVE, REPLACE, ZERO_OUT]).flatmap(of)
