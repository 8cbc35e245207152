"""Post-processing: nothing computed from a private result, without the data, costs anything.

For any randomised F that does not touch the data, every divergence and trade-off function obeys the data-processing
inequality: D(F(P)‖F(Q)) ≤ D(P‖Q), T(F(P), F(Q)) ≥ T(P, Q). So every kind of promise survives unchanged (Dwork–Roth
2014, Prop. 2.1; Dong–Roth–Su 2019, Prop. 2.8; van Erven–Harremoës 2014).

>>> from deniable.guarantees import GDP
>>> post_processed(GDP(1))
GDP(mu=1)
"""

from __future__ import annotations

from typing import TypeVar

from deniable import _checks
from deniable.guarantees import Guarantee

Kind = TypeVar("Kind", bound=Guarantee)


def post_processed(guarantee: Kind) -> Kind:
    """The promise of any function of the result that uses public data and fresh randomness only. Exact."""
    _checks.member("guarantee", guarantee, Guarantee)
    return guarantee
