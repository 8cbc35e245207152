"""Private learning: every estimator with every solver, encoders, predictions and scores.

A unit is a list of records; a record is two values, a label and a weight. Tables are lists, arrays and frames. That one
word among numbers makes text of a whole array is part of what is tried.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from deniable import learning
from deniable.learning.optimizers.base import Method
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, EntryPoint, World

COUNT = 24
Record = tuple[Any, Any, Any, Any]
OWN: list[Record] = [
    (math.cos(i), 0.5 * math.sin(3 * i), i % 3 if i % 2 else (i + 1) % 3, 1 - 0.25 * (i % 2)) for i in range(COUNT)
]
TWO: list[Record] = [(a, b, int(a > 0), weight) for a, b, _, weight in OWN]

UNITS: dict[str, Any] = {
    "removed": REMOVED,
    **{f"value: {label}": [(value, 0.5, 1, 1.0)] for label, value in hostile.ANY.items()},
    **{f"label: {label}": [(0.5, 0.5, value, 1.0)] for label, value in hostile.ANY.items()},
    **{f"weight: {label}": [(0.5, 0.5, 1, value)] for label, value in hostile.ANY.items()},
    "an undeclared label": [(0.5, 0.5, 77, 1.0)],
    "a far row": [(1e300, -1e300, 0, 1.0)],
    "all zeros": [(0.0, 0.0, 0, 0.0)],
    "wrong everywhere": [(None, "x", [], {})],
    "many rows": [(0.3, 0.4, 1, 1.0)] * hostile.MANY,
    "many wrong rows": [("x", None, "y", math.nan)] * hostile.MANY,
    "duplicates": [OWN[0]] * 2,
}
VALUES = {label: unit for label, unit in UNITS.items() if not label.startswith(("label", "weight"))}


def mix(rng: random.Random) -> Any:
    """Some records, each of hostile values."""
    pool = list(hostile.ANY.values())
    return [tuple(rng.choice(pool) if rng.random() < 0.7 else 0.5 for _ in range(4)) for _ in range(rng.randint(1, 5))]


def records(own: list[Record], unit: Any, *, relation: str = "add_remove") -> list[Record]:
    """D; D with a unit, added or in another's place; D without its last record."""
    if unit is None or (unit is REMOVED and relation == "replace"):
        return own
    if unit is REMOVED:
        return own[:-1]
    return [*own[:-1], unit[-1]] if relation == "replace" else [*own, *unit]


def objects(values: list[Any]) -> Any:
    return np.fromiter(values, dtype=object)


def array(values: list[Any]) -> Any:
    """An array as NumPy makes it of a list: one word makes text of all. Objects where NumPy refuses."""
    try:
        found = np.array(values)
    except Exception:  # noqa: BLE001  an object of a record's own
        found = objects(values)
    return found if found.ndim == 1 else objects(values)


LISTS: dict[str, Callable[[list[Record]], Any]] = {
    "lists": lambda rows: [[a, b] for a, b, _, _ in rows],
    "short lists": lambda rows: [[a, b] if type(a) is float else [a] for a, b, _, _ in rows],
    "long lists": lambda rows: [[a, b] if type(a) is float else [a, b, a] for a, b, _, _ in rows],
    "lists and others": lambda rows: [[a, b] if type(a) is float else a for a, b, _, _ in rows],
}
"""Rows that are lists, where the columns are declared: a hostile record has a row of another length, or none at all."""

TABLES: dict[str, Callable[[list[Record]], Any]] = {
    "objects": lambda rows: np.column_stack([objects([row[0] for row in rows]), objects([row[1] for row in rows])]),
    "text": lambda rows: _joined(array([row[0] for row in rows]), array([row[1] for row in rows])),
    "frame": lambda rows: pd.DataFrame(
        {"a": objects([row[0] for row in rows]), "b": objects([row[1] for row in rows])}
    ),
    "polars": lambda rows: pl.DataFrame(
        {"a": [_written(row[0]) for row in rows], "b": [_written(row[1]) for row in rows]}
    ),
    "sparse": lambda rows: sparse.csr_array(np.array([[_float(row[0]), _float(row[1])] for row in rows])),
}


def _joined(one: Any, other: Any) -> Any:
    """Two columns as NumPy joins them, or as objects where it refuses."""
    try:
        return np.column_stack([one, other])
    except (TypeError, ValueError):
        return np.column_stack([objects(one.tolist()), objects(other.tolist())])


def _written(value: Any) -> str | None:
    """As a reader that found one word in a column gives it: everything as text."""
    if type(value) in (float, int, str):
        try:
            return str(value).encode().decode()
        except ValueError:
            return None
    return None


