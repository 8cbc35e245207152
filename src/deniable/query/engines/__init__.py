"""Engines that run bounded SQL. Each is one file, and the only one that imports its library."""

from deniable.query.engines.base import Engine
from deniable.query.engines.duckdb import DuckDB

__all__ = ["DuckDB", "Engine"]
