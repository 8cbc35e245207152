"""No word of a query is lost: a word put anywhere into a query either changes its tree, or is refused. Every third word
is tried at every place."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from deniable.errors import QueryError
from deniable.query.parsing import _trees, parse
from deniable.query.values import listed

QUERIES = [
    "SELECT city , COUNT ( * ) AS n , SUM ( cost ) AS s FROM visits WHERE age > 3 AND city = 'B' GROUP BY city",
    "SELECT YEAR ( day ) AS y , MEDIAN ( cost * 2 ) AS m FROM visits JOIN cities USING ( city ) GROUP BY 1 "
    "HAVING m > 3 ORDER BY y DESC LIMIT 3",
    "SELECT COUNT ( DISTINCT CASE WHEN age > 3 THEN city ELSE 'x' END ) AS n , AVG ( CAST ( cost AS DOUBLE ) ) AS a , "
    "QUANTILE_CONT ( cost , 0.9 ) AS q FROM visits AS v LEFT JOIN cities AS c ON v . city = c . city",
    "SELECT MIN ( DATE_DIFF ( 'day' , day , DATE '2026-01-01' ) ) AS d , "
    "PERCENTILE_CONT ( 0.5 ) WITHIN GROUP ( ORDER BY cost ) AS p FROM visits "
    "WHERE EXTRACT ( month FROM day ) IN ( 1 , 2 )",
]
WORDS = [
    "ALL", "ANTI", "ANY", "ARRAY", "ASC", "ASOF", "AT", "BY", "COLLATE", "COLUMNS", "CROSS", "CUBE", "CURRENT",
    "DEFAULT", "DESC", "DISTINCT", "EXCEPT", "EXCLUDE", "EXISTS", "EXPLAIN", "FETCH", "FILTER", "FINAL", "FIRST",
    "FOR", "FULL", "GLOB", "GROUPING", "HAVING", "IGNORE", "ILIKE", "INNER", "INTERSECT", "INTO", "LAST",
    "LATERAL", "LIMIT", "MATERIALIZED", "NATURAL", "NEXT", "NULLS", "OF", "OFFSET", "ONLY", "ORDER", "OUTER",
    "OVER", "OVERLAPS", "PARTITION", "PIVOT", "POSITIONAL", "PRECEDING", "QUALIFY", "RECURSIVE", "REPLACE",
    "RESPECT", "RIGHT", "ROLLUP", "ROW", "ROWS", "SAMPLE", "SEMI", "SETS", "SIMILAR", "SOME", "STRAIGHT",
    "SYMMETRIC", "TABLE", "TABLESAMPLE", "TEMPORARY", "TIES", "TO", "TOP", "TRUE", "UNBOUNDED", "UNION", "UNIQUE",
    "UNNEST", "UNPIVOT", "USING", "VALUES", "WINDOW", "WITH", "WITHIN", ";", "+", "-", "/", "%", ".", ":", "::",
    "?", "@", "#", "$1", "[", "]", "{", "}", "(", ")", "*", "~", "!", "&", "|", "^", "--", "/**/", "3", "'x'",
    '"x"', "x",
]  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_no_word_is_lost(sql: str) -> None:
    tokens = sql.split(" ")
    before = parse(sql)
    lost = []
    for place in range(len(tokens) + 1):
        for word in WORDS[place % 3 :: 3]:
            changed = " ".join([*tokens[:place], word, *tokens[place:]])
            try:
                after = parse(changed)
            except QueryError:
                continue
            comment = word == "/**/" or (word in ("--", ";") and place == len(tokens))
            if after == before and not comment and word != "ASC":  # the default, in so many words
                lost.append(changed)
    assert lost == []


@pytest.mark.parametrize(
    ("sql", "place"), [("SELECT COUNT(*)\n  FROM visits\n QUALIFY 3", (3, 2)), ("SELECT SUM(ALL cost) FROM v", (1, 12))]
)
def test_places(sql: str, place: tuple[int, int]) -> None:
    with pytest.raises(QueryError) as caught:
        parse(sql)
    assert (caught.value.line, caught.value.column) == place


LONG_LISTS = [
    ", ".join(map(str, range(200))),
    ", ".join(f"'it''s {i}'" for i in range(200)),
    ", ".join(["1.5", "1e3", "'a'", "007", *map(str, range(100))]),
    ", ".join(["-1", "DATE '2026-01-31'", "NULL", *map(str, range(100))]),
    ", ".join([*map(str, range(100)), "2 + 3"]),
    ",".join(f"/* {i} */ {i}" for i in range(100)),
]


@pytest.mark.parametrize("values", LONG_LISTS, ids=range(len(LONG_LISTS)))
@pytest.mark.parametrize(
    "around",
    [
        "x IN ({})",
        "NOT x NOT IN ({0}) AND (y IN (1, 2) OR x IN ({0}))",
        "f(x) IN ({})",
        "POSITION('a' IN ({0})) > 0 AND x IN ({0})",
    ],
)
def test_a_long_list_is_read_as_by_sqlglot(values: str, around: str) -> None:
    """Values, kinds and places are the same."""
    sql = f"SELECT COUNT(*) FROM t\nWHERE {around.format(values)}"
    trees = [_trees(sqlglot.tokenize(sql, read="duckdb"), sql)[0], sqlglot.parse_one(sql, read="duckdb")]
    assert trees[0] == trees[1]
    nodes = [
        [(type(node), node.sql(comments=False), node.meta) for node in tree.walk()]
        for tree in trees
        if tree is not None
    ]
    assert nodes[0] == nodes[1]


@pytest.mark.parametrize("end", ["", ",", ", 5", ", 5 6)", ", 5) 6", "))", ") AND"])
def test_a_long_list_that_is_no_list_is_refused(end: str) -> None:
    with pytest.raises(QueryError):
        parse(f"SELECT COUNT(*) FROM t WHERE x IN ({', '.join(map(str, range(99)))}{end}")


def test_every_letter_of_a_long_list_is_a_letter() -> None:
    """A list is written as one text, split by a letter that no value has; or value by value, where all are used."""
    texts = ["'", "\\", "a|b;~", "", *map(str, range(60))]
    written = [listed(texts, "VARCHAR"), listed([*texts, "|;~\x1f\x1e\x1d"], "VARCHAR")]
    assert [text.startswith("SELECT") for text in written] == [True, False]
    found = [
        duckdb.execute(f"SELECT x FROM UNNEST($1) AS r(x) WHERE x IN ({text})", [texts]).fetchall() for text in written
    ]
    assert found == [[(text,) for text in texts]] * 2
