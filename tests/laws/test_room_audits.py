"""Every query aggregate, estimator and solver is attacked by our own auditor, as a user meets them.

An audit refutes a true claim with probability at most 1e-9. About 40 seconds; the long form runs in `make soak`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

import deniable as dn
from deniable.auditing import Pair
from deniable.learning import SGD
from deniable.learning.optimizers.base import BallMethod, Method
from tests.laws.test_estimators import KINDS, fitted_numbers, make

SURE = 1 - 1e-9

TABLE = {
    "person": [1, 1, 2, 3, 4, 4, 5],
    "g": ["a", "b", "a", "b", "a", "a", "b"],
    "x": [1.0, 9.0, 4.0, 10.0, 2.0, 3.0, 10.0],
}
WITHOUT = {
    name: [value for value, person in zip(values, TABLE["person"], strict=True) if person != 5]
    for name, values in TABLE.items()
}
"""The same without one person, whose value is at the bound."""

AGGREGATES = [
    "COUNT(*)",
    "COUNT(x)",
    "COUNT_IF(x > 3)",
    "COUNT(DISTINCT person)",
    "COUNT(DISTINCT g)",
    "SUM(x)",
    "AVG(x)",
    "VARIANCE(x)",
    "VAR_POP(x)",
    "STDDEV(x)",
    "STDDEV_SAMP(x)",
    "STDDEV_POP(x)",
    "MEDIAN(x)",
    "MIN(x)",
    "MAX(x)",
    "QUANTILE(x, 0.3)",
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",
    "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x)",
    "MODE(g)",
]
"""All that a query may release; tests/house/test_audited.py sees to that."""


def plan_over(table: dict[str, list[Any]], aggregate: str, folder: Path, name: str) -> Any:
    dn.Ledger.create(folder / f"{name}.ledger", unit="person", budget=dn.PureDP(10**9))
    session = dn.Session({"t": pa.table(table)}, ledger=folder / f"{name}.ledger")
    return session.plan(
        f"SELECT {aggregate} AS y FROM t",
        epsilon=1,
        bounds={"x": (0, 10)} if "x" in aggregate else None,
        keys={"g": ["a", "b"]} if aggregate == "MODE(g)" else None,
        per_unit=dn.AtMost(groups=1, rows=2),
    )


def audited_query(aggregate: str, folder: Path, *, runs: int) -> dn.AuditReport:
    plans = Pair(plan_over(TABLE, aggregate, folder, "d"), plan_over(WITHOUT, aggregate, folder, "e"), check=False)
    return dn.audit(
        lambda plan: plan.run().columns, neighbours=plans, claim=plans.first.event, confidence=SURE, runs=runs
    )


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_no_aggregate_is_refuted(aggregate: str, tmp_path: Path) -> None:
    report = audited_query(aggregate, tmp_path, runs=30)
    assert not report.refuted, str(report)


@pytest.mark.soak
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_no_aggregate_is_refuted_by_many_runs(aggregate: str, tmp_path: Path) -> None:
    report = audited_query(aggregate, tmp_path, runs=2_000)
    assert not report.refuted, str(report)


GENERATOR = np.random.default_rng(12)
FEATURES = GENERATOR.normal(size=(60, 2))
LABELS = (FEATURES[:, 0] > 0).astype(int)
EDGE = np.array([[9.0, 9.0]])  # longer than the declared norm


def audited_estimator(kind: type, *, runs: int) -> dn.AuditReport:
    with_edge = (np.concatenate([FEATURES, EDGE]), np.append(LABELS, 1 - LABELS[0]))
    pair = Pair((FEATURES, LABELS), with_edge, check=False)
    claim = make(kind).fit(FEATURES, LABELS).event_
    return dn.audit(
        lambda data: fitted_numbers(make(kind).fit(*data)), neighbours=pair, claim=claim, confidence=SURE, runs=runs
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_estimator_is_refuted(kind: type) -> None:
    report = audited_estimator(kind, runs=30)
    assert not report.refuted, str(report)


def offered(kind: type) -> list[Method]:
    return [*make(kind)._methods(), *make(kind)._by_name()]


SOLVERS = sorted({method.name for kind in KINDS for method in offered(kind)})
SWAPS = ("phased", "localisation", "last_iterate", "textbook", "frank_wolfe", "ftrl")
"""Solvers that are stated for exchanged records; the others are attacked by adding one."""


def solver_example(solver: str) -> Any:
    """An estimator that offers this solver, under a relation that it has, in a ball where it needs one."""
    kind, method = next((kind, m) for kind in KINDS for m in offered(kind) if m.name == solver)
    if isinstance(method, BallMethod):
        method = replace(method, radius=1.0)
    if isinstance(method, SGD):
        method = replace(method, steps=3, rate=0.5)
    relation = "replace" if solver in SWAPS else "add_remove"
    return make(kind, solver=method, relation=relation, size=len(FEATURES))


def audited_solver(solver: str, *, runs: int) -> dn.AuditReport:
    model = solver_example(solver)
    if model.relation == "replace":
        changed = np.concatenate([FEATURES[:-1], EDGE]), np.append(LABELS[:-1], 1 - LABELS[-1])
    else:
        changed = np.concatenate([FEATURES, EDGE]), np.append(LABELS, 1 - LABELS[0])
    pair = Pair((FEATURES, LABELS), changed, check=False)
    return dn.audit(
        lambda data: fitted_numbers(clone(model).fit(*data)),
        neighbours=pair,
        claim=clone(model).fit(FEATURES, LABELS).event_,
        confidence=SURE,
        runs=runs,
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_solver_is_refuted(solver: str) -> None:
    report = audited_solver(solver, runs=20)
    assert not report.refuted, str(report)


@pytest.mark.soak
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_solver_is_refuted_by_many_runs(solver: str) -> None:
    report = audited_solver(solver, runs=500)
    assert not report.refuted, str(report)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_estimator_is_refuted_by_many_runs(kind: type) -> None:
    report = audited_estimator(kind, runs=1_000)
    assert not report.refuted, str(report)
