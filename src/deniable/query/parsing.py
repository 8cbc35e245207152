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

from collections import Counter
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from deniable.errors import InvalidArgument, QueryError
from deniable.query.values import is_unicode

DIALECT = "duckdb"
UNCLOSED = "the SQL could not be split into words: a quotation mark or comment is not closed"

_GRAMMAR = frozenset(
    {
        TokenType.SELECT, TokenType.GROUP_BY, TokenType.ALIAS, TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN,
        TokenType.SEMICOLON, TokenType.THEN, TokenType.ELSE, TokenType.END, TokenType.ON, TokenType.USING,
        TokenType.LEFT, TokenType.INNER, TokenType.OUTER, TokenType.L_BRACKET, TokenType.R_BRACKET,
    }
)  # fmt: skip
"""Words and signs that may stand in a query. Each either shapes the tree or is read from it by `reading`."""

_COUNTED: dict[TokenType, tuple[type[exp.Expr], ...]] = {
    TokenType.FROM: (exp.From, exp.Extract, exp.NullSafeEQ, exp.NullSafeNEQ),
    TokenType.WHERE: (exp.Where,),
    TokenType.HAVING: (exp.Having,),
    TokenType.ORDER_BY: (exp.Order,),
    TokenType.LIMIT: (exp.Limit,),
    TokenType.OFFSET: (exp.Offset,),
    TokenType.JOIN: (exp.Join,),
    TokenType.DISTINCT: (exp.Distinct, exp.NullSafeEQ, exp.NullSafeNEQ),
    TokenType.CASE: (exp.Case,),
    TokenType.WHEN: (exp.If,),
    TokenType.AND: (exp.And, exp.Between),
    TokenType.OR: (exp.Or,),
    TokenType.NOT: (exp.Not, exp.NullSafeEQ),
    TokenType.IN: (exp.In,),
    TokenType.BETWEEN: (exp.Between,),
    TokenType.IS: (exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ),
    TokenType.LIKE: (exp.Like,),
    TokenType.ILIKE: (exp.ILike,),
    TokenType.ESCAPE: (exp.Escape,),
    TokenType.INTERVAL: (exp.Interval,),
    TokenType.FILTER: (exp.Filter,),
    TokenType.WITH: (exp.With,),
    TokenType.UNION: (exp.Union,),
    TokenType.ALL: (exp.Union,),
    TokenType.VALUES: (exp.Values,),
    TokenType.NULL: (exp.Null,),
    TokenType.TRUE: (exp.Boolean,),
    TokenType.FALSE: (exp.Boolean,),
    TokenType.EQ: (exp.EQ,),
    TokenType.NEQ: (exp.NEQ,),
    TokenType.LT: (exp.LT,),
    TokenType.LTE: (exp.LTE,),
    TokenType.GT: (exp.GT,),
    TokenType.GTE: (exp.GTE,),
    TokenType.PLUS: (exp.Add,),
    TokenType.DASH: (exp.Sub, exp.Neg),
    TokenType.STAR: (exp.Star, exp.Mul),
    TokenType.SLASH: (exp.Div,),
    TokenType.MOD: (exp.Mod,),
    TokenType.DSTAR: (exp.Pow,),
    TokenType.CARET: (exp.Pow,),
    TokenType.DPIPE: (exp.DPipe,),
    TokenType.DCOLON: (exp.Cast,),
    TokenType.ASC: (exp.Ordered,),
    TokenType.DESC: (exp.Ordered,),
}
"""Words and signs of which the text may have no more than the tree has nodes of these kinds. They share what they name
alike: ASC and DESC are of one `Ordered`."""

_NAMES: dict[str, type[exp.Expr]] = {
    "MIN": exp.Min, "MAX": exp.Max, "QUANTILE_CONT": exp.PercentileCont, "QUANTILE_DISC": exp.PercentileDisc,
    "QUANTILE": exp.Quantile, "WITHIN": exp.WithinGroup, "GROUP": exp.WithinGroup, "CAST": exp.Cast,
    "TRY_CAST": exp.TryCast, "EXTRACT": exp.Extract, "TRIM": exp.Trim, "SUBSTRING": exp.Substring,
    "DATE_ADD": exp.DateAdd, "DATE_SUB": exp.DateSub,
    "FLOOR": exp.Floor, "CEIL": exp.Ceil, "CEILING": exp.Ceil, "IF": exp.If, "POSITION": exp.StrPosition,
}  # fmt: skip
"""Names of functions whose nodes do not say where they stand."""

_LITERAL_PREFIX = frozenset({TokenType.DATE, TokenType.TIMESTAMP, TokenType.TIMESTAMPNTZ})
"""`DATE '2026-01-31'`: the word before a string."""

_WORDS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING})

_KNOWN = _GRAMMAR | _WORDS | set(_COUNTED)

