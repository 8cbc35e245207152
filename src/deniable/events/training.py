"""DP-SGD in the words of people who train: noise multiplier, rate, steps."""

from __future__ import annotations

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events.base import Event
from deniable.events.leaves import Gaussian
from deniable.units import Relation


def dpsgd(
    *,
    noise_multiplier: Number,
    steps: int,
    rate: Number | None = None,
    batch: Number | None = None,
    examples: int | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> Event:
    """`steps` noisy sums of gradients clipped to norm C, over Poisson samples; noise is `noise_multiplier` × C.

    Give `rate`, or `batch` (the expected batch) and `examples`. Under REPLACE two clipped gradients may point apart, so
    the sensitivity is 2C and the reach C; the event prints it.

    >>> dpsgd(noise_multiplier=1.1, batch=256, examples=60_000, steps=14_063)
    Gaussian(scale=1.1).sampled(rate=8/1875) * 14063
    >>> dpsgd(noise_multiplier=1.1, rate=0.01, steps=10, relation=Relation.REPLACE)
    Gaussian(scale=1.1, sensitivity=2, relation=REPLACE, reach=1).sampled(rate=0.01) * 10
    """
    if (rate is None) == (batch is None) or (batch is None) != (examples is None):
        example = "For example batch=256, examples=60_000."
        raise InvalidArgument("rate", rate, "given, or batch and examples instead", example)
    if rate is None and batch is not None and examples is not None:
        rate = _checks.positive("batch", batch) / _checks.count("examples", examples)
    step = (
        Gaussian(noise_multiplier, 2, relation, reach=1)
        if relation is Relation.REPLACE
        else Gaussian(noise_multiplier, 1, relation)
    )
    return step.sampled(rate=_checks.rate("rate", rate)) * steps  # type: ignore[arg-type]
