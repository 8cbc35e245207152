"""Every broken mechanism is refuted at α = 1e-3: by replay, seen in two runs and then verified, or by its outputs."""

from __future__ import annotations

import pytest

from deniable.auditing import audit
from tests.attacks import noise_bugs, query_bugs, selection_bugs, training_bugs  # noqa: F401  (they fill the zoo)
from tests.attacks.zoo import ZOO

REPLAYS = 40
"""Two runs that show the fault; two inputs, at most sixteen replays and as many again, that verify it."""


def test_the_zoo_is_full() -> None:
    assert len(ZOO) >= 30


@pytest.mark.parametrize("name", ZOO)
def test_refuted(name: str) -> None:
    case = ZOO[name]
    report = audit(
        case.mechanism, neighbours=case.neighbours, claim=case.claim, confidence=0.999, runs=case.runs, seed=1
    )
    assert report.refuted, report
    if case.by == "replay":
        assert report.by == "replay"
        assert report.runs <= REPLAYS
        assert "first sight" in [finding.kind for finding in report.findings], "two runs did not show it"
