"""What stands around a private model: ledgers that are cloned with it, searches, and steps that learn without privacy.

Every warning depends on public structure alone.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate, learning_curve
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, PolynomialFeatures, StandardScaler

from deniable.errors import InvalidArgument, PrivacyWarning
from deniable.guarantees import ApproxDP
from deniable.learning import (
    CategoryEncoder,
    GradientDescent,
    LinearRegression,
    LogisticRegression,
    RangeScaler,
    cross_val_score,
)
from deniable.ledger import Ledger

X = np.random.default_rng(2).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


def logistic(**changes: Any) -> Any:
    known = {"epsilon": 0.1, "delta": 1e-6, "data_norm": 3, "classes": [0, 1], "solver": GradientDescent(steps=2)}
    return LogisticRegression(**(known | changes))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "people.ledger", unit="row", budget=ApproxDP(4, 1e-4))


# ledgers


def test_a_ledger_survives_clones_searches_and_pickles(ledger: Ledger) -> None:
    model = logistic(ledger=ledger)
    assert clone(model).ledger is ledger
    GridSearchCV(model, {"C": [0.1, 1]}, cv=3).fit(X, Y)
    assert len(list(ledger.charges())) == 7
    for again in (pickle.loads(pickle.dumps(model.fit(X, Y))), copy.deepcopy(model)):
        assert (again.coef_ == model.coef_).all()
        again.fit(X, Y)
        again.ledger.close()
    assert len(list(ledger.charges())) == 10
    ledger.close()


def test_a_ledger_object_is_charged_from_other_processes(ledger: Ledger) -> None:
    GridSearchCV(logistic(ledger=ledger), {"C": [0.1, 1]}, cv=2, n_jobs=2).fit(X, Y)
    assert len(list(ledger.charges())) == 5
    ledger.close()


def test_a_password_is_not_kept_in_a_model() -> None:
    for address in ("postgresql://clerk:horse@host/db#x", "postgres://host/db?password=horse", "postgresql://a:b@h/d"):
        with pytest.raises(InvalidArgument, match=r"Ledger\.open") as caught:
            logistic(ledger=address).fit(X, Y)
        assert "horse" not in str(caught.value)


# copies


SEARCHES: dict[str, Callable[[Any], Any]] = {
    "GridSearchCV": lambda model: GridSearchCV(model, {"C": [0.1, 1]}, cv=2).fit(X, Y),
    "GridSearchCV, one candidate": lambda model: GridSearchCV(model, {}, cv=2, refit=False).fit(X, Y),
    "GridSearchCV of a pipeline": lambda model: GridSearchCV(
        make_pipeline(RangeScaler(bounds=(-3, 3)), model), {"logisticregression__C": [0.1, 1]}, cv=2
    ).fit(X, Y),
    "cross_validate": lambda model: cross_validate(model, X, Y, cv=2),
    "cross_validate, two processes": lambda model: cross_validate(model, X, Y, cv=2, n_jobs=2),
    "cross_val_predict": lambda model: cross_val_predict(model, X, Y, cv=2),
    "learning_curve": lambda model: learning_curve(model, X, Y, cv=2, train_sizes=[0.5]),
    "OneVsRestClassifier": lambda model: OneVsRestClassifier(model).fit(X, Y + (X[:, 1] > 0)),
    "BaggingClassifier": lambda model: BaggingClassifier(model, n_estimators=2).fit(X, Y),
    "a loop": lambda model: [clone(model).fit(X, Y) for _ in range(2)],
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_warn_without_a_ledger(name: str) -> None:
    with pytest.warns(PrivacyWarning, match=r"costs add up .* Give it a ledger") as caught:
        SEARCHES[name](logistic())
    assert sum("cloned again" in str(one.message) for one in caught) == 1


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_with_a_ledger_do_not_warn(name: str, ledger: Ledger) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        SEARCHES[name](logistic(ledger=ledger.place))
    assert len(list(ledger.charges())) >= 2
    ledger.close()


def test_one_fit_of_a_model_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        clone(logistic()).fit(X, Y)
        VotingClassifier([("one", logistic()), ("two", logistic())]).fit(X, Y)
        model = logistic()
        model.fit(X, Y).fit(X, Y)
        copy.deepcopy(model)
        public = logistic(epsilon=float("inf"))
        clone(public)
        clone(public)


def test_our_cross_validation_looks_at_no_label_and_no_count() -> None:
    """Folds by turns: one class, few records or one record are no reason to refuse, and nothing is counted aloud."""
    for count, labels in ((60, Y), (60, np.zeros(60)), (3, Y), (1, Y), (5, np.arange(60.0))):
        rows = X[:count]
        with pytest.warns(PrivacyWarning, match="5 private fits") as caught:
            scores = cross_val_score(logistic(), rows, labels[:count], cv=5)
        assert len(caught) == 1
        assert scores.shape == (5,)
        with pytest.raises(InvalidArgument, match="a list of rows"):
            cross_val_score(logistic(), rows.tolist(), labels[:count].tolist(), cv=5)
    with pytest.raises(InvalidArgument, match="cv"):
        cross_val_score(logistic(), X, Y, cv=1)
    with pytest.raises(InvalidArgument, match="as long as X") as wrong:
        cross_val_score(logistic(), X, Y[:-1])
    assert "59" not in str(wrong.value)


# steps before a model


class Learned(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of somebody's own."""

    def fit(self, X: Any, y: Any = None) -> Learned:
        self.middle_ = np.mean(X, axis=0)
        return self

    def transform(self, X: Any) -> Any:
        return X - self.middle_