def _float(value: Any) -> float:
    return value if type(value) is float else 0.0


def labels(rows: list[Record], kind: str) -> Any:
    column = [row[2] for row in rows]
    return array(column) if kind == "text" else pd.Series(objects(column)) if kind == "frame" else column


def weights(rows: list[Record]) -> Any:
    return [row[3] for row in rows]


CLASSIFIED = {"classes": [0, 1]}
BOUNDED = {"label_bounds": (-1, 2)}
BOXED = {"data_norm": None, "bounds": (-1, 1)}
MODELS: dict[str, tuple[type, dict[str, Any]]] = {
    "LogisticRegression": (learning.LogisticRegression, CLASSIFIED),
    "multinomial": (learning.LogisticRegression, {"classes": [0, 1, 2]}),
    "LinearSVC": (learning.LinearSVC, CLASSIFIED),
    "hinge": (learning.LinearSVC, {**CLASSIFIED, "loss": "hinge"}),
    "LinearRegression": (learning.LinearRegression, BOUNDED),
    "Ridge": (learning.Ridge, BOUNDED),
    "QuantileRegressor": (learning.QuantileRegressor, {**BOUNDED, "quantile": 0.9}),
    "AdditiveClassifier": (learning.AdditiveClassifier, {**CLASSIFIED, "data_norm": None, "columns": (-1, 1)}),
    "AdditiveRegressor": (learning.AdditiveRegressor, {**BOUNDED, "data_norm": None, "columns": (-1, 1)}),
    "Covariance": (learning.Covariance, BOXED),
    "PCA": (learning.PCA, BOXED),
    "StandardScaler": (learning.StandardScaler, BOXED),
    "GaussianNB": (learning.GaussianNB, {**BOXED, **CLASSIFIED}),
    "KMeans": (learning.KMeans, {**BOXED, "n_clusters": 2}),
    "Mean": (learning.Mean, {}),
    "GeometricMedian": (learning.GeometricMedian, {"steps": 5}),
}
DESCENT = learning.GradientDescent(steps=5)
SAMPLED = learning.SGD(steps=3, rate=0.3)
SOLVERS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "LogisticRegression": [
        ("auto", {}), ("auto", {"size": COUNT}), ("auto", {"size": 10**6}), ("auto", {"delta": 0}),
        ("auto", {"epsilon": 1e-6}), ("auto", {"epsilon": 1e5}), ("objective", {}), ("objective", {"size": 1}),
        ("objective", {"delta": 0}), ("output", {}), ("output", {"size": 1}), ("output", {"delta": 0}),
        (DESCENT, {}), (SAMPLED, {"size": COUNT}), (learning.SGD(steps=3, rate=0.3, norm=1), {}),
        (learning.FrankWolfe(steps=5, radius=3.0), {}), ("exponential", {"size": COUNT, "fit_intercept": False}),
        ("exponential", {"size": 1, "fit_intercept": False}),
        ("auto", {"relation": "replace"}), ("auto", {"fit_intercept": False}),
        ("whitened", {"C": 1e-3}), ("auto", {"class_weight": {0: 1, 1: 3}}),
        ("objective", {"relation": "replace"}), ("output", {"relation": "replace"}),
        ("phased", {"relation": "replace"}), ("localisation", {"relation": "replace"}),
        ("last_iterate", {"relation": "replace"}), (learning.FTRL(steps=4, radius=3.0), {"relation": "replace"}),
        (learning.TextbookGradientDescent(radius=1.0), {"relation": "replace"}),
    ],
    "multinomial": [("auto", {}), ("auto", {"size": COUNT}), ("output", {}), ("output", {"size": 1}), (DESCENT, {}),
                    ("localisation", {"relation": "replace"}), ("auto", {"relation": "replace"}),
                    ("auto", {"delta": 0})],
    "LinearSVC": [("auto", {}), ("auto", {"size": COUNT}), ("output", {}), (DESCENT, {}),
                  ("localisation", {"relation": "replace"})],
    "hinge": [("auto", {}), ("phased", {"relation": "replace"}), ("output", {}), (DESCENT, {}),
              ("exponential", {"size": COUNT, "fit_intercept": False})],
    "LinearRegression": [("auto", {}), ("auto", {"size": COUNT}), ("statistics", {}), (DESCENT, {}),
                         (SAMPLED, {}), (learning.FrankWolfe(steps=5, radius=1.0), {}),
                         ("exponential", {"size": COUNT, "fit_intercept": False}),
                         ("statistics", {"relation": "replace"})],
    "QuantileRegressor": [("auto", {}), ("phased", {"relation": "replace"})],
    "Ridge": [("auto", {}), ("auto", {"relation": "replace", "fit_intercept": False}), ("statistics", {"alpha": 1e-6})],
    "AdditiveClassifier": [("auto", {}), ("auto", {"size": 10**4}), ("auto", {"classes": [0, 1, 2]})],
    "AdditiveRegressor": [("auto", {}), ("auto", {"relation": "replace"})],
    "Covariance": [("auto", {}), ("auto", {"relation": "replace"})],
    "PCA": [("auto", {"n_components": 1}), ("auto", {"size": COUNT})],
    "StandardScaler": [("auto", {}), ("auto", {"relation": "replace"})],
    "GaussianNB": [("auto", {}), ("auto", {"classes": [0, 1, 2]}), ("auto", {"relation": "replace"})],
    "KMeans": [("auto", {}), ("auto", {"relation": "replace"}), ("auto", {"n_clusters": 40})],
    "Mean": [("auto", {}), ("auto", {"delta": 0}), ("auto", {"size": COUNT, "center": 5.0}),
             ("auto", {"relation": "replace"})],
    "GeometricMedian": [("auto", {}), ("gradient_descent", {}), ("exponential", {"size": COUNT}),
                        ("auto", {"relation": "replace"})],
}  # fmt: skip


