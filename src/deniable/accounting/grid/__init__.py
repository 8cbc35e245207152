"""The grid engine."""

from deniable.accounting.grid.curve import GridCurve, GridDirection

__all__ = ["GridCurve", "GridDirection"]
