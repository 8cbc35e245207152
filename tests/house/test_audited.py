"""Nothing is released that our own auditor has not attacked: whatever is new joins its lists, or fails here."""

from __future__ import annotations

import sqlglot

from deniable import learning, mechanisms
from deniable.learning.optimizers.base import Method
from deniable.mechanisms import Mechanism
from deniable.query.reading import FUNCTIONS
from tests.laws.test_audits import FIRST
from tests.laws.test_estimators import KINDS
from tests.laws.test_room_audits import AGGREGATES, SOLVERS


def test_every_mechanism_is_audited() -> None:
    found = {getattr(mechanisms, name) for name in mechanisms.__all__}
    released = {kind.__name__ for kind in found if isinstance(kind, type) and issubclass(kind, Mechanism)}
    assert released - {"Mechanism"} <= {name for name, _, _ in FIRST}


def test_every_aggregate_is_audited() -> None:
    audited = {
        type(node) for text in AGGREGATES for node in sqlglot.parse_one(f"SELECT {text}", dialect="duckdb").walk()
    }
    assert set(FUNCTIONS) <= audited, {kind.__name__ for kind in set(FUNCTIONS) - audited}


def test_every_estimator_is_audited() -> None:
    from deniable.learning import estimators

    assert set(estimators.__all__) == {kind.__name__ for kind in KINDS}


def test_every_solver_is_audited() -> None:
    found = {getattr(learning, name) for name in learning.__all__ if name != "losses"}
    methods = {kind.name for kind in found if isinstance(kind, type) and issubclass(kind, Method)}
    assert methods <= set(SOLVERS)
