"""What is promised: the guarantees, each with the unit and the relation it is about, and the curve `Profile`.

A guarantee is a frozen value. Its numbers are exact fractions (a float that was typed is its shortest decimal), and it
prints itself in one form, rounded up:

>>> from deniable.guarantees import ApproxDP, PureDP
>>> print(PureDP(0.5, unit="patient_id"))
ε ≤ 0.50, δ = 0, one patient added or removed
>>> ApproxDP(1, 1e-6) <= ApproxDP(2, 1e-6)
True
"""

from deniable.guarantees.kinds import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, read_promise
from deniable.guarantees.profile import Curve, LossOdds, Profile
from deniable.guarantees.tradeoff import TradeOff
from deniable.numerics.rounding import Bracket

__all__ = [
    "FDP",
    "GDP",
    "RDP",
    "TCDP",
    "ZCDP",
    "ApproxDP",
    "ApproxZCDP",
    "Bracket",
    "Curve",
    "Guarantee",
    "LossOdds",
    "Profile",
    "PureDP",
    "TradeOff",
    "read_promise",
]
