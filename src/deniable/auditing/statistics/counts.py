"""What a fixed number of runs gave, and what a statistic says about it.

The attacker says "in" or "out" after each run. With D′ = D and a canary: a *true positive* is "in" on D′, a *false
positive* is "in" on D. (ε, δ)-DP implies TPR ≤ e^ε·FPR + δ and 1 − FPR ≤ e^ε·FNR + δ.
"""

from __future__ import annotations

from dataclasses import dataclass

from deniable import _checks
from deniable.errors import InvalidArgument


@dataclass(frozen=True)
class Counts:
    """How often "in" was said in either world. The runs must be independent, and the rule fixed before them."""

    true_positives: int
    positives: int
    false_positives: int
    negatives: int

    def __post_init__(self) -> None:
        for said, total in (("true_positives", "positives"), ("false_positives", "negatives")):
            runs = _checks.count(total, getattr(self, total))
            found = _checks.count(said, getattr(self, said), least=0)
            if found > runs:
                raise InvalidArgument(said, found, f"at most {total}={runs}")

    @property
    def false_negatives(self) -> int:
        """ "out" on D′."""
        return self.positives - self.true_positives

    @property
    def true_positive_rate(self) -> float:
        """The share of "in" on D′."""
        return self.true_positives / self.positives

    @property
    def false_positive_rate(self) -> float:
        """The share of "in" on D."""
        return self.false_positives / self.negatives


@dataclass(frozen=True)
class Bound:
    """A lower end, what it says, and what it needs."""

    value: float
    certifies: bool
    """Whether it is wrong with probability at most 1 − confidence, whatever the truth."""

    statement: str
    precondition: str

    def __str__(self) -> str:
        return f"{self.statement} ({'needs' if self.certifies else 'an estimate; needs'}: {self.precondition})"


FIXED = "independent runs, and a rule that was fixed before them"
"""What every statistic here asks for."""
