"""In which steps of a run one unit may take part: the public pattern that a sensitivity is about.

| pattern | a unit takes part in |
|---|---|
| `once(steps)` | at most one step (a single epoch) |
| `separated(steps, times=k, separation=b)` | at most k steps, any two of them at least b apart |
| `ordered(steps, period=b)` | steps p, p + b, p + 2b, … for one p (batches in a fixed order, epoch after epoch) |

(Choquette-Choo et al. 2023, "Multi-epoch matrix factorization", section 2, and "(Amplified) banded matrix
factorization", section 3.)

>>> ordered(10, period=4)
Participation(steps=10, times=3, separation=4, ordered=True)
>>> [list(pattern) for pattern in ordered(10, period=4).phases()]
[[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deniable import _checks
from deniable.errors import InvalidArgument


@dataclass(frozen=True)
class Participation:
    """At most `times` of `steps` steps, `separation` or more apart; exactly `separation` apart if `ordered`."""

    steps: int
    times: int = 1
    separation: int = 1
    ordered: bool = False

    def __post_init__(self) -> None:
        steps = _checks.count("steps", self.steps)
        most = 1 + (steps - 1) // _checks.count("separation", self.separation)
        if _checks.count("times", self.times) > most:
            raise InvalidArgument(
                "times", self.times, f"at most {most}: {self.separation} steps apart, no more fit into {steps}"
            )
        if self.ordered and self.times < most:
            raise InvalidArgument("times", self.times, f"{most} in a fixed order", "For fewer, use separated(...).")

    def phases(self) -> Iterator[range]:
        """The patterns of a fixed order, one for each place in the first epoch. They hold every smaller pattern."""
        for first in range(min(self.separation, self.steps)):
            yield range(first, self.steps, self.separation)


def once(steps: int) -> Participation:
    """Every unit takes part in at most one step."""
    return Participation(steps)


def separated(steps: int, *, separation: int, times: int | None = None) -> Participation:
    """At most `times` steps (default: as many as fit), at least `separation` apart."""
    most = 1 + (_checks.count("steps", steps) - 1) // _checks.count("separation", separation)
    return Participation(steps, most if times is None else times, separation)


def ordered(steps: int, *, period: int) -> Participation:
    """Batches in one order, repeated every `period` steps."""
    most = 1 + (_checks.count("steps", steps) - 1) // _checks.count("period", period)
    return Participation(steps, most, period, ordered=True)
