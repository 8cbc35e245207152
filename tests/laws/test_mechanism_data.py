"""Bad data never make a mechanism raise, and never change how much randomness it reads."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from deniable.errors import DeniableError
from deniable.noise import InsecureSource, RecordingSource
from tests.laws.mechanism_examples import CASES, EXAMPLES

ABSURD = [
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    10**400,
    -(10**400),
    1e308,
    Decimal("NaN"),
    Decimal("1e999"),
    Fraction(10**400, 3),
    "text",
    b"bytes",
    [],
    {},
    object(),
    True,
    np.nan,
    np.float32("inf"),
    np.int64(-(2**63)),
    3 + 4j,
    (),
]


@pytest.mark.parametrize("bad", ABSURD, ids=lambda bad: type(bad).__name__ + repr(bad)[:12])
@pytest.mark.parametrize(("name", "i"), [case for case in CASES if EXAMPLES[case[0]][case[1]].records])
def test_no_record_raises(name: str, i: int, bad: object) -> None:
    """One absurd record among the others, and nothing but absurd ones: a release all the same."""
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    data = list(example.data)
    row = [bad, 0.5] if name == "ColumnMeans" else bad
    m([row, *data[1:]])
    m([row] * len(data))


@pytest.mark.parametrize(("name", "i"), CASES)
def test_bad_answers_do_not_raise_either(name: str, i: int) -> None:
    """Computed answers that are not finite, where floats are allowed."""
    example = EXAMPLES[name][i]
    if example.records or isinstance(example.data, dict) or name == "ReusableHoldout":  # it takes records, in pairs
        return
    m = example.make(example.relations[0])
    bad = [
        None,
        math.nan,
        math.inf,
        -math.inf,
        1e308,
        10**400,
        Decimal("NaN"),
        "text",
        3 + 4j,
        np.float32(0.1),
        object(),
    ]
    for one in bad:
        m([one, *example.data[1:]] if isinstance(example.data, list) else one)


SIZE_PUBLIC = {
    "MeanOfKnownSize",
    "Variance",
    "ColumnMeans",
    "ClusteredMean",
    "ClusteredMeans",
    "Median",
    "ShuffledResponse",
}


@pytest.mark.parametrize(("name", "i"), [case for case in CASES if EXAMPLES[case[0]][case[1]].records])
def test_empty_data(name: str, i: int) -> None:
    """Where the number of records is private an empty table is like any other; where it is public it is wrong."""
    example = EXAMPLES[name][i]
    m = example.make(example.relations[0])
    if name in SIZE_PUBLIC:
        with pytest.raises(DeniableError, match="public"):
            m([])
    else:
        m([])


@pytest.mark.parametrize(("name", "i"), [case for case in CASES if EXAMPLES[case[0]][case[1]].records])
@pytest.mark.parametrize("data", ["text", 5, None, {"a": 1}, np.zeros((2, 2, 2))])
def test_what_is_no_column_is_refused_by_its_type(name: str, i: int, data: object) -> None:
    example = EXAMPLES[name][i]
    if name in {"ProposeTestRelease"}:  # data go to the caller's own functions
        return
    with pytest.raises(DeniableError):
        example.make(example.relations[0])(data)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_the_words_read_do_not_depend_on_the_data(name: str, i: int) -> None:
    """The same number of random words for ordinary and for absurd records (up to rare refinements)."""
    example = EXAMPLES[name][i]
    if not example.records or name in {
        "BestOf",
        "ClusteredMean",
        "StabilityHistogram",
        "Quantile",
        "ProposeTestRelease",
    }:
        return  # these draw for what they find: trials, a second stage, keys, a stretch
    m = example.make(example.relations[0])
    counts = set()
    row = [None, 0.5] if name == "ColumnMeans" else None
    for data in (example.data, [row] * len(example.data)):
        for seed in range(3):
            source = RecordingSource(InsecureSource(seed))
            m(data, source=source)
            counts.add((seed, source.count))
    assert len(counts) == 3
