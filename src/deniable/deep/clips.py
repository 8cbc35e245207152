"""How a unit's gradient is brought to a norm of at most the clip C, as a plan states it.

| rule | what enters the sum | its norm |
|---|---|---|
| `FlatClipping()` | g · min(1, C/‖g‖) | at most C |
| `AdaptiveClipping(quantile=…)` | g · min(1, C_t/‖g‖), C_t from earlier releases | at most C_t |
| `AutomaticClipping(stability=γ)` | g · C/(‖g‖ + γ) | below C |
| `PerLayerClipping()`, `PerGroupClipping(weights)` | for each group of parameters g_k · min(1, C_k/‖g_k‖) | at most C |

*Why the last is at most C.* The clips of groups divide C: C_k = C·w_k/√(Σ w²), so that Σ C_k² = C². A unit's part of
the sum is its groups' parts side by side, and the square of its L2 norm is the sum of their squares, at most Σ C_k².
Under L1, for Laplace noise, norms of groups add up, and C_k = C·w_k/Σ w. So one unit moves the sum by at most C under
every rule, and the plan's event is the same. What is assumed: groups have no parameter in common, together they are all
parameters, and both are fixed before the data comes.

Automatic clipping is Bu et al., "Automatic clipping: differentially private deep learning made easier and stronger",
NeurIPS 2023. All gradients are brought to nearly one length, so the clip and the learning rate are one choice.

Norms are roots of sums of squares in fp32, which has nothing below 2⁻¹⁴⁹. A gradient of 10⁸ numbers and norm 10⁻¹⁴ has
squares of 10⁻³⁶ on average, which are still there; those of a gradient of norm 10⁻²⁰ are gone, and it would not be
clipped. So smaller clips are refused, and so are those near the largest fp32 number, which are no clips either.

>>> checked(0.5)
Fraction(1, 2)
>>> [(each.names, round(each.share, 3)) for each in PerLayerClipping().groups(("a.weight", "a.bias", "b.weight"), "l2")]
[(('a.weight', 'a.bias'), 0.707), (('b.weight',), 0.707)]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from deniable import _checks
from deniable._checks import Number, shown
from deniable._forms import plain_number
from deniable.deep.measures import read_share
from deniable.errors import InvalidArgument

LEAST, MOST = Fraction(1, 10**14), Fraction(10**30)
_BELOW = 1 - 2.0**-40
"""Shares are rounded down by this, so that rounding never makes them more than the whole."""


def checked(clip: Number) -> Fraction:
    """A clipping norm, if it can be held."""
    found = _checks.positive("clip", clip)
    if found < LEAST:
        raise InvalidArgument("clip", clip, "at least 1e-14", "Below it squares underflow; scale the loss up instead.")
    if found > MOST:
        raise InvalidArgument("clip", clip, "at most 1e30", "Above it squares overflow; scale the loss down instead.")
    return found


class Group(NamedTuple):
    """Parameters that are clipped together, and their share of the clip."""

    names: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Clipping(ABC):
    """A rule that brings every unit's gradient to a norm of at most the clip."""

    registry: ClassVar[dict[str, type[Clipping]]] = {}

    def __init_subclass__(cls) -> None:
        Clipping.registry[cls.__name__] = cls

    @abstractmethod
    def groups(self, names: Sequence[str], norm: str) -> tuple[Group, ...]:
        """The groups of a model's parameters: every name is in one. Under the norm their shares make up 1."""

    def to_dict(self) -> dict[str, Any]:
        """The name of the rule and its numbers."""
        return {"kind": type(self).__name__} | {
            each.name: plain_number(getattr(self, each.name)) for each in fields(self)
        }


@dataclass(frozen=True)
class FlatClipping(Clipping):
    """One norm over all parameters: a longer gradient is shortened to the clip, a shorter one stays."""

    def groups(self, names: Sequence[str], norm: str) -> tuple[Group, ...]:
        return (Group(tuple(names), 1.0),)


@dataclass(frozen=True, init=False)
class AutomaticClipping(Clipping):
    """Every gradient is divided by its norm plus `stability`, and multiplied by the clip."""

    stability: Fraction

    def __init__(self, stability: Number = Fraction(1, 100)) -> None:
        read = _checks.positive("stability", stability)
        if read < LEAST:  # else a gradient whose squares underflow, and count as none, would be longer than the clip
            raise InvalidArgument("stability", stability, "at least 1e-14", "For example 0.01.")
        object.__setattr__(self, "stability", read)

    def groups(self, names: Sequence[str], norm: str) -> tuple[Group, ...]:
        return (Group(tuple(names), 1.0),)

    def __repr__(self) -> str:
        return f"AutomaticClipping(stability={shown(self.stability)})"


