"""Ask tables privately: SQL in, bounded SQL to the engine, noise in our process, an interval on every number.

The way of a query, one module each: `requests` (what was said, and the rules for what was not), `parsing` (text to
tree), `reading` (tree to question, by whitelist) with `sources` (FROM, JOIN), `expressions`, `predicates` and
`finishing` (HAVING, ORDER BY, LIMIT), `grids` and `keys` (what was declared), `aggregates` and `measures` (which
integers, and how far one unit moves them), `split` (ε), `bounding` with `choice`, `portable`, `shortcut` and `cells`
(the SQL that runs), `planning` (all of it, frozen), `engines`, `answering` with `thresholds` (noise, and which groups
are shown), `release`. Around it: `accuracy` (ε from an error), `surveys` and `staging` (bounds and limits found
privately, a diagnosis), `publication` (many tables, one charge), `explanation` and `notebook`.
"""

from deniable.query.choice import AtMost
from deniable.query.engines.checked import convert
from deniable.query.planning import QueryPlan
from deniable.query.publication import Publication
from deniable.query.release import Release, Value
from deniable.query.session import Session
from deniable.query.staging import StagedPlan

__all__ = ["AtMost", "Publication", "QueryPlan", "Release", "Session", "StagedPlan", "Value", "convert"]
