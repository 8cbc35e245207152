"""What was done to the data: frozen descriptions that everything else is computed from.

An event says which randomised step touched the data, with the public parameters that determine its privacy and nothing
about the data: no result, no count of rows, no value. It carries the relation under which its sensitivity was stated.
Events are the record that is stored; what they cost is computed from them and never stored, so that a better theorem
improves the answer for everything that was ever charged.

An event promises: *whatever the data, the step's output on any two neighbours is at least as hard to tell apart as the
description says.* Adaptive choice of later steps is covered as long as the events themselves were fixed beforehand.

Events form a small algebra. `a + b` is both, `a * n` is n times the same, `a.sampled(rate=q)` runs on a Poisson
sample, `a.for_group(k)` speaks of k units at once.

>>> from deniable.events import Gaussian, Event
>>> step = Gaussian(scale=1.1).sampled(rate=0.004)
>>> step * 1000
Gaussian(scale=1.1).sampled(rate=0.004) * 1000
>>> Event.from_json((step * 1000).to_json()) == step * 1000
True
"""

from deniable.events.algebra import Composed, ForGroup, Repeated, Selected, ToReplace
from deniable.events.base import Event
from deniable.events.leaves import (
    Claimed,
    Correlated,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixGaussian,
    Noise,
    RandomizedResponse,
    TreeGaussian,
)
from deniable.events.sampling import (
    RandomAllocation,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
    TruncatedSampled,
    dpsgd,
)

__all__ = [
    "Claimed",
    "Composed",
    "Correlated",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "ExponentialMechanism",
    "ForGroup",
    "Gaussian",
    "GaussianMixture",
    "Laplace",
    "MatrixGaussian",
    "Noise",
    "RandomAllocation",
    "RandomizedResponse",
    "Repeated",
    "Sampled",
    "SampledWithoutReplacement",
    "Selected",
    "Shuffled",
    "ToReplace",
    "TreeGaussian",
    "TruncatedSampled",
    "dpsgd",
]
