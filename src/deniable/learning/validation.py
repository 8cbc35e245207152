"""Cross-validation that says what it costs.

k folds fit the estimator k times on overlapping records: the fits compose, and a record is in k − 1 of them. The scores
themselves are computed from held-out records without noise. Use it on public or synthetic data, or with the budget
for it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def cross_val_score(estimator: Any, X: Any, y: Any = None, *, cv: int = 5, **keywords: Any) -> NDArray[np.float64]:
    """scikit-learn's scores of every fold, with a warning about their privacy cost."""
    from sklearn.model_selection import cross_val_score as scores

    folds = cv if isinstance(cv, int) else cv.get_n_splits(X, y)
    epsilon = getattr(estimator, "epsilon", None)
    each = "" if epsilon is None else f" of epsilon={epsilon}"
    warnings.warn(
        f"cross-validation makes {folds} private fits{each}; a record is in {folds - 1} of them, their costs add "
        "up, and the scores are computed from held-out records without any noise",
        UserWarning,
        stacklevel=2,
    )
    return np.asarray(scores(estimator, X, y, cv=cv, **keywords))