def model_of(name: str, **changes: Any) -> Any:
    kind, known = MODELS[name]
    return kind(**{"epsilon": 2.0, "delta": 1e-5, "data_norm": 1.2, **known, **changes})


UNLABELLED = ("Mean", "GeometricMedian", "Covariance", "PCA", "StandardScaler", "KMeans")


def released(model: Any) -> dict[str, Any]:
    """What a fit shows. Which solver `auto` takes is noise where it follows a noisy count."""
    names = (
        "coef_", "intercept_", "location_", "classes_", "event_", "n_features_in_", "feature_names_in_", "covariance_",
        "correlation_", "deviation_", "components_", "explained_variance_", "mean_", "scale_", "theta_", "var_",
        "class_prior_", "cluster_centers_", "size_",
    )  # fmt: skip
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return found | {"repr": repr(model), "state": sorted(vars(model))}


def fit(name: str, table: str, solver: Any, changes: dict[str, Any]) -> Callable[[World, Any], Any]:
    own = OWN if name == "multinomial" else TWO
    relation = changes.get("relation", "add_remove")

    def call(world: World, unit: Any) -> Any:
        from deniable.guarantees import ApproxDP
        from deniable.units import Relation

        budget = ApproxDP(10**7, 1e-2, relation=Relation(relation))
        ledger = world.ledger(unit="row", budget=budget)
        rows = records(own, unit, relation=relation)
        model = model_of(name, solver=solver, ledger=ledger, **changes)
        if name in UNLABELLED:
            model.fit(TABLES[table](rows), sample_weight=weights(rows))
        else:
            model.fit(TABLES[table](rows), labels(rows, table), sample_weight=weights(rows))
        return released(model)

    return call


def fits() -> list[EntryPoint]:
    entries = []
    for name, solvers in SOLVERS.items():
        for place, (solver, changes) in enumerate(solvers):
            called = solver if isinstance(solver, str) else repr(solver)
            said = "".join(f", {key}={value}" for key, value in changes.items())
            tables = list(TABLES) if place == 0 else [list(TABLES)[place % len(TABLES)]]
            for table in tables:
                entries.append(
                    EntryPoint(
                        f"{name}.fit, {called}{said}, {table}",
                        (f"deniable.learning.{MODELS[name][0].__name__}.fit",),
                        UNITS,
                        fit(name, table, solver, changes),
                        mix=mix,
                        sample=5 if place == 0 else 2,
                    )
                )
    return entries


# what is computed for every record: the rows of D that are always there must not change at all


def own_rows(values: Any, count: int = COUNT) -> Any:
    return np.asarray(values)[: count - 1].tolist()


def apply(name: str, method: str, table: str) -> Callable[[World, Any], Any]:
    def call(world: World, unit: Any) -> Any:
        rows = records(TWO, unit)
        model = model_of(name, solver="auto", source=world.source)
        fitted = (
            pd.DataFrame(np.zeros((9, 2)), columns=["a", "b"]) if table in ("frame", "polars") else np.zeros((9, 2))
        )
        model.fit(fitted, np.zeros(9))
        if method == "score":
            return model.score(TABLES[table](rows), labels(rows, table), sample_weight=weights(rows))
        return repr(own_rows(getattr(model, method)((TABLES | LISTS)[table](rows))))

    return call