@dataclass(frozen=True, init=False)
class AdaptiveClipping(Clipping):
    """One norm over all parameters, to a clip that follows a quantile of the norms.

    Every step also releases, with noise, the fraction of units whose gradient was not clipped; the next clip is the
    last times exp(−rate·(fraction − quantile)), so that it moves towards the quantile (Andrew et al., "Differentially
    private learning with adaptive clipping", NeurIPS 2021). The fraction takes a `share` of the plan's noise
    (`deniable.deep.measures`), so the event is that of the plan without it, and the clip is post-processing.

    Args:
        quantile: The fraction of units that should not be clipped.
        rate: How fast the clip moves.
        share: The share of the squared noise multiplier that goes to the fraction.
    """

    quantile: Fraction
    rate: Fraction
    share: Fraction

    def __init__(
        self, *, quantile: Number = Fraction(1, 2), rate: Number = Fraction(1, 5), share: Number = Fraction(1, 100)
    ) -> None:
        object.__setattr__(self, "quantile", _checks.inner_probability("quantile", quantile))
        read = _checks.between("rate", rate, low=0, high=MOST, open_low=True, expected="above 0 and at most 1e30")
        object.__setattr__(self, "rate", read)
        object.__setattr__(self, "share", read_share(share))

    def groups(self, names: Sequence[str], norm: str) -> tuple[Group, ...]:
        return (Group(tuple(names), 1.0),)

    def next(self, clip: float, fraction: float, *, first: Fraction) -> float:
        """The clip behind one under which so large a fraction was not clipped; at most a million times the first, and
        at least a millionth."""
        change = -float(self.rate) * (min(max(fraction, -1.0), 2.0) - float(self.quantile))
        moved = clip * math.exp(min(max(change, -30.0), 30.0))
        return min(max(moved, float(max(LEAST, first / 10**6))), float(min(MOST, first * 10**6)))

    def __repr__(self) -> str:
        return f"AdaptiveClipping(quantile={shown(self.quantile)}, rate={shown(self.rate)}, share={shown(self.share)})"


@dataclass(frozen=True)
class PerLayerClipping(Clipping):
    """Each layer by itself, all with the same clip: parameters whose names differ after the last dot are one layer."""

    def groups(self, names: Sequence[str], norm: str) -> tuple[Group, ...]:
        layers: dict[str, list[str]] = {}
        for name in names:
            layers.setdefault(name.rpartition(".")[0], []).append(name)
        return _shared([(members, 1.0) for members in layers.values()], norm)


@dataclass(frozen=True, init=False)
class PerGroupClipping(Clipping):
    """Each group by itself. `weights` says for the beginning of parameters' names how their clips compare:
    `{"body.": 1, "head.": 2}`. The longest beginning that fits counts; every parameter needs one."""

    weights: tuple[tuple[str, Fraction], ...]

    def __init__(self, weights: Mapping[str, Number]) -> None:
        if not isinstance(weights, Mapping) or not weights or not all(isinstance(each, str) for each in weights):
            raise InvalidArgument(
                "weights", weights, "numbers by the beginning of names", 'For example {"head.": 2, "": 1}.'
            )
        read = tuple((name, _checks.positive("weights", value)) for name, value in weights.items())
        object.__setattr__(self, "weights", read)

    def groups(self, names: Sequence[str], norm: str) -> tuple[Group, ...]:
        members: dict[str, list[str]] = {beginning: [] for beginning, _ in self.weights}
        for name in names:
            fitting = [each for each in members if name.startswith(each)]
            if not fitting:
                raise InvalidArgument("weights", [*members], f"a beginning for {name}", 'The text "" fits all others.')
            members[max(fitting, key=len)].append(name)
        empty = [each for each, found in members.items() if not found]
        if empty:
            raise InvalidArgument("weights", empty, "beginnings of names of trained parameters")
        largest = max(weight for _, weight in self.weights)  # whatever their size, no square leaves the floats
        return _shared([(members[each], float(weight / largest)) for each, weight in self.weights], norm)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "weights": {name: plain_number(each) for name, each in self.weights}}

    def __repr__(self) -> str:
        return f"PerGroupClipping({{{', '.join(f'{name!r}: {shown(each)}' for name, each in self.weights)}}})"


def _shared(groups: Sequence[tuple[Sequence[str], float]], norm: str) -> tuple[Group, ...]:
    """Shares in proportion to weights, whose squares (under L1 they themselves) add up to at most 1."""
    weights = [weight for _, weight in groups]
    whole = math.fsum(weights) if norm == "l1" else math.sqrt(math.fsum(each * each for each in weights))
    return tuple(Group(tuple(names), weight / whole * _BELOW) for names, weight in groups)