_REMEDIES = {
    "INTERSECT": "join the tables, or write IN (SELECT …)",
    "EXCEPT": "write NOT IN (SELECT …)",
    "EXISTS": "write id IN (SELECT id FROM …)",
    "OVER": "window functions have no private form here",
    "//": "write FLOOR(a / b)",
    "NULLS": "a release has no NULL",
    "TIMESTAMPTZ": "times with a zone are read in UTC; write TIMESTAMP '2026-01-31 12:00:00'",
    "AT": "times with a zone are read in UTC, and stay in it",
    "CURRENT_DATE": "write the day itself, as in DATE '2026-01-31'",
    "ROLLUP": "ask a query for each grouping",
    "CUBE": "ask a query for each grouping",
    "ALL": "name the columns",
    "~": "write column LIKE 'pattern'",
}


def parse(sql: str) -> exp.Select:
    """The tree of one SELECT; `QueryError` says what else it was, and where."""
    if not isinstance(sql, str):
        raise InvalidArgument("sql", sql, "a SQL text", "For example 'SELECT COUNT(*) FROM visits'.")
    if not is_unicode(sql):
        raise QueryError("the SQL has half of a surrogate pair, which is not a letter; remove it")
    try:
        tokens = sqlglot.tokenize(sql, read=DIALECT)
    except TokenError:
        raise QueryError(UNCLOSED) from None
    try:
        trees = _trees(tokens, sql)
    except ParseError as failure:
        _check_known_words(sql, tokens)
        if len(tokens) > 2 and tokens[1].text.upper() == "TOP" and tokens[2].token_type is TokenType.NUMBER:
            line, column = _place(sql, tokens[1].start)
            raise QueryError(
                f"TOP is not supported; write LIMIT {tokens[2].text} at the end", line=line, column=column
            ) from None
        raise _unreadable(failure) from None
    except AttributeError:  # what sqlglot makes of some brackets that are not closed
        raise QueryError("the SQL could not be read; a bracket may not be closed") from None
    found = [tree for tree in trees if tree is not None]
    if not found:
        raise QueryError("the SQL is empty; write one SELECT, for example SELECT COUNT(*) FROM visits")
    _check_known_words(sql, tokens)
    tree = found[0]
    if isinstance(tree, exp.Union):
        raise refusal(tree, "UNION of answers is not supported; ask two queries, or write FROM (… UNION ALL …)", sql)
    if not isinstance(tree, exp.Select) or tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH):
        raise QueryError(f"only SELECT is supported; this starts with {tokens[0].text.upper()}", line=1, column=1)
    if len(found) > 1:
        raise refusal(found[1], "a second statement is not supported; ask two queries", sql)
    _check_accounted(sql, tokens, tree)
    return tree


def _trees(tokens: list[Token], sql: str) -> list[exp.Expr | None]:
    """What sqlglot reads. It takes long for every value of a list, so of a long one it gets the first value alone; the
    others join the tree afterwards, as it would have read them."""
    few: list[Token] = []
    lists: dict[int, list[Token]] = {}
    done = 0
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.IN and i >= done and (values := _values(tokens, i + 1)):
            first = i + 2
            few += tokens[done : first + 1]
            lists[tokens[first].start] = values
            done = first + 2 * len(values) - 1
    parser = Dialect.get_or_raise(DIALECT).parser(error_level=ErrorLevel.RAISE)
    trees: list[exp.Expr | None] = parser.parse([*few, *tokens[done:]], sql)
    for tree in trees if lists else ():
        for node in tree.find_all(exp.In) if tree is not None else ():
            first = node.expressions[0].meta.get("start", -1) if len(node.expressions) == 1 else -1
            for token in lists.pop(first, [])[1:]:
                value = exp.Literal(this=token.text, is_string=token.token_type is TokenType.STRING)
                node.append("expressions", value.update_positions(token))
    # A list that is not that of an IN node would lose its values.
    return parser.parse(tokens, sql) if lists else trees


_LONG = 50
"""Values from which a list is long."""


def _values(tokens: list[Token], start: int) -> list[Token]:
    """The tokens of a long list of numbers or texts that begins with its bracket here; empty where there is none."""
    end = start + 1
    while end + 1 < len(tokens) and _is_value(tokens[end]) and tokens[end + 1].token_type is TokenType.COMMA:
        end += 2
    whole = end + 1 < len(tokens) and tokens[start].token_type is TokenType.L_PAREN and _is_value(tokens[end])
    values = tokens[start + 1 : end + 1 : 2]
    return values if whole and tokens[end + 1].token_type is TokenType.R_PAREN and len(values) >= _LONG else []


def _is_value(token: Token) -> bool:
    return token.token_type in (TokenType.NUMBER, TokenType.STRING)


