"""What SQL means on a DuckDB connection that has an owner: settings and functions of the owner's change nothing.

Settings that change what an expression gives, or stop a statement, are set for our cursor alone. Macros are out of its
search path. A Python function that was registered under a built-in name would be called in place of it, and may fail on
some row, after the charge; when it is removed, DuckDB removes the built-in one with it. A connection like that is
refused, when it is opened and before every charge.
"""

from __future__ import annotations

import os
from functools import cache

import duckdb

from deniable.errors import DataError
from deniable.query.schema import listed

SETTINGS = {
    # Functions are looked up here first, so that a macro of the database cannot take the name of a built-in one.
    "search_path": "'temp'",
    "default_collation": "''",
    "pandas_analyze_sample": "0",
    "ieee_floating_point_ops": "true",
    "integer_division": "false",
    "default_order": "'ASC'",
    "default_null_order": "'NULLS_LAST'",
    # A limit of the owner's would stop a statement after the charge.
    "max_execution_time": "0",
    # Ids and keys that are whole numbers within 2²¹ of one another are grouped in an array, three times as fast. Every
    # thread has an array of its own, so many threads get smaller ones: 2²⁴ places in all.
    "perfect_ht_threshold": str(min(21, 25 - (os.cpu_count() or 1).bit_length())),
}
"""Of every session; in a database that is shared, its owner's settings stay."""

_STRANGE = ("GEOMETRY", "JSON", "INET", "VARIANT", "TIME ZONE", "STRUCT", "[]")
"""Types that bounded SQL does not have; extensions add functions of them to built-in names."""
_FUNCTIONS = f"""
SELECT DISTINCT function_name, types FROM (
    SELECT function_name, CONCAT_WS(', ', parameter_types::VARCHAR, varargs::VARCHAR) AS types FROM duckdb_functions()
    WHERE database_name = 'system' AND function_type IN ('scalar', 'aggregate')
) WHERE NOT ({" OR ".join(f"CONTAINS(types, '{word}')" for word in _STRANGE)})
"""


def settled(connection: duckdb.DuckDBPyConnection, *, shared: bool) -> duckdb.DuckDBPyConnection:
    """A connection on which what its owner has set does not change what SQL means; DataError where that cannot be."""
    try:
        if shared:
            check_functions(connection)
        if connection.execute("SELECT current_setting('default_collation')").fetchone() != ("",):
            raise DataError(
                "the DuckDB connection has a default_collation, under which different texts are equal; here texts are "
                "compared letter by letter: RESET default_collation, if that tells the people apart"
            )
        for setting, value in SETTINGS.items():
            connection.execute(f"SET SESSION {setting} = {value}")
    except DataError:
        connection.close()
        raise
    except duckdb.Error:
        connection.close()
        raise DataError(
            "the DuckDB connection's settings are locked (lock_configuration), so that what its SQL means cannot be "
            "made sure; give the path of its file, or a connection that is not locked"
        ) from None
    return connection


def check_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a connection on which a built-in name has another function beside its own, or has lost its own."""
    known = _built_in()
    changed = {name for name, _ in _signatures(connection) ^ known} & {name for name, _ in known}
    if changed:
        raise DataError(
            f"the DuckDB connection has other functions under built-in names ({listed(tuple(sorted(changed)))}), or "
            "has removed those; nothing was charged; give a connection without them, or the path of its file"
        )


@cache
def _built_in() -> frozenset[tuple[str, str]]:
    with duckdb.connect(":memory:") as fresh:
        return _signatures(fresh)


def _signatures(connection: duckdb.DuckDBPyConnection) -> frozenset[tuple[str, str]]:
    """Names of functions and types of their arguments."""
    return frozenset(connection.execute(_FUNCTIONS).fetchall())
