"""What the private choices have in common: utilities on a grid, and whether they are monotone.

A choice among k public candidates sees one utility per candidate. `sensitivity` is how far one unit can move any one
of them. Utilities that are real numbers are rounded half up to a grid of a millionth of the sensitivity, and one step
is added to the sensitivity for it; with `step=1` they are integers by type. The choice itself compares exact numbers
only.

Utilities are *monotone* when one unit's arrival never lowers any of them: counts are, under ADD_REMOVE and ZERO_OUT.
Then half the noise suffices. Under REPLACE one count falls while another rises, nothing is monotone, and asking for
it is refused: noisy max with half the noise has a loss of up to 1.9 ε there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import grids
from deniable.mechanisms.base import Mechanism, failure
from deniable.units import Relation

_STEPS = 1 << 20


@dataclass(frozen=True, repr=False)
class Choice(Mechanism):
    """A private choice of one or more of `candidates` by their utilities. `epsilon` is the guarantee."""

    candidates: int
    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool
    step: Fraction
    stated: Relation

    @property
    def steps(self) -> int:
        """The sensitivity of utilities in steps of the grid."""
        return math.floor(self.sensitivity) if self.step == 1 else math.floor(self.sensitivity / self.step) + 1

    @property
    def each(self) -> Fraction:
        """The ε of one choice."""
        return self.epsilon

    @property
    def rate(self) -> Fraction:
        """What a utility in steps is multiplied by to be in units of the noise: ε/(2Δ), or ε/Δ if monotone."""
        return self.each / (self.steps if self.monotone else 2 * self.steps)

    def utilities(self, given: object) -> list[int]:
        """Utilities in steps. One that is no finite number is 0; with `step=1`, so is one that is no whole number."""
        if self.step == 1:
            return grids.whole_all(given, size=self.candidates)
        return grids.nearest_all(given, self.step, size=self.candidates)

    def shortfall(self, confidence: Number, *, width: int = 1) -> float:
        """(width/rate)·ln(candidates/failure), and the step that rounding may cost."""
        nats = math.log(self.candidates / failure(confidence)) * (1 + 1e-12)
        rounding = 0 if self.step == 1 else self.step
        return float_above(width * Fraction(nats) / self.rate * self.step + rounding)


def prepared(
    candidates: int, sensitivity: Number, epsilon: Number, step: Number | None, relation: Relation, *, monotone: bool
) -> dict[str, object]:
    """The fields of a `Choice`, checked."""
    moved = _checks.positive("sensitivity", sensitivity, remedy="Utilities that nobody can change are public.")
    grid = grids.step_below(moved / _STEPS) if step is None else grids.power_of_two("step", step)
    if grid == 1 and moved < 1:
        raise InvalidArgument("sensitivity", sensitivity, "1 or more with step=1", "Integers that differ, differ by 1.")
    _checks.member("relation", relation, Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
    if monotone and relation is Relation.REPLACE:
        raise InvalidArgument(
            "monotone", monotone, "False under REPLACE", "A replaced record lowers one utility while it raises another."
        )
    return {
        "candidates": _checks.count("candidates", candidates),
        "epsilon": _checks.positive("epsilon", epsilon, remedy="ε = 0 is a uniform choice, which needs no data."),
        "sensitivity": moved,
        "monotone": bool(monotone),
        "step": grid,
        "stated": relation,
    }
