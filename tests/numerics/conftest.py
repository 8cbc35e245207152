"""Reference numbers of 120 digits."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath
import pytest


@pytest.fixture(autouse=True, scope="module")
def _digits() -> Iterator[None]:
    """High precision for this module, and for no other."""
    with mpmath.workdps(120):
        yield
