"""Every broken mechanism is refuted at α = 1e-3: by a proof, by the game on its outputs, or by its low bits."""

from __future__ import annotations

import pytest

from deniable.auditing import audit
from tests.attacks import noise_bugs, query_bugs, selection_bugs, sight_bugs, training_bugs  # noqa: F401  (the zoo)
from tests.attacks.zoo import ZOO

PROOF = 11
"""A try-out, a traced run of each neighbour, and eight runs that confirm what they showed."""


def test_the_zoo_is_full() -> None:
    assert len(ZOO) >= 50


@pytest.mark.parametrize("name", ZOO)
def test_refuted(name: str) -> None:
    case = ZOO[name]
    report = audit(
        case.mechanism, neighbours=case.neighbours, claim=case.claim, confidence=0.999, runs=case.runs, seed=1
    )
    if case.by == "low bits":
        assert report.low_bits is not None
        assert report.low_bits.verdict == "leaks"
        return
    assert report.refuted, report
    assert report.by == case.by
    if case.by == "replay":
        assert report.runs <= PROOF
