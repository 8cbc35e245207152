"""Ask tables privately: SQL in, bounded SQL to the engine, noise in our process, an interval on every number.

The way of a query, one module each: `parsing` (text to tree), `reading` and `predicates` (tree to question, by
whitelist), `grids` and `keys` (what was declared), `aggregates` and `measures` (which integers, and how far one unit
moves them), `split` (ε), `bounding` (the SQL that runs), `planning` (all of it, frozen), `engines`, `release`.
"""

from deniable.query.limits import AtMost
from deniable.query.planning import QueryPlan
from deniable.query.release import Release, Value
from deniable.query.session import Session

__all__ = ["AtMost", "QueryPlan", "Release", "Session", "Value"]
