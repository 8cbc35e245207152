"""DP-SGD in the words of people who train: noise multiplier, rate, steps."""

from __future__ import annotations

import math
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events.base import Event
from deniable.events.leaves import Gaussian
from deniable.units import Relation


def dpsgd(
    *,
    noise_multiplier: Number,
    steps: int | None = None,
    epochs: Number | None = None,
    rate: Number | None = None,
    batch: Number | None = None,
    examples: int | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> Event:
    """`steps` noisy sums of gradients clipped to norm C, over Poisson samples; noise is `noise_multiplier` × C.

    Give `rate`, or `batch` (the expected batch) and `examples`; `steps`, or `epochs`, which are rounded up to whole
    steps. Under REPLACE two clipped gradients may point apart, so the sensitivity is 2C and the reach C; the event
    prints it.

    >>> dpsgd(noise_multiplier=1.1, batch=256, examples=60_000, epochs=60)
    Gaussian(scale=1.1).sampled(rate=8/1875) * 14063
    >>> dpsgd(noise_multiplier=1.1, rate=0.01, steps=10, relation=Relation.REPLACE)
    Gaussian(scale=1.1, sensitivity=2, relation=REPLACE, reach=1).sampled(rate=0.01) * 10
    """
    often = _rate(rate, batch, examples)
    if (steps is None) == (epochs is None):
        raise InvalidArgument("steps", steps, "given, or epochs instead, and not both", "For example steps=1000.")
    taken = (
        math.ceil(_checks.positive("epochs", epochs) / often) if epochs is not None else _checks.count("steps", steps)
    )
    noise = _checks.positive("noise_multiplier", noise_multiplier)
    replaced = relation is Relation.REPLACE
    step = Gaussian(noise, 2, relation, reach=1) if replaced else Gaussian(noise, 1, relation)
    return step.sampled(rate=often) * taken


def _rate(rate: Number | None, batch: Number | None, examples: int | None) -> Fraction:
    """How likely one example is in a batch: as given, or the expected batch out of all."""
    if rate is not None and batch is None and examples is None:
        return _checks.rate("rate", rate)
    if rate is not None or batch is None or examples is None:
        example = "For example batch=256, examples=60_000."
        raise InvalidArgument("rate", rate, "given, or batch and examples instead", example)
    expected, all_of_them = _checks.positive("batch", batch), _checks.count("examples", examples)
    if expected > all_of_them:
        raise InvalidArgument("batch", batch, f"at most examples={all_of_them}", "It is the expected batch.")
    return expected / all_of_them
