"""Check my number: runs that were accounted elsewhere, as events.

`from_opacus` reads the history of an Opacus accountant, `from_dp_accounting` an event of Google's dp_accounting.
Neither library is needed: histories are lists of numbers and events are recognised by the name of their class.
`account` then gives the bracket, and `known_faults` says where a peer's own number for such a run is known to be wrong.

>>> from deniable.accounting import account
>>> run = from_opacus([(1.1, 256 / 60_000, 14_063)])
>>> round(account(run).epsilon(1e-5), 4)
2.3817
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from deniable import _checks
from deniable._signatures import public
from deniable.errors import InvalidArgument, NotSupported, UnitMismatch
from deniable.events import (
    Claimed,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    GaussianMixture,
    Laplace,
    RandomizedResponse,
    Selected,
    TreeGaussian,
    TruncatedSampled,
    dpsgd,
)
from deniable.guarantees import ZCDP, ApproxDP, PureDP
from deniable.numerics.exact import short_below
from deniable.units import AnyRelation, Relation


@public
def from_opacus(history: Any, *, poisson: bool = True) -> Event:
    """The run behind an Opacus accountant, its `state_dict()`, or its `history` of (noise multiplier, rate, steps).

    Say `poisson=False` when the loader was made with `poisson_sampling=False`: Opacus then cuts batches from a
    shuffled epoch and accounts for them as if they were Poisson samples, which they are not. No amplification is
    claimed here: a unit is in one batch of each epoch, so in at most ⌈rate × steps⌉ of those from an epoch's start on,
    and in at most 1 + ⌈rate × (steps − 1)⌉ of those from anywhere on, under ZERO_OUT (the order of the batches is
    public).
    """
    found = history.get("history") if isinstance(history, Mapping) else getattr(history, "history", history)
    steps = [tuple(step) for step in found] if isinstance(found, Iterable) else []
    if not steps or any(len(step) != 3 for step in steps):
        raise InvalidArgument(
            "history", history, "a list of (noise multiplier, sample rate, steps)", "Pass accountant.history."
        )
    parts = []
    for noise, rate, count in steps:
        times = _checks.count("steps", count)
        if poisson:
            # Gradient accumulation makes Opacus multiply the rate; beyond 1 everybody is in every batch.
            kept = min(Fraction(1), _checks.positive("sample_rate", rate))
            parts.append(dpsgd(noise_multiplier=noise, rate=kept, steps=times))
        else:
            epochs = _checks.positive("sample_rate", rate)
            often = 1 + math.ceil(epochs * (times - 1)) if parts else math.ceil(epochs * times)
            parts.append(Gaussian(noise, 1, Relation.ZERO_OUT) * min(often, times))
    return parts[0] if len(parts) == 1 else Composed(parts)


@public
def from_dp_accounting(event: Any, *, relation: AnyRelation = Relation.ADD_REMOVE) -> Event:
    """A dp_accounting event under a relation (its `NeighboringRelation`).

    Their noise multiplier is noise over *clip norm*. Under REPLACE two clipped vectors may point apart, so the
    sensitivity is twice the clip norm; this function states it, as their RDP accountant does not.
    """
    relation = Relation.of(relation)
    name = type(event).__name__
    if name in _REFUSED:
        raise NotSupported(
            f"there is no analysis of {name} here ({_REFUSED[name]}); state a guarantee with Claimed(...)"
        )
    if name not in _READERS:
        raise NotSupported(
            f"{name} is no event of dp_accounting that deniable knows; it knows {', '.join(sorted(_READERS))}"
        )
    read: Callable[[Any, Relation], Event] = _READERS[name]
    return read(event, relation)


def known_faults(event: Event) -> tuple[str, ...]:
    """Where a peer's own number for such an event is known to be wrong, one sentence each."""
    shapes = {
        (type(step).__name__, type(getattr(step, "event", None)).__name__, step.relation) for step in _inside(event)
    }
    return tuple(
        sentence
        for kind, inner, relation, sentence in _FAULTS
        if any((kind, inner or shape[1], relation or shape[2]) == shape for shape in shapes)
    )


