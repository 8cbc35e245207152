"""What a question asks for, without its names and values: a public page must not repeat what an analyst typed.

A purpose that begins like SQL is read word by word. The words of SQL and the names of its functions stay; every other
name, every number and everything in quotes becomes an ellipsis.

>>> redact("SELECT city, COUNT(*) AS n FROM visits WHERE name = 'Ann' AND age > 60 GROUP BY city")
'SELECT …, COUNT(*) AS … FROM … WHERE … = … AND … > … GROUP BY …'
>>> aggregates("SELECT city, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY city")
('count', 'average')
>>> redact("visits by city")  # a person's words
'visits by city'
"""

from __future__ import annotations

import re

_AGGREGATES = {
    "COUNT": "count",
    "SUM": "sum",
    "AVG": "average",
    "MEAN": "average",
    "MEDIAN": "quantile",
    "QUANTILE": "quantile",
    "PERCENTILE_CONT": "quantile",
    "PERCENTILE_DISC": "quantile",
    "APPROX_QUANTILES": "quantile",
    "MIN": "quantile",
    "MAX": "quantile",
    "VARIANCE": "spread",
    "VAR_POP": "spread",
    "VAR_SAMP": "spread",
    "STDDEV": "spread",
    "STDDEV_POP": "spread",
    "STDDEV_SAMP": "spread",
}
"""The kind of statistic that an SQL function gives; `Texts.statistics` has a word for each."""

_WORDS = re.compile(
    r"SELECT|WITH|AS|FROM|WHERE|GROUP|BY|HAVING|ORDER|ASC|DESC|LIMIT|AND|OR|NOT|IN|IS|NULL|TRUE|FALSE|I?LIKE|ESCAPE"
    r"|BETWEEN|CASE|WHEN|THEN|ELSE|END|JOIN|INNER|LEFT|RIGHT|FULL|CROSS|OUTER|ON|USING|UNION|ALL|DISTINCT|FILTER|WITHIN"
    r"|VALUES|CAST|EXTRACT|INTERVAL|ROUND|FLOOR|CEIL|ABS|COALESCE|NULLIF|LOWER|UPPER|SUBSTRING|DIFFERENTIAL_PRIVACY"
    rf"|OPTIONS|{'|'.join(_AGGREGATES)}"
)

_TOKEN = re.compile(
    r"""'(?:[^']|'')*(?:'|$) | "(?:[^"]|"")*(?:"|$) | `[^`]*(?:`|$) | (?:--[^\n]*|/\*.*?(?:\*/|$))"""
    r"""| [^\W\d]\w* | (?:\d|\.\d)[\w.]* | \s+ | .""",
    re.VERBOSE | re.DOTALL,
)
_MARKS = frozenset("(),*=<>!+-/%|;.:")


def is_sql(purpose: str) -> bool:
    """Whether a purpose is a query rather than a person's words."""
    return re.match(r"\s*\(*\s*(?:select|with)\b", purpose, re.IGNORECASE) is not None


def redact(purpose: str) -> str:
    """The purpose; of a query only its form."""
    if not is_sql(purpose):
        return purpose
    words: list[str] = []
    for match in _TOKEN.finditer(purpose):
        token = match[0]
        if token.isspace():
            word = " "
        elif _WORDS.fullmatch(token.upper()):
            word = token.upper()
        else:
            word = token if token in _MARKS else "…"
        if word != (words[-1] if words else " ") or word not in " …":
            words.append(word)
    text = "".join(words)
    return re.sub(r"…(?:[ .]*…)+", "…", text).strip()


def aggregates(purpose: str) -> tuple[str, ...]:
    """The kinds of statistics that a query asks for, each once, in order; none for a person's words."""
    if not is_sql(purpose):
        return ()
    tokens = [match[0].upper() for match in _TOKEN.finditer(purpose)]
    return tuple(dict.fromkeys(_AGGREGATES[token] for token in tokens if token in _AGGREGATES))
