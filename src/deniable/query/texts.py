"""Functions that make texts. None can make a long text of short ones: whether the engine has memory for a row must not
depend on the row."""

from __future__ import annotations

from sqlglot import exp

from deniable.query.functions import TEXT
from deniable.query.making import Maker
from deniable.query.schema import Column, Kind
from deniable.query.scope import is_literal
from deniable.query.values import literal, name

LONGEST = 10_000
"""Characters of a text that functions make, and the most that a constant may ask for."""

MOST_TEXTS = 20
"""Texts of one CONCAT."""


class TextFunctions(Maker):
    """Reads functions of texts."""

    def texts(self, node: exp.Expr) -> str:
        """An expression that is a text, as SQL."""
        found = self.expression(node)
        if found.kind not in (Kind.TEXT, Kind.UNTYPED):
            raise self.refuse(
                node, f"{found.name} holds {found.kind.value}; {TEXT} is needed here, as in CAST({found.name} AS TEXT)"
            )
        return name(found)

    def _joined(self, node: exp.Expr) -> Column:
        """|| and CONCAT. What comes out is cut, so that nesting them cannot fill the memory."""
        if isinstance(node, exp.DPipe):
            self.only(node, "this", "expression", "safe")
            whole = f"{self.texts(node.this)} || {self.texts(node.expression)}"
        else:
            self.only(node, "expressions", "safe", "coalesce")
            if len(node.expressions) > MOST_TEXTS:
                raise self.refuse(node, f"CONCAT of more than {MOST_TEXTS} texts is not supported")
            whole = f"CONCAT({', '.join(self.texts(part) for part in node.expressions)})"
        return self.made(node, Kind.TEXT, f"LEFT({whole}, {LONGEST})")

    def _replaced(self, node: exp.Replace) -> Column:
        """REPLACE with constants, by a text that is not longer: nesting it must not fill the memory either."""
        self.only(node, "this", "expression", "replacement")
        old, new = (node.args.get(part) for part in ("expression", "replacement"))
        pair = [self.value(part) if part is not None and is_literal(part) else None for part in (old, new)]
        if not all(isinstance(text, str) for text in pair) or len(str(pair[1]).encode()) > len(str(pair[0]).encode()):
            raise self.refuse(node, "REPLACE needs two texts, the second not longer than the first")
        given = ", ".join(literal(str(text), "VARCHAR") for text in pair)
        return self.made(node, Kind.TEXT, f"REPLACE({self.texts(node.this)}, {given})")

    def _piece(self, node: exp.Expr) -> Column:
        """SUBSTRING, LEFT and RIGHT with constant positions."""
        if isinstance(node, exp.Substring):
            self.only(node, "this", "start", "length", "zero_start")
            places = [node.args["start"]] + ([node.args["length"]] if node.args.get("length") is not None else [])
        else:
            self.only(node, "this", "expression", "negative_length_returns_empty")
            places = [node.expression]
        numbers = ", ".join(str(self.whole(node, place, most=LONGEST)) for place in places)
        return self.made(node, Kind.TEXT, f"{node.key.upper()}({self.texts(node.this)}, {numbers})")
