"""White box: the attacker sees every noisy gradient, and knows all records and the canary's own gradient.

What is left of a step when the others' share is taken away is noise, plus the canary's gradient where it took part. Its
projection on that gradient is the score, in units of the clipping norm: N(0, σ²) without the canary, N(1, σ²) with it,
so μ = 1/σ. The noise in all other directions measures σ; the claim's σ is not used, since it may be wrong.

>>> import numpy as np
>>> canary = np.array([2.0, 0.0])
>>> white_box_scores([[3.0, 1.0], [1.0, 5.0]], canary=canary)
array([1.5, 0.5])
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics import Bound
from deniable.auditing.statistics.shift import noncentral_lower
from deniable.errors import InvalidArgument


def white_box_scores(observed: Any, *, canary: Any) -> NDArray[np.float64]:
    """One score per observed noisy sum, for `audit_scores` or `statistics.shift_lower`."""
    sums, direction = _read(observed, canary)
    return np.asarray(sums @ direction / (direction @ direction))


def white_box_mu(observed: Any, *, canary: Any, confidence: Number = 0.95) -> Bound:
    """μ is at least this, from steps in which the canary took part and from which the others' share was taken away.

    √n·(mean score)/s has the noncentral t law with n(d − 1) degrees of freedom, if the noise is normal and the same in
    all d directions, and noncentrality √n·μ.
    """
    sums, direction = _read(observed, canary)
    steps, size = sums.shape
    if size < 2:
        raise InvalidArgument("observed", size, "noisy sums of two numbers or more, so that the noise can be measured")
    level = float(1 - _checks.inner_probability("confidence", confidence))
    scores = white_box_scores(sums, canary=direction)
    rest = sums - scores[:, None] * direction
    spread = math.sqrt(float((rest**2).sum()) / (steps * (size - 1)) / float(direction @ direction))
    if spread == 0:
        raise InvalidArgument("observed", "no noise", "noisy sums")
    root = math.sqrt(steps)
    return noncentral_lower(root * float(scores.mean()) / spread, root=root, freedom=steps * (size - 1), level=level)


def _read(observed: Any, canary: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sums = np.atleast_2d(np.asarray(observed, dtype=np.float64))
    direction = np.asarray(canary, dtype=np.float64).ravel()
    if sums.shape[1] != direction.size or not np.isfinite(sums).all() or not direction.any():
        raise InvalidArgument("canary", direction.shape, f"a gradient of {sums.shape[1]} numbers that is not zero")
    return sums, direction
