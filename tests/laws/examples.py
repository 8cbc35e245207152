"""One example or more of every registered event: what the laws run over.

A new event class joins by subclassing `Event`; `test_every_registered_event_has_an_example` fails until it has a line
here. `NOISIER` lists, for events that declare that more noise never costs more, the same event with more noise.
"""

from __future__ import annotations

from deniable.events import (
    Claimed,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixGaussian,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    SampledWithoutReplacement,
    Selected,
    Shuffled,
    ToReplace,
    TreeGaussian,
    TruncatedSampled,
)
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff
from deniable.units import Relation

REPLACE = Relation.REPLACE
CLIPPED = Gaussian(1.5, 2, REPLACE, reach=1)

EXAMPLES: dict[str, tuple[Event, ...]] = {
    "Gaussian": (Gaussian(1.3), Gaussian(0.8, 2, REPLACE)),
    "GaussianMixture": (
        GaussianMixture(2, (0, 1, 2), (0.81, 0.18, 0.01)),
        GaussianMixture(4, (1, 3), (0.5, 0.5), Relation.ZERO_OUT),
    ),
    "Laplace": (Laplace(2), Laplace(5, 3, coordinates=3)),
    "DiscreteGaussian": (DiscreteGaussian(3), DiscreteGaussian(4, 1.5, coordinates=2)),
    "DiscreteLaplace": (DiscreteLaplace(2), DiscreteLaplace(10, 3, coordinates=3)),
    "RandomizedResponse": (RandomizedResponse(0.5), RandomizedResponse(1, 5)),
    "ExponentialMechanism": (ExponentialMechanism(0.5),),
    "TreeGaussian": (TreeGaussian(3, 8), TreeGaussian(3, 8, 2, REPLACE)),
    "MatrixGaussian": (MatrixGaussian(3, 1.25, 100), MatrixGaussian(5, 1.5, 100, 3, 30, REPLACE)),
    "Claimed": (
        Claimed(PureDP(0.5)),
        Claimed(ApproxDP(0.5, 1e-9)),
        Claimed(GDP(0.5)),
        Claimed(ZCDP(0.05)),
        Claimed(ApproxZCDP(0.05, 1e-9)),
        Claimed(TCDP(0.05, 50)),
        Claimed(RDP(16, 0.5)),
        Claimed(FDP(TradeOff([(0, 1), (0.3, 0.4), (0.4, 0.3), (1, 0)]))),
    ),
    "Composed": (Composed([Gaussian(3), Laplace(5), DiscreteLaplace(4)]),),
    "Repeated": (Repeated(Laplace(4), 3),),
    "Sampled": (
        Sampled(Gaussian(1.1), 0.05),
        Sampled(Laplace(1), 0.1),
        Sampled(CLIPPED, 0.1),
        Sampled(Gaussian(3) + Laplace(5), 0.1),
        Sampled(Claimed(PureDP(1)), 0.1),
    ),
    "SampledWithoutReplacement": (SampledWithoutReplacement(Gaussian(1.5, 1, REPLACE), 10, 100),),
    "Shuffled": (Shuffled(RandomizedResponse(1), 200), Shuffled(Claimed(PureDP(1, relation=REPLACE)), 200)),
    "RandomAllocation": (RandomAllocation(Gaussian(2), 20), RandomAllocation(Gaussian(3), 20, 2)),
    "TruncatedSampled": (TruncatedSampled(Gaussian(1.5), 0.1, 20, 100),),
    "Selected": (Selected(Gaussian(4), 0.2), Selected(Laplace(5) * 2, 0.5, 1)),
    "ForGroup": (ForGroup(Gaussian(4), 3), ForGroup(Sampled(Gaussian(2), 0.05), 2)),
    "ToReplace": (ToReplace(Laplace(4)), ToReplace(Sampled(Gaussian(2), 0.05))),
}
"""Events by the name of their class, each with a finite ε at δ = 1e-6."""

NOISIER: dict[str, tuple[Event, Event]] = {
    "Gaussian": (Gaussian(1.3), Gaussian(1.31)),
    "GaussianMixture": (
        GaussianMixture(2, (0, 1, 2), (0.81, 0.18, 0.01)),
        GaussianMixture(2.1, (0, 1, 2), (0.81, 0.18, 0.01)),
    ),
    "Laplace": (Laplace(2), Laplace(2.02)),
    "DiscreteLaplace": (DiscreteLaplace(2), DiscreteLaplace(2.02)),
    "RandomizedResponse": (RandomizedResponse(0.5), RandomizedResponse(0.49)),
    "ExponentialMechanism": (ExponentialMechanism(0.5), ExponentialMechanism(0.49)),
    "TreeGaussian": (TreeGaussian(3, 8), TreeGaussian(3.1, 8)),
    "MatrixGaussian": (MatrixGaussian(3, 1.25, 100), MatrixGaussian(3.1, 1.25, 100)),
    "Sampled": (Sampled(Gaussian(1.1), 0.05), Sampled(Gaussian(1.2), 0.05)),
    "SampledWithoutReplacement": (
        SampledWithoutReplacement(Gaussian(1.5, 1, REPLACE), 10, 100),
        SampledWithoutReplacement(Gaussian(1.6, 1, REPLACE), 10, 100),
    ),
    "Shuffled": (Shuffled(RandomizedResponse(1), 200), Shuffled(RandomizedResponse(0.95), 200)),
    "RandomAllocation": (RandomAllocation(Gaussian(2), 20), RandomAllocation(Gaussian(2.1), 20)),
    "TruncatedSampled": (TruncatedSampled(Gaussian(1.5), 0.1, 20, 100), TruncatedSampled(Gaussian(1.6), 0.1, 20, 100)),
}
"""A step, and the same step with more noise. The discrete Gaussian is left out: at a fixed ε its δ may rise."""


def every() -> list[Event]:
    """All examples in one list."""
    return [event for events in EXAMPLES.values() for event in events]