def fit_and_apply(name: str, method: str) -> Callable[[World, Any], Any]:
    """The shape of what a fit and its use on the same records give; the values are noise."""

    def call(world: World, unit: Any) -> Any:
        rows = TABLES["objects"](records(TWO, unit))
        model = model_of(name, ledger=world.ledger(unit="row"))
        found = np.asarray(getattr(model, method)(rows))
        return found.shape[1:], str(found.dtype), len(found) == len(rows)

    return call


METHODS = {
    "PCA": ("transform",),
    "StandardScaler": ("transform",),
    "GaussianNB": ("predict", "predict_proba", "predict_log_proba", "score"),
    "KMeans": ("predict", "transform"),
    "AdditiveClassifier": ("decision_function", "predict", "predict_proba", "predict_log_proba", "score"),
    "AdditiveRegressor": ("predict", "score"),
    "LogisticRegression": ("decision_function", "predict", "predict_proba", "predict_log_proba", "score"),
    "LinearSVC": ("decision_function", "predict", "score"),
    "LinearRegression": ("predict", "score"),
    "Ridge": ("predict", "score"),
    "QuantileRegressor": ("predict", "score"),
}
ENCODERS = {
    "RangeScaler": learning.RangeScaler(bounds=[(-1, 1), (0, 2)]),
    "BinEncoder": learning.BinEncoder(edges=[[-0.5, 0.5], [0.0]]),
    "CategoryEncoder": learning.CategoryEncoder(categories=[[1.0, "a", "x"], [0.0, "b"]]),
    "HatEncoder": learning.HatEncoder(bounds=[(-1, 1), (0, 2)], pieces=3),
    "Columns": learning.Columns(a=(-1, 1), b=[0.5, "x"], c=None),
}


TRANSFORMS = ("fit", "transform", "fit_transform")
MORE = {"Columns": ("encode",)}


def encode(name: str, table: str) -> Callable[[World, Any], Any]:
    own = TWO[:1] if table in LISTS else TWO  # so that there is a tie, or no record at all

    def call(world: World, unit: Any) -> Any:
        encoder = ENCODERS[name]
        rows = (TABLES | LISTS)[table](records(own, unit))
        once = encoder.fit_transform(rows)
        again = encoder.fit(rows).transform(rows)
        names = encoder.get_feature_names_out().tolist()
        return repr((own_rows(once, len(own)), own_rows(again, len(own)), names, once.dtype, once.shape[1]))

    return call


def cross_validate(world: World, unit: Any) -> Any:
    rows = records(TWO, unit)
    model = model_of("LogisticRegression", solver=DESCENT, ledger=world.ledger(unit="row"))
    return learning.cross_val_score(model, TABLES["objects"](rows), labels(rows, "objects"), cv=3)


ENTRY_POINTS = [
    *fits(),
    *(
        EntryPoint(
            f"{name}.{method}, {table}",
            (f"deniable.learning.{name}.{method}",),
            UNITS if method == "score" else VALUES,
            apply(name, method, table),
            mix=mix,
            sample=4,
        )
        for name, methods in METHODS.items()
        for method in methods
        for table in ("objects", "text", "frame", *(LISTS if method == "predict" else ()))
    ),
    *(
        EntryPoint(
            f"{name}, {table}",
            tuple(f"deniable.learning.{name}.{method}" for method in (*TRANSFORMS, *MORE.get(name, ()))),
            VALUES,
            encode(name, table),
            mix=mix,
            sample=8,
        )
        for name in ENCODERS
        for table in (*TABLES, *LISTS)
        if table != "sparse" and (name != "Columns" or table in ("frame", "polars"))
    ),
    *(
        EntryPoint(
            f"{name}.{method}",
            (f"deniable.learning.{name}.{method}",),
            VALUES,
            fit_and_apply(name, method),
            mix=mix,
            sample=2,
        )
        for name, method in (
            ("PCA", "fit_transform"),
            ("StandardScaler", "fit_transform"),
            ("KMeans", "fit_transform"),
            ("KMeans", "fit_predict"),
        )
    ),
    EntryPoint("cross_val_score", ("deniable.learning.cross_val_score",), UNITS, cross_validate, mix=mix, sample=4),
]


def solvers_of(name: str) -> set[str]:
    """The names of the solvers that are tried with a model: for the house."""
    return {solver.name if isinstance(solver, Method) else solver for solver, _ in SOLVERS[name]}
