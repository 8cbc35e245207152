"""Recompute a ledger from its export, without the library: the standard library and the written format only.

    python oracle.py < export.jsonl

Prints one JSON object: how many rows, their total ε and δ as exact fractions, whether the budget was overspent by the
basic sums, and whether the chain of hashes is whole, up to the head that the last line states.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import Any


def cost(event: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """(ε, δ) of the events that the tests charge."""
    kind = event["kind"]
    if kind in ("Laplace", "DiscreteLaplace"):
        return Fraction(event["sensitivity"]) / Fraction(event["scale"]), Fraction(0)
    if kind in ("RandomizedResponse", "ExponentialMechanism"):
        return Fraction(event["epsilon"]), Fraction(0)
    if kind == "Claimed":
        claim = event["guarantee"]
        return Fraction(claim["epsilon"]), Fraction(claim.get("delta", "0"))
    if kind == "Repeated":
        epsilon, delta = cost(event["event"])
        return epsilon * event["count"], delta * event["count"]
    if kind == "Composed":
        parts = [cost(part) for part in event["parts"]]
        return sum((p[0] for p in parts), Fraction(0)), sum((p[1] for p in parts), Fraction(0))
    raise SystemExit(f"the oracle does not know {kind}")


def recompute(lines: Iterable[str]) -> dict[str, Any]:
    """The verdict on an export."""
    lines = [line.rstrip("\n") for line in lines]
    header = json.loads(lines[0])
    budget = header["budget"]["guarantee"]
    prev = hashlib.sha256(lines[0].encode()).hexdigest()
    epsilon = delta = Fraction(0)
    whole, keys = True, set()
    end = json.loads(lines[-1])
    for place, line in enumerate(lines[1:-1], start=1):
        body, _, tail = line.rpartition(',"hash":"')
        body += "}"
        row = json.loads(line)
        found = hashlib.sha256(body.encode()).hexdigest()
        whole &= row["seq"] == place and row["prev"] == prev and row["hash"] == found and tail == f'{found}"}}'
        whole &= row["key"] is None or row["key"] not in keys
        keys.add(row["key"])
        prev = row["hash"]
        if "event" in row:
            spent = cost(row["event"])
            epsilon, delta = epsilon + spent[0], delta + spent[1]
    over = epsilon > Fraction(budget["epsilon"]) or delta > Fraction(budget.get("delta", "0"))
    rows = len(lines) - 2
    whole &= end["deniable_ledger_end"] == 1 and end["head"] == f"{rows}:{prev}"
    return {"rows": rows, "epsilon": str(epsilon), "delta": str(delta), "overspent": over, "whole": whole, "head": prev}


if __name__ == "__main__":
    print(json.dumps(recompute(sys.stdin)))
