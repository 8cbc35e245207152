"""Outputs are read whole, and detectors learn what tells the worlds apart. About 2 seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable.auditing.detectors import (
    Atoms,
    Bins,
    Detector,
    LogisticScore,
    RegionTree,
    bit_detectors,
    low_bits,
    structure,
    value_detectors,
    whole,
)
from deniable.auditing.outputs import crashed, read_output
from deniable.errors import InvalidArgument


class Colour(Enum):
    RED = 1


@dataclass
class Answer:
    value: float
    name: str


@pytest.mark.parametrize(
    ("value", "shape", "numbers", "labels"),
    [
        (3, "int", [3], ()),
        (np.float32(0.5), "float32", [0.5], ()),
        (True, "bool", [1], ()),
        (Fraction(1, 4), "Fraction", [0.25], ()),
        (Decimal("0.5"), "Decimal(-1)", [0.5], ()),
        (10**400, "int:large", [1e300, 0], ()),
        ((1 << 60) + 5, "int:large", [float(1 << 60), 5], ()),
        (-math.inf, "float:inf", [-1e300], ()),
        (math.nan, "float:nan", [0], ()),
        (1 + 2j, "complex[float x2]", [1, 2], ()),
        ("a", "str", [], ("a",)),
        (Colour.RED, "Colour.RED", [], ()),
        (None, "None", [], ()),
        ([1.0, 2.0, "x"], "list[float x2,str]", [1, 2], ("x",)),
        ([[1], [2, 3]], "list[list[int],list[int x2]]", [1, 2, 3], ()),
        ({"b": 1, "a": 2.0}, "dict{'b':int,'a':float}", [1, 2], ()),
        ({"y", "x"}, "set{str,str}", [], ("x", "y")),
        ("about 3.5 of 4", "str#2", [3.5, 4], ("about # of #",)),
        (b"ab", "bytes(2)", [97, 98], (b"ab",)),
        (Answer(1.5, "n"), "Answer{'value':float,'name':str}", [1.5], ("n",)),
        (np.array([[1, 2]]), "int64(1, 2)", [1, 2], ()),
        (np.array([1.0, math.nan]), "float64(2,):1 nan,0 inf", [1, 0], ()),
        (np.array(["a", None], dtype=object), "array(2,)[str,None]", [], ("a",)),
    ],
)
def test_outputs_are_taken_apart(value: Any, shape: str, numbers: list[float], labels: tuple[str, ...]) -> None:
    found = read_output(value)
    assert (found.structure, found.numbers.tolist(), found.labels) == (shape, numbers, labels)
    assert hash(found.atom) == hash(read_output(value).atom)


def test_an_output_nobody_can_read_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidArgument, match=r"lists, dicts, arrays and tables; got mechanism='object'"):
        read_output(object())


def test_a_crash_is_an_output_with_its_message() -> None:
    """Detectors see the text. Only the exception's name is for reports."""
    found = crashed(ValueError("patient 17 has no age"))
    assert found.raised == "ValueError"
    assert found.atom != crashed(ValueError("patient 18 has no age")).atom
    assert (found.numbers.tolist(), found.labels) == ([17], ("patient # has no age",))
    assert read_output(1).raised is None


def test_low_bits() -> None:
    numbers = np.array([0.75, 1.0, 3.0, 0.0, -0.1, 2.0**-1074, 1e300])
    expected = [-2, 0, 0, 0, -55, -1074]
    assert low_bits(numbers)[:6].tolist() == expected
    whole_numbers = np.array([0.75, 3.0, -0.1]) / 2.0 ** low_bits(np.array([0.75, 3.0, -0.1]))
    assert (whole_numbers % 2 == 1).all()


Maker = Callable[[np.random.Generator, bool], Any]
FLOATS: Maker = lambda g, second: g.normal() + 2 * second  # noqa: E731
WIDER: Maker = lambda g, second: g.normal() * (1 + 3 * second)  # noqa: E731
VECTOR: Maker = lambda g, second: g.normal(size=30) + 0.8 * second  # noqa: E731
LETTERS: Maker = lambda g, second: "ab"[int(g.random() < 0.2 + 0.6 * second)]  # noqa: E731
LENGTHS: Maker = lambda g, second: [0] * int(g.integers(2, 4 + second))  # noqa: E731
PAIRED: Maker = lambda g, second: (int(b := g.random() < 0.5), g.normal() + 3 * b * second)  # noqa: E731
ROUNDED: Maker = lambda g, second: float(np.round(g.random() * 2**40) / 2**40 if second else g.random())  # noqa: E731


@pytest.mark.parametrize(
    ("detector", "maker"),
    [
        (Bins(4), FLOATS),
        (Bins(16), FLOATS),
        (Bins(16), WIDER),
        (Bins(4), VECTOR),
        (LogisticScore(), FLOATS),
        (LogisticScore(), VECTOR),
        (RegionTree(), FLOATS),
        (RegionTree(), WIDER),
        (RegionTree(), PAIRED),
        (RegionTree(), LETTERS),
        (RegionTree(bits=True), ROUNDED),
        (Atoms(whole, "whole"), LETTERS),
        (Atoms(structure, "structure"), LENGTHS),
        (Bins(32, bits=True), ROUNDED),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_detector_learns_its_difference(detector: Detector, maker: Maker) -> None:
    """After 600 rounds the belief in the right world beats a fair guess clearly, and never reaches 0 or 1."""
    generator = np.random.default_rng(1)
    worlds = generator.random(1600) < 0.5
    outputs = [read_output(maker(generator, bool(world))) for world in worlds]
    assert detector.posterior(outputs[:10]) == pytest.approx(0.5)
    for start in range(0, 600, 100):
        detector.learn(outputs[start : start + 100], worlds[start : start + 100])
    belief = detector.posterior(outputs[600:])
    assert 0 < belief.min() <= belief.max() < 1
    gained = np.log(np.where(worlds[600:], belief, 1 - belief)) + math.log(2)
    assert gained.mean() > 0.02
    # Beliefs are honest: among rounds believed to be D′ with 60 % or more, most are.
    sure = belief > 0.6
    assert worlds[600:][sure].mean() > 0.5 + 0.5 * (belief[sure].mean() - 0.5)


def test_noise_teaches_nothing_much() -> None:
    """No difference: a detector's beliefs cost it little. Seeds are fixed; the bound has no alarm rate."""
    generator = np.random.default_rng(2)
    worlds = generator.random(1200) < 0.5
    outputs = [read_output(generator.normal(size=3)) for _ in worlds]
    for detector in (*value_detectors(), *bit_detectors()):
        detector.learn(outputs[:600], worlds[:600])
        belief = detector.posterior(outputs[600:])
        gained = np.log(np.where(worlds[600:], belief, 1 - belief)) + math.log(2)
        assert gained.mean() > -0.05, detector.name


def test_other_structures_and_absurd_numbers_do_not_disturb() -> None:
    generator = np.random.default_rng(3)
    worlds = generator.random(400) < 0.5
    values: list[Any] = [g + 2.0 * w for g, w in zip(generator.normal(size=400), worlds, strict=True)]
    values[7], values[8], values[9], values[10] = None, 1e300, "text", [1, 2]
    outputs = [read_output(value) for value in values]
    for detector in (*value_detectors(), *bit_detectors()):
        detector.learn(outputs[:300], worlds[:300])
        with np.errstate(all="raise", under="ignore"):
            assert np.isfinite(detector.posterior([*outputs[300:], *outputs[7:11]])).all()