_FAULTS: tuple[tuple[str, str | None, Relation | None, str], ...] = (
    (
        "Gaussian",
        None,
        Relation.REPLACE,
        "dp-accounting's RDP accountant ignores that replacing a unit doubles the sensitivity: its ε is too small under"
        " REPLACE (4.73 where its own PLD accountant says 9.997).",
    ),
    (
        "Repeated",
        "RandomizedResponse",
        None,
        "dp-accounting's PLD accountant forgets the count of a randomized response: ten copies cost as much as one.",
    ),
    (
        "Repeated",
        "ExponentialMechanism",
        None,
        "dp-accounting's RDP accountant forgets the count of an exponential mechanism: 154 copies of ε = 0.1 cost as"
        " much as one.",
    ),
    (
        "Repeated",
        "Sampled",
        None,
        "Estimates by the central limit theorem lie below the truth for sampled Gaussians (2.324, true 2.382), and"
        " opake returns an ε below the truth at δ ≤ 1e-11.",
    ),
)
"""An event of this kind, around an event of that kind, under this relation (None: any); and what is wrong there."""


def _inside(event: Event) -> Iterable[Event]:
    """An event and everything it is made of."""
    yield event
    for inner in getattr(event, "parts", (getattr(event, "event", None),)):
        if isinstance(inner, Event):
            yield from _inside(inner)


def _gaussian(event: Any, relation: Relation) -> Event:
    return _clipped(Gaussian, event.noise_multiplier, relation)


def _laplace(event: Any, relation: Relation) -> Event:
    return _clipped(Laplace, event.noise_multiplier, relation)


def _clipped(kind: type[Gaussian] | type[Laplace], noise: float, relation: Relation) -> Event:
    """Noise in units of the clip norm."""
    if not noise:
        return _everything(None, relation)
    return kind(noise, 2, relation, reach=1) if relation is Relation.REPLACE else kind(noise, 1, relation)


def _mixture(event: Any, relation: Relation) -> Event:
    """Their sensitivities with their probabilities. Floats need not add up to 1: what lacks is given to the largest
    sensitivity, what is too much is taken from the smallest ones.
    """
    if relation is Relation.REPLACE:
        raise UnitMismatch("a mixture of Gaussians is analysed for a unit that is added or removed; pass ADD_REMOVE.")
    scale = _checks.nonnegative("standard_deviation", event.standard_deviation)
    parts = sorted(
        (abs(_checks.number("sensitivities", far)), _checks.probability("sampling_probs", weight))
        for far, weight in zip(event.sensitivities, event.sampling_probs, strict=True)
    )
    weights = [weight for _, weight in parts]
    over = sum(weights, Fraction(0)) - 1
    if not parts or abs(over) > Fraction(1, 10**6):
        raise InvalidArgument("sampling_probs", event.sampling_probs, "probabilities that add up to 1")
    if over < 0:
        weights[-1] -= over
    for place, weight in enumerate(weights):
        taken = min(weight, max(over, Fraction(0)))
        weights[place], over = weight - taken, over - taken
    moved = [far for far, _ in parts]
    if not any(far and weight for far, weight in zip(moved, weights, strict=True)):
        return _nothing(None, relation)
    return GaussianMixture(scale, moved, weights, relation) if scale else _everything(None, relation)


def _truncated(event: Any, relation: Relation) -> Event:
    """Their size is that of the larger of two neighbours, as here."""
    if relation is not Relation.ADD_REMOVE:
        raise UnitMismatch("a Poisson sample that is cut to a capacity is analysed under ADD_REMOVE only.")
    if not event.sampling_probability or not event.truncated_batch_size or not event.dataset_size:
        return _nothing(None, relation)
    if not event.noise_multiplier:
        return _everything(None, relation)
    step = Gaussian(event.noise_multiplier, 1, relation)
    return TruncatedSampled(step, event.sampling_probability, event.truncated_batch_size, event.dataset_size)


def _selection(event: Any, relation: Relation) -> Event:
    """The best of a number of runs with the truncated negative binomial law of a mean and a shape η ≥ 0.

    γ is rounded down to nine digits: the mean is then a little larger, and so is the cost.
    """
    from deniable.accounting.rules.selection import mean_trials

    if not 0 <= event.shape < math.inf:
        raise NotSupported("a number of runs with a shape below 0, or with the Poisson law, has no analysis here")
    shape, mean = (
        _checks.nonnegative("shape", event.shape),
        _checks.between("mean", event.mean, low=1, expected="1 or more"),
    )
    trial = from_dp_accounting(event.event, relation=relation)
    if mean == 1:
        return trial
    enough, low, high = Fraction(1, 10**12), Fraction(1, 10**12), Fraction(1)
    while high - low > low / 10**10:
        middle = (low + high) / 2
        low, high = (middle, high) if mean_trials(middle, shape) >= mean else (low, middle)
    if low == enough:
        raise NotSupported("so many runs have no analysis here")
    return Selected(trial, gamma=short_below(low, figures=9), eta=shape)


