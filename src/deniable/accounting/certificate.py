"""An answer is proven, or it is not given: what an engine says when its numbers leave the range of floating point."""

from __future__ import annotations

from collections.abc import Callable

from deniable.errors import NotSupported
from deniable.guarantees import Bracket


class NotCertified(NotSupported):
    """An engine cannot prove this answer; another one has to give it."""


def proven(answer: Callable[[], Bracket]) -> Bracket:
    """An answer, or `NotCertified` where numbers leave the range of doubles. Comparisons with nan prove nothing."""
    import numpy as np  # a ledger needs only the exception of this file

    try:
        with np.errstate(all="ignore"):
            found = answer()
    except (ArithmeticError, ValueError, MemoryError) as problem:
        raise NotCertified(f"out of the range of floating point: {problem}") from problem
    if not found.lower <= found.upper:
        raise NotCertified("out of the range of floating point")
    return found
