"""`dn.open`: a table and its budget in one line, for a first question.

>>> import tempfile, pathlib, deniable as dn
>>> visits = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
>>> _ = visits.write_text("patient_id,city\\n" + "".join(f"{n},{'Bern' if n % 3 else 'Basel'}\\n" for n in range(300)))
>>> with dn.open(visits, unit="patient_id", epsilon=3) as session:
...     print(session.ledger.budget)
ε ≤ 3.00, δ = 1e-6, one patient added or removed

The ledger is the file `visits.ledger` beside the table. Opening again goes on with it: what was spent stays spent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from deniable._checks import Number, warn_of_delta
from deniable._signatures import public as public_call
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.query.session import Session
from deniable.units import Relation, Unit

DELTA = 1e-6
"""The δ of a new ledger: a millionth. It should be well below one over the number of people."""


@public_call
def open(
    data: Any,
    *,
    unit: str,
    epsilon: Number,
    delta: Number = DELTA,
    size: int | None = None,
    ledger: str | os.PathLike[str] | None = None,
    public: Any = None,
    encoding: str | None = None,
) -> Session:
    """Open tables with a budget: a `Session` whose ledger is created the first time and opened from then on.

    Args:
        data: tables, as `Session` takes them.
        unit: the column that says who a row is about, or "row" if every row is about somebody else.
        epsilon: the ε of everything that will ever be asked, together. `dn.explain(dn.PureDP(3))` says what 3 means.
        delta: the δ of the budget; 0 for a pure promise.
        size: how many units there are, if that is public: a δ that is large for so many is warned of.
        ledger: the ledger's file; beside the table and named after it, if left out.
        public: tables that are about nobody, as `Session` takes them.
        encoding: how the text of CSV files is written; UTF-8 if not given.
    """
    budget = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    warn_of_delta(budget, size=size)
    place = ledger_beside(data) if ledger is None else Path(ledger)
    if place is None:
        raise InvalidArgument(
            "ledger",
            None,
            "the name of a file",
            "Only a table in one file has a ledger beside it; for example ledger='visits.ledger'.",
        )
    record, created = open_or_create(place, unit=unit, budget=budget)
    try:
        return Session(data, ledger=record, public=public, encoding=encoding)
    except BaseException:
        unused = created and record.head().seq == 0
        record.close()
        if unused:
            place.unlink()  # so that the next try may name another unit
        raise


def ledger_beside(data: Any) -> Path | None:
    """The ledger of a table in one file: the file's name, ending in `.ledger`; None for anything else."""
    if not isinstance(data, str | os.PathLike):
        return None
    name = os.fspath(data)
    if "://" in name or ":" in Path(name).name or any(mark in name for mark in "*?[") or Path(name).is_dir():
        return None
    return Path(name).with_suffix(".ledger")


def open_or_create(place: Path, *, unit: str, budget: Guarantee) -> tuple[Ledger, bool]:
    """The ledger at a place, which must have this unit and budget, or a new one; and whether it is new."""
    wanted = budget.about(Unit.of(unit))
    if not place.exists():
        return Ledger.create(place, unit=unit, budget=budget), True
    ledger = Ledger.open(place)
    if (ledger.unit, ledger.budget) != (wanted.unit, wanted) or ledger.relation is not Relation.ADD_REMOVE:
        ledger.close()
        raise InvalidArgument(
            "epsilon",
            wanted.figures,
            f"what {place.name} was created with: {ledger.budget}",
            "A budget is fixed once. Open it with its own numbers, or as Session(data, ledger=…).",
        )
    return ledger, False
