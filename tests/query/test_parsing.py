"""No word of a query is lost: a word put anywhere into a query either changes its tree, or is refused. Every third word
is tried at every place."""

from __future__ import annotations

import pytest

from deniable.errors import QueryError
from deniable.query.parsing import parse

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
