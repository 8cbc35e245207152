"""Records that a model remembers if it remembers anything: pictures like no other, wrong labels, whole gradients.

A good canary is far from the data and hard to fit without having been seen. Which of several is best may be tried on
pilot runs; the runs of the audit itself must be fresh (`game.choose_canary`).

>>> checkerboard((4, 4), cell=2)
array([[0., 0., 1., 1.],
       [0., 0., 1., 1.],
       [1., 1., 0., 0.],
       [1., 1., 0., 0.]])
>>> wrong_label(9, classes=10)
0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument

Floats = NDArray[np.float64]


def checkerboard(shape: tuple[int, int], *, cell: int = 1, low: float = 0.0, high: float = 1.0) -> Floats:
    """A picture of alternating cells."""
    size = _checks.count("cell", cell)
    rows, columns = np.indices(shape) // size
    return np.where((rows + columns) % 2, float(high), float(low))


def wrong_label(label: int, *, classes: int) -> int:
    """The next class: a label that the picture does not have."""
    return (label + 1) % _checks.count("classes", classes, least=2)


def gradient_canary(dimension: int, *, clip: Number, away_from: Any = None) -> Floats:
    """A gradient of norm exactly `clip`, orthogonal to the rows of `away_from` where there is room for that.

    Put into a step by hand, it is the worst record that clipping lets through: every bit of the promise is used.
    """
    size = _checks.count("dimension", dimension)
    found = np.zeros(size)
    found[0] = 1.0
    if away_from is not None:
        others = np.atleast_2d(np.asarray(away_from, dtype=np.float64))
        if others.shape[1] != size:
            raise InvalidArgument("away_from", others.shape, f"rows of {size} numbers")
        # The last right singular vector is the direction in which the rows reach least.
        found = np.linalg.svd(others, full_matrices=True)[2][-1]
    return np.asarray(float(_checks.positive("clip", clip)) * found / np.linalg.norm(found))
