"""What stands around a private model and uses the records without paying: searches, folds, fitted transformers.

Warnings depend on public structure alone: how often an estimator was cloned, and which steps come before it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

from deniable.errors import PrivacyWarning

_SHAPE_ONLY = frozenset({"PolynomialFeatures", "RBFSampler", "AdditiveChi2Sampler", "SkewedChi2Sampler"})
"""scikit-learn's transformers that learn the number of columns and nothing else."""

_DECLARED = frozenset({"OneHotEncoder", "OrdinalEncoder"})
"""scikit-learn's encoders that learn nothing where their categories are declared."""


def warn_of_copies(model: Any) -> None:
    """Call when an estimator was cloned: a second copy without a ledger is a second fit that nobody adds up.

    Searches, folds and ensembles of scikit-learn clone an estimator once for every fit, in the process that started
    them. So this is said there, whatever runs in parallel.
    """
    if model.ledger is None and model._copies == 2 and model._private:
        warnings.warn(
            f"this {type(model).__name__} is cloned again, as searches, cross-validation and ensembles do: every copy "
            f"that is fitted is a private fit of its own, of epsilon={model.epsilon}, their costs add up for a record, "
            "and scores on held-out records are exact, without noise. Give it a ledger (ledger=...) that adds the fits "
            "up, or search on public data",
            PrivacyWarning,
            stacklevel=4,
        )


def warn_of_fitted_steps(model: Any) -> None:
    """Call in `fit`: warn of transformers that were fitted to the same records before them, without privacy."""
    steps = sorted({type(step).__name__ for step in _steps_before(model) if _learns(step)})
    if steps:
        warnings.warn(
            f"{', '.join(steps)} before this {type(model).__name__} learns from the same records without privacy: the "
            "whole is not private. Use deniable.learning.RangeScaler, BinEncoder or CategoryEncoder on declared "
            "ranges, or fit that step on public data beforehand. A transformer of your own that learns nothing says so "
            "by its tag requires_fit=False",
            PrivacyWarning,
            stacklevel=3,
        )


def _steps_before(model: Any) -> Iterator[Any]:
    """The transformers before a model in the pipelines that are fitting it now.

    A pipeline calls `fit` of its last step and tells it nothing about the others, so the calls under way are looked
    at. No data are.
    """
    pipeline = getattr(sys.modules.get("sklearn.pipeline"), "Pipeline", None)
    target = getattr(sys.modules.get("sklearn.compose"), "TransformedTargetRegressor", None)
    inner, frame = [model], sys._getframe()
    while (frame := frame.f_back) is not None:  # type: ignore[assignment]
        if not frame.f_code.co_name.startswith("fit"):
            continue
        caller = frame.f_locals.get("self")
        if pipeline is not None and isinstance(caller, pipeline):
            for _, step in caller.steps:
                if any(step is one for one in inner):
                    break
                yield from _parts(step)
        elif target is not None and isinstance(caller, target) and caller.transformer is not None:
            yield from _parts(caller.transformer)
        if caller is not None:
            inner.append(caller)


def _parts(step: Any) -> Iterator[Any]:
    """A transformer, or those it is made of."""
    for name in ("steps", "transformer_list", "transformers"):
        if isinstance(getattr(step, name, None), list | tuple):
            for part in getattr(step, name):
                yield from _parts(part[1])
            return
    yield step


def _learns(step: Any) -> bool:
    """Whether a transformer takes more from the records than how many columns they have."""
    if step is None or isinstance(step, str) or not hasattr(step, "fit"):
        return False
    kind = type(step)
    if kind.__module__.startswith("deniable.learning."):
        return False
    if kind.__module__.startswith("sklearn."):
        if kind.__name__ in _SHAPE_ONLY:
            return False
        if kind.__name__ in _DECLARED:
            return isinstance(step.categories, str)
    from sklearn.utils import get_tags

    return bool(get_tags(step).requires_fit)