class Stateless(Learned):
    """One that says that it learns nothing."""

    def transform(self, X: Any) -> Any:
        return np.asarray(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


FITTED = {
    "StandardScaler": StandardScaler(),
    "PCA": PCA(2),
    "VarianceThreshold": VarianceThreshold(),
    "a transformer of one's own": Learned(),
    "inside a ColumnTransformer": ColumnTransformer(
        [("a", RangeScaler(bounds=(0, 1)), [0]), ("b", StandardScaler(), [1])]
    ),
    "inside a FeatureUnion": FeatureUnion([("a", Stateless()), ("b", PCA(1))]),
    "inside a pipeline": make_pipeline(Stateless(), StandardScaler()),
}
UNFITTED = {
    "ours": RangeScaler(bounds=(-3, 3)),
    "ours, in a ColumnTransformer": ColumnTransformer(
        [("a", RangeScaler(bounds=(0, 1)), [0]), ("b", CategoryEncoder(categories=[[0, 1]]), [1]), ("c", "drop", [2])]
    ),
    "Normalizer": Normalizer(),
    "FunctionTransformer": FunctionTransformer(np.tanh),
    "PolynomialFeatures": PolynomialFeatures(2),
    "declared categories": OneHotEncoder(categories=[[0, 1]] * 3, handle_unknown="ignore", sparse_output=False),
    "one that says so": Stateless(),
    "passthrough": "passthrough",
}


@pytest.mark.parametrize("name", FITTED)
def test_a_step_that_learns_warns(name: str) -> None:
    with pytest.warns(PrivacyWarning, match="the whole is not private"):
        make_pipeline(FITTED[name], logistic()).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="the whole is not private"):
        Pipeline([("first", FITTED[name]), ("then", make_pipeline(RangeScaler(bounds=(0, 1)), logistic()))]).fit(X, Y)


@pytest.mark.parametrize("name", UNFITTED)
def test_a_step_that_learns_nothing_does_not_warn(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        make_pipeline(UNFITTED[name], logistic()).fit(X, Y)


def test_a_step_behind_the_model_or_elsewhere_does_not_warn() -> None:
    StandardScaler().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        logistic().fit(X, Y)


def test_a_search_over_such_a_pipeline_warns_of_both(ledger: Ledger) -> None:
    with pytest.warns(PrivacyWarning) as caught:
        GridSearchCV(make_pipeline(StandardScaler(), logistic()), {}, cv=2).fit(X, Y)
    assert {"cloned" in str(one.message) for one in caught} == {True, False}
    with pytest.warns(PrivacyWarning, match="StandardScaler"):
        GridSearchCV(make_pipeline(StandardScaler(), logistic(ledger=ledger)), {}, cv=2).fit(X, Y)
    ledger.close()


def test_a_transformed_target_warns() -> None:
    known = {"epsilon": 1, "delta": 1e-6, "data_norm": 3, "label_bounds": (-3, 3)}
    with pytest.warns(PrivacyWarning, match="StandardScaler"):
        TransformedTargetRegressor(LinearRegression(**known), transformer=StandardScaler()).fit(X, X[:, 0])
