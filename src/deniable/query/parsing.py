"""SQL text to one sqlglot tree, with no word lost on the way.

sqlglot is lenient in places: some words it reads leave no trace in the tree (`SUM(ALL x)`). So after parsing, every
token must be accounted for: it is part of the small grammar below, or a node of the tree says that it stands where
the token stands. Anything else is refused by name and position. What the tree then contains is checked by `reading`.

>>> parse("SELECT COUNT(*) FROM visits QUALIFY 3")
Traceback (most recent call last):
...
deniable.errors.QueryError: QUALIFY is not supported (line 1, column 29)
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from deniable.errors import InvalidArgument, QueryError

DIALECT = "duckdb"

_GRAMMAR = frozenset(
    {
        TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.ALIAS, TokenType.STAR,
        TokenType.COMMA, TokenType.DOT, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.SEMICOLON, TokenType.DASH,
        TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.BETWEEN, TokenType.IS, TokenType.NULL,
        TokenType.TRUE, TokenType.FALSE, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT,
        TokenType.GTE,
    }
)  # fmt: skip

_LITERAL_PREFIX = frozenset({TokenType.DATE, TokenType.TIMESTAMP, TokenType.TIMESTAMPNTZ})
"""`DATE '2026-01-31'`: the word before a string."""

_WORDS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING})

_REMEDIES = {
    "DISTINCT": "ask for COUNT(*) with rows=1 per unit instead",
    "HAVING": "filter the release afterwards",
    "ORDER BY": "sort the release afterwards",
    "LIMIT": "all groups are released, cut the release afterwards",
    "OFFSET": "all groups are released, cut the release afterwards",
    "JOIN": "a query reads one table, join the tables beforehand",
    "UNION": "ask two queries",
    "WITH": "write one SELECT",
    "OVER": "window functions have no private form here",
    "FILTER": "put the condition into WHERE",
    "LIKE": "compare with =, IN or BETWEEN",
    "CASE": "put the condition into WHERE",
}


def parse(sql: str) -> exp.Select:
    """The tree of one SELECT; `QueryError` says what else it was, and where."""
    if not isinstance(sql, str):
        raise InvalidArgument("sql", sql, "a SQL text", "For example 'SELECT COUNT(*) FROM visits'.")
    try:
        tokens = sqlglot.tokenize(sql, read=DIALECT)
    except TokenError:
        raise QueryError("the SQL could not be split into words: a quotation mark or comment is not closed") from None
    try:
        trees = sqlglot.parse(sql, read=DIALECT, error_level=ErrorLevel.RAISE)
    except ParseError as failure:
        _check_known_words(sql, tokens)
        raise _unreadable(failure) from None
    found = [tree for tree in trees if tree is not None]
    if not found:
        raise QueryError("the SQL is empty; write one SELECT, for example SELECT COUNT(*) FROM visits")
    _check_known_words(sql, tokens)
    tree = found[0]
    if not isinstance(tree, exp.Select) or tokens[0].token_type is not TokenType.SELECT:
        raise QueryError(f"only SELECT is supported; this starts with {tokens[0].text.upper()}", line=1, column=1)
    if len(found) > 1:
        raise refusal(found[1], "a second statement is not supported; ask two queries", sql)
    _check_accounted(sql, tokens, tree)
    return tree


def refusal(node: exp.Expr, message: str, sql: str) -> QueryError:
    """A refusal at the place of a node, or of the first of its parts that has one."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    if not starts:
        return QueryError(message)
    line, column = _place(sql, min(starts))
    return QueryError(message, line=line, column=column)


def _check_known_words(sql: str, tokens: list[Token]) -> None:
    """Refuse a clause that has a remedy by its name, also where the parser stumbles over it."""
    for token in tokens:
        if token.token_type not in _GRAMMAR | _WORDS:
            word = " ".join(token.text.upper().split())
            if word in _REMEDIES:
                raise _refused(sql, token, word)


def _check_accounted(sql: str, tokens: list[Token], tree: exp.Expr) -> None:
    """Refuse the first token that is neither grammar nor the place of a node."""
    nodes = {node.meta["start"] for node in tree.walk() if "start" in node.meta}
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type in _GRAMMAR or token.start in nodes:
            continue
        if token.token_type in _LITERAL_PREFIX and following is not None and following.token_type is TokenType.STRING:
            continue
        raise _refused(sql, token, " ".join(token.text.upper().split()))


def _refused(sql: str, token: Token, word: str) -> QueryError:
    line, column = _place(sql, token.start)
    remedy = f"; {_REMEDIES[word]}" if word in _REMEDIES else ""
    return QueryError(f"{word} is not supported{remedy}", line=line, column=column)


def _unreadable(failure: ParseError) -> QueryError:
    first = failure.errors[0] if failure.errors else {}
    near, line, column = first.get("highlight"), first.get("line"), first.get("col")
    said = f"the SQL could not be read near {near!r}" if near else "the SQL could not be read"
    # sqlglot counts to the end of the word.
    start = None if column is None else max(1, column - len(near or "") + 1)
    return QueryError(f"{said}; check it in any SQL tool", line=line, column=start)


def _place(sql: str, start: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    before = sql[:start]
    return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
