"""Cross-validation that says what it costs.

k folds fit the estimator k times on overlapping records: the fits compose, and a record is in k − 1 of them. The scores
themselves are exact statistics of held-out records, without noise: they are private data. Use it on public or synthetic
data, or with the budget for it and for the holder's own eyes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable.errors import PrivacyWarning
from deniable.learning.reading import read_columns, read_labels


def cross_val_score(estimator: Any, X: Any, y: Any = None, *, cv: Any = 5, **keywords: Any) -> NDArray[np.float64]:
    """The score of every fold, with a warning about their privacy cost.

    Args:
        estimator: a private model, or a pipeline that ends in one.
        X: the records.
        y: their labels.
        cv: how many folds; record i is in fold i mod cv, whatever its label. Or a splitter of scikit-learn, which may
            look at labels and refuse some.
        keywords: what `sklearn.model_selection.cross_val_score` takes besides.
    """
    from sklearn.model_selection import cross_val_score as scores

    if isinstance(X, list | tuple):
        read_columns(X)  # refused: a list does not say how many columns it has
    if y is not None:
        read_labels(y, X.shape[0] if hasattr(X, "shape") else len(X))  # scikit-learn would tell both lengths
    folds = Turns(cv) if not hasattr(cv, "get_n_splits") else cv
    count = folds.get_n_splits(X, y)
    epsilon = getattr(estimator, "epsilon", None)
    each = "" if epsilon is None else f" of epsilon={epsilon}"
    warnings.warn(
        f"cross-validation makes {count} private fits{each}; a record is in {count - 1} of them, their costs add "
        "up, and the scores are computed from held-out records without any noise",
        PrivacyWarning,
        stacklevel=2,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this .* is cloned again", PrivacyWarning)  # it was just said
        return np.asarray(scores(estimator, X, y, cv=folds, **keywords))


class Turns:
    """Folds by turns: record i is in fold i mod `folds`. Neither labels nor the number of records can refuse it."""

    def __init__(self, folds: Any) -> None:
        self.folds = _checks.count("cv", folds, least=2)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many folds."""
        return self.folds

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        """The places of the records to fit and of those held out, for every fold."""
        turns = np.arange(X.shape[0] if hasattr(X, "shape") else len(X)) % self.folds
        for fold in range(self.folds):
            yield np.flatnonzero(turns != fold), np.flatnonzero(turns == fold)