def _discrete_laplace(event: Any, relation: Relation) -> Event:
    scale, moved = 1 / _checks.positive("noise_parameter", event.noise_parameter), event.sensitivity
    if relation is Relation.REPLACE:
        return DiscreteLaplace(scale, 2 * moved, relation, reach=moved)
    return DiscreteLaplace(scale, moved, relation)


def _discrete_gaussian(event: Any, relation: Relation) -> Event:
    # An unknown dimension may be any; two coordinates already mean that only the zCDP bound is used.
    dimension = getattr(event, "dimension", None) or 2
    moved = _checks.positive("sensitivity", event.sensitivity)
    if relation is Relation.REPLACE:
        return DiscreteGaussian(event.sigma, 2 * moved, relation, reach=moved, coordinates=dimension)
    return DiscreteGaussian(event.sigma, moved, relation, coordinates=dimension)


def _randomized_response(event: Any, relation: Relation) -> Event:
    if relation is not Relation.REPLACE:
        raise UnitMismatch("randomized response is analysed under REPLACE only; pass relation=REPLACE.")
    mixed = _checks.probability("noise_parameter", event.noise_parameter)
    if not mixed:
        return _everything(None, relation)
    if mixed == 1:
        return _nothing(None, relation)
    # Truth with probability 1 − p + p/k against p/k: e^ε = 1 + k(1 − p)/p, rounded up.
    epsilon = math.log1p(float(event.num_buckets * (1 - mixed) / mixed)) * (1 + 1e-14)
    return RandomizedResponse(Fraction(epsilon), event.num_buckets)


def _claimed(event: Any, relation: Relation) -> Event:
    if not event.delta:
        return Claimed(PureDP(event.epsilon, relation=relation))
    return Claimed(ApproxDP(event.epsilon, event.delta, relation=relation))


def _concentrated(event: Any, relation: Relation) -> Event:
    # D_α ≤ ξ + ρα ≤ (ξ + ρ)α for α > 1.
    xi = _checks.nonnegative("xi", getattr(event, "xi", 0))
    return Claimed(ZCDP(_checks.nonnegative("rho", event.rho) + xi, relation=relation))


def _tree(event: Any, relation: Relation) -> Event:
    # Every unit is in one tree at most, so the deepest tree decides.
    counts = event.step_counts
    steps = max(counts) if isinstance(counts, Iterable) else counts
    kind = Relation.ZERO_OUT if relation is Relation.ADD_REMOVE else relation
    return TreeGaussian(event.noise_multiplier, steps, relation=kind)


def _nothing(event: Any, relation: Relation) -> Event:
    return Claimed(PureDP(0, relation=relation))


def _everything(event: Any, relation: Relation) -> Event:
    return Claimed(ApproxDP(0, 1, relation=relation))


_READERS = {
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "RepeatAndSelectDpEvent": _selection,
    "MixtureOfGaussiansDpEvent": _mixture,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "RandomizedResponseDpEvent": _randomized_response,
    "ExponentialMechanismDpEvent": lambda event, relation: ExponentialMechanism(event.epsilon, relation),
    "PermuteAndFlipDpEvent": lambda event, relation: Claimed(PureDP(event.epsilon, relation=relation)),
    "EpsilonDeltaDpEvent": _claimed,
    "ZCDpEvent": _concentrated,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "NoOpDpEvent": _nothing,
    "NonPrivateDpEvent": _everything,
    "ComposedDpEvent": lambda event, relation: (
        Composed([from_dp_accounting(part, relation=relation) for part in event.events])
        if event.events
        else _nothing(event, relation)
    ),
    "SelfComposedDpEvent": lambda event, relation: from_dp_accounting(event.event, relation=relation) * event.count,
    "PoissonSampledDpEvent": lambda event, relation: (
        from_dp_accounting(event.event, relation=relation).sampled(rate=event.sampling_probability)
        if event.sampling_probability
        else _nothing(event, relation)
    ),
    "SampledWithoutReplacementDpEvent": lambda event, relation: from_dp_accounting(
        event.event, relation=relation
    ).sampled_without_replacement(batch=event.sample_size, size=event.source_dataset_size),
}

_REFUSED = {
    "SampledWithReplacementDpEvent": "a unit may be drawn several times",
    "UnsupportedDpEvent": "it has no description",
}
