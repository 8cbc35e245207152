"""The grid engine."""

from deniable.accounting.grid.curve import Direction, GridCurve

__all__ = ["Direction", "GridCurve"]
