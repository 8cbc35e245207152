"""A linear support vector machine for two classes.

>>> import numpy as np
>>> X = np.array([[-1.0], [1.0]] * 500); y = np.array(["no", "yes"] * 500)
>>> model = LinearSVC(epsilon=1, delta=1e-6, data_norm=1.0, classes=["no", "yes"]).fit(X, y)
>>> model.predict([[0.9]]).tolist()
['yes']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deniable.errors import InvalidArgument
from deniable.learning.estimators.base import magnitude
from deniable.learning.estimators.models import LinearClassifier
from deniable.learning.losses import Hinge, SmoothedHinge
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers import GradientDescent
from deniable.learning.optimizers.base import Method


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(LinearClassifier):
    """Minimises Σ hinge + |coefficients|²/(2C) under (epsilon, delta)-DP.

    `loss` is "smoothed_hinge" (smooth within `width` of the corner) or "hinge" (solvers that need no smoothness). The
    other parameters are those of `LogisticRegression`; there are two classes.
    """

    loss: str = "smoothed_hinge"
    width: Any = 0.5

    def _methods(self) -> Sequence[Method]:
        return (GradientDescent(), *super()._methods())

    def _loss(self, classes: int) -> LinearLoss:
        if classes != 2:
            raise InvalidArgument("classes", self.classes, "two labels", "LogisticRegression takes more.")
        if self.loss not in ("hinge", "smoothed_hinge"):
            raise InvalidArgument("loss", self.loss, "'smoothed_hinge' or 'hinge'")
        return Hinge() if self.loss == "hinge" else SmoothedHinge(magnitude("width", self.width))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
