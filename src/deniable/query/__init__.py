"""Ask tables privately: SQL in, bounded SQL to the engine, noise in our process, an interval on every number.

The way of a query:

1. `staging.plan_query` takes the arguments of `Session.plan`, and completes or refuses what was left out.
2. `parsing` turns the text into a tree, once. `googlesql` reads what a GoogleSQL text says about privacy.
3. `reading` turns the tree into a `ParsedQuery`, by whitelist. It uses `scope` (FROM, JOIN, names) and `derived`
   (subqueries), `expressions` with `functions`, `times` and `ranges` (derived columns and conditions as total SQL), and
   `finishing` with `formulas` and `cells` (what is computed of released numbers, HAVING, ORDER BY, LIMIT).
4. `planning.plan` makes the `QueryPlan`: `grids` and `keys` are what was declared; `aggregates` and `measures` say
   which integers are needed and how far one unit moves them; `answering.shares` divides ε; `bounding` and `choice`
   write the SQL that keeps every unit within its limits.
5. `run` charges the ledger; an engine of `engines` computes the totals; `answering` adds noise and chooses groups;
   `release` holds the answer.

Around it: `accuracy` (ε from an error), `surveys` (bounds and limits found privately), `diagnosis` (what they leave
out, on which intervals rest), `describing` (one paid survey of a table), `publication` (many tables, one charge),
`explanation` (plans in words and HTML).

**To add an aggregate**, write a class in `aggregates` that names its measures and reads its answer off them, a line in
`aggregates.build`, and its SQL name in `reading.FUNCTIONS`. If it needs another integer than those of `measures`, add a
`Measure` with its `low`, `high`, `cells` and `levels`: `measures.move` derives the sensitivity from these.

**To add a function of derived columns**, add an entry to `functions.FUNCTIONS`, or a reader to `expressions.READERS`.

**To add an engine**, write a module in `engines` with a class that has the methods of `engines.base.Engine`, and let
`engines.opening` choose it. For a database elsewhere, derive it from `engines.remote.Remote` and write a `SqlWriter`,
whose rules say what the engine means otherwise; `tests/query/test_engines_alike.py` then compares its totals with
DuckDB's.
"""

from deniable.query.choice import AtMost
from deniable.query.engines.checked import convert
from deniable.query.planning import QueryPlan
from deniable.query.publication import Publication
from deniable.query.release import Release, Value
from deniable.query.session import Session
from deniable.query.staging import StagedPlan
from deniable.query.starting import open

__all__ = ["AtMost", "Publication", "QueryPlan", "Release", "Session", "StagedPlan", "Value", "convert", "open"]
