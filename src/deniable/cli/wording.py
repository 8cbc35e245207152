"""Remedies as a person at the command line would type them, or write into a publication's TOML: the rooms say Python.

>>> spoken("give bounds={'cost': (low, high)} from what you know, or bounds='private'")
'give --bounds cost=LOW:HIGH from what you know, or --bounds private'
>>> spoken("epsilon must be a positive number; got epsilon=-1.0. Try epsilon=0.5.")
'epsilon must be a positive number; got epsilon=-1.0. Try --epsilon 0.5.'
>>> spoken("give bounds={'cost': (low, high)} from what you know, or bounds='private'", toml=True)
'give bounds.cost = [low, high] from what you know, or bounds = "private"'
"""

from __future__ import annotations

import re
from collections.abc import Callable

_OPTIONS = "confidence|delta|diagnose|epsilon|error|group_size|steps"

_SPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"Ledger\.create\('([^']+)', \.\.\.\)", r"deniable ledger create \1 --epsilon 3 --unit COLUMN"),
    (r"Ledger\.create\b", "deniable ledger create"),
    (r"open it with Ledger\.open, or choose another path", "read it with deniable ledger show, or choose another name"),
    (r"`str\(ledger\.head\(\)\)` gives it", "deniable ledger verify prints it"),
    (r"read it by pandas\.read_csv\(\.\.\., sep=.*\) and give that", "convert it to Parquet"),
    (r"\boverwrite=True\b", "--force"),
    (r'\bencoding="([\w-]+)"', r"--encoding \1"),
    (r"as in \{'(\w+)': [^}]*\}", r"as in \1=FILES"),
    (r"batch=256, examples=60_000", "--batch 256 --examples 60000"),
    (r"(per_unit=)?dn\.AtMost\(groups=(\d+), rows=(\d+)\)", r"--groups-per-unit \2 --rows-per-unit \3"),
    (r"per_unit='private'", "--per-unit private"),
    (r"\bper_unit is missing", "--groups-per-unit and --rows-per-unit are missing"),
    (
        r"bounds=\{'([^']+)': \((\w+), (\w+)\)\}",
        lambda found: f"--bounds {found[1]}=" + f"{found[2]}:{found[3]}".upper(),
    ),
    (r"bounds='private'", "--bounds private"),
    (r"keys=\{'([^']+)': \[\.\.\.\]\}", r"--keys \1=A,B,..."),
    (r"keys=\{'([^']+)': \['(\w+)', '(\w+)'\]\}", r"--keys \1=\2,\3"),
    (r"public=\{'([^']+)': \.\.\.\}", r"--public \1=FILE"),
    (rf"\b(Try|Give|For example) ({_OPTIONS})=", lambda found: f"{found[1]} --{found[2].replace('_', '-')} "),
    (r"; got [\w-]+=None\.", "; it is missing."),
)

_TOML: tuple[tuple[str, str], ...] = (
    (r"per_unit=dn\.AtMost\(groups=(\d+), rows=(\d+)\)", r"per_unit = {groups = \1, rows = \2}"),
    (r"\b(bounds|per_unit)='private'", r'\1 = "private"'),
    (r"bounds=\{'([^']+)': \((\w+), (\w+)\)\}", r"bounds.\1 = [\2, \3]"),
    (r"keys=\{'([^']+)': \[\.\.\.\]\}", r"keys.\1 = [...]"),
    (r'\bencoding="([\w-]+)"', r'encoding = "\1"'),
)


def spoken(sentence: str, *, toml: bool = False) -> str:
    """A message with its Python spellings as options, or as lines of TOML."""
    for pattern, spelling in _TOML if toml else _SPELLINGS:
        sentence = re.sub(pattern, spelling, sentence)
    return sentence
