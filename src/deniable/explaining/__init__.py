"""Words and pictures about what was promised: from a promise, a curve or a description, never from data.

>>> from deniable.guarantees import PureDP
>>> print(explain(PureDP(0.5, unit="patient_id"), prior=0.1).sections[0].sentences[-1])
Whoever starts out 10 % sure about one patient ends between 6.3 % and 15.5 % sure, whatever is published.
"""

from __future__ import annotations

from deniable import _checks
from deniable._checks import Number
from deniable.explaining.subjects import Explainable, subject
from deniable.explaining.writers import Analyst, Explanation, Participant, Regulator, Section, Writer

__all__ = ["Analyst", "Explanation", "Participant", "Regulator", "Section", "Writer", "explain"]


def explain(what: Explainable, *, prior: Number | None = None, reader: Writer | None = None) -> Explanation:
    """Explain in words what a promise means.

    Args:
        what: an event, a guarantee, a profile, or an object with `describe()`: a release, a fitted model, a training
            plan, an audit report, a ledger (explained by its budget).
        prior: what an attacker believed before, between 0 and 1.
        reader: who the words are for: `Participant()` if left out, `Analyst()` or `Regulator()`.
    """
    if reader is not None:
        _checks.member("reader", reader, Writer, remedy="For example deniable.explaining.Analyst().")
    return (reader or Participant()).write(subject(what), prior=prior)