@lru_cache(maxsize=1000)
def parse_expression(text: str) -> exp.Expr | None:
    """The tree of one expression; None where a text is something else. A plan asks for the same few texts several
    times, and reading a tree leaves it as it is."""
    start, end = "SELECT ", "\nFROM t"
    try:
        tree = parse(start + text + end)
    except QueryError:
        return None
    origin = tree.args.get("from_") or tree.args.get("from")
    more = [part for part, value in tree.args.items() if value and part not in ("expressions", "from_", "from")]
    # The FROM must be ours, not one that the text brings along.
    ours = origin is not None and origin.this.this.meta.get("start") == len(start + text + end) - 1
    return tree.expressions[0] if ours and not more and len(tree.expressions) == 1 else None


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
        if token.token_type not in _KNOWN:
            word = " ".join(token.text.upper().split())
            if word in _REMEDIES:
                raise _refused(sql, token, word)


def _check_accounted(sql: str, tokens: list[Token], tree: exp.Expr) -> None:
    """Refuse the first token that is neither grammar nor the place of a node, nor one of the nodes without a place."""
    nodes = list(tree.walk())
    places = {node.meta["start"] for node in nodes if "start" in node.meta}
    there = Counter(type(node) for node in nodes)
    there[exp.WithinGroup] *= 2  # two words each
    there[exp.Union] += sum(isinstance(node, exp.Union) and node.args.get("distinct") is False for node in nodes)  # ALL
    there[exp.Not] += sum(bool(node.args.get("negate")) for node in nodes)  # NOT LIKE is one node
    dots = sum(len(node.parts) - 1 for node in nodes if isinstance(node, exp.Column | exp.Table))
    seen = Counter[tuple[type[exp.Expr], ...]]()
    for i, token in enumerate(tokens):
        word = " ".join(token.text.upper().split())
        kinds = _COUNTED.get(token.token_type, ())
        if token.token_type is TokenType.DOT:
            dots -= not _is_point(tokens, i)
            known = dots >= 0
        elif kinds:
            seen[kinds] += 1
            known = seen[kinds] <= sum(there[kind] for kind in kinds)
        else:
            known = token.token_type in _GRAMMAR or token.start in places
        if not known and word in _NAMES and not kinds:
            seen[_NAMES[word],] += 1
            known = seen[_NAMES[word],] <= there[_NAMES[word]]
        if not known and not _is_expected(tokens, i):
            raise _refused(sql, token, word)


def _is_point(tokens: list[Token], i: int) -> bool:
    """Whether a dot is the point of a number such as .9"""
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    return after is not None and after.token_type is TokenType.NUMBER and tokens[i].end + 1 == after.start


def _is_expected(tokens: list[Token], i: int) -> bool:
    """Whether the tokens around say what a token is: a type, the unit of a date function, a number after its point."""
    token = tokens[i]
    before = tokens[i - 1] if i else None
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    if token.token_type in _LITERAL_PREFIX and after is not None and after.token_type is TokenType.STRING:
        return True
    if before is None:
        return False
    if _is_interval(tokens, i):
        return True
    if token.token_type is TokenType.NUMBER:  # .9
        return before.token_type is TokenType.DOT and _is_point(tokens, i - 1)
    if token.token_type in _types():
        return before.token_type in (TokenType.ALIAS, TokenType.DCOLON)
    called = tokens[i - 2].text.upper() if i > 1 and before.token_type is TokenType.L_PAREN else ""
    if called == "EXTRACT":
        return after is not None and after.token_type is TokenType.FROM
    if token.token_type is TokenType.STRING and _called(tokens, i) == "STRFTIME":
        return before.token_type is TokenType.COMMA and after is not None and after.token_type is TokenType.R_PAREN
    return token.token_type is TokenType.STRING and called in ("DATE_TRUNC", "DATE_DIFF", "DATEDIFF", "DATETRUNC")


def _called(tokens: list[Token], i: int) -> str:
    """The function whose argument a token is; empty where it is none's."""
    depth = 0
    for j in range(i - 1, 0, -1):
        kind = tokens[j].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return str(tokens[j - 1].text.upper())
    return ""


def _is_interval(tokens: list[Token], i: int) -> bool:
    """Whether a token is the amount or the unit of an INTERVAL, which `expressions` reads off the tree."""
    amounts = (TokenType.NUMBER, TokenType.STRING)
    kinds = [token.token_type for token in tokens[max(0, i - 2) : i + 1]]
    if len(kinds) > 1 and kinds[-2] is TokenType.INTERVAL:
        return kinds[-1] in amounts
    return len(kinds) > 2 and kinds[0] is TokenType.INTERVAL and kinds[1] in amounts and tokens[i].text.isalpha()


def _types() -> frozenset[TokenType]:
    """The types that a CAST may name."""
    names = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "TEXT", "BOOLEAN")
    return frozenset(TokenType[name] for name in (*names, "DATE", "TIMESTAMP", "TIMESTAMPNTZ"))


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
