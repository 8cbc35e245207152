"""Detectors: what guesses the world from an output, having seen past rounds only.

| detector | sees |
|---|---|
| `Bins`, `Logistic` | a shift of the numbers; `Bins(bits=True)` the lowest set bit of the first |
| `Tree` | any region of numbers, labels and structure; with `bits=True` also the lowest set bits of floats |
| `Atoms` | repeated whole outputs, or structures: types, lengths, keys, crashes |

A detector can only cost power, never validity: the wealth it bets with is fair whatever it says.
"""

from deniable.auditing.detectors.atoms import Atoms, structure, whole
from deniable.auditing.detectors.base import Detector
from deniable.auditing.detectors.linear import Bins, Logistic
from deniable.auditing.detectors.tree import Tree

__all__ = ["Atoms", "Bins", "Detector", "Logistic", "Tree", "default_detectors", "value_detectors"]


def value_detectors() -> tuple[Detector, ...]:
    """Fresh detectors that look at values, not at their bits: where floating-point noise is accepted as it is."""
    return (
        Bins(4),
        Bins(16),
        Logistic(),
        Tree(),
        Atoms(whole, "repeated outputs"),
        Atoms(structure, "structure of the output"),
    )


def default_detectors() -> tuple[Detector, ...]:
    """Fresh detectors for one audit: values, and the low bits of floats."""
    return (*value_detectors(), Tree(bits=True), Bins(32, bits=True))
