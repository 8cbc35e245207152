"""No false alarm: correct mechanisms, many on the boundary of their claim. About 15 seconds.

The long form, 1000 audits, is bench/false_alarms.py; its table is in bench/results.
"""

from __future__ import annotations

import pytest
from scipy import stats

import deniable as dn
from tests.auditing.correct import BOUNDARY, CORRECT
from tests.auditing.families import FAMILIES


def evidence(name: str, *, runs: int, replay: bool = False) -> float:
    case = CORRECT[name]
    report = dn.audit(
        case.mechanism, neighbours=case.neighbours, claim=case.claim, confidence=1 - 1e-9, runs=runs, replay=replay
    )
    assert not report.refuted  # a chance of 1e-9
    return report.evidence


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_mechanism_is_consistent(name: str) -> None:
    """With replays; refuted with probability at most 1e-9."""
    assert evidence(name, runs=160, replay=True) < 9


@pytest.mark.parametrize("name", FAMILIES)
def test_whatever_is_done_to_the_noise_a_tight_claim_is_consistent(name: str) -> None:
    """At large ε a constant is seen in every replay, and is no proof. Refuted with probability at most 1e-9 each."""
    for epsilon in (0.5, 8.0):
        case = FAMILIES[name](epsilon)
        report = dn.audit(
            case.mechanism, neighbours=case.neighbours, claim=case.claim, confidence=1 - 1e-9, runs=80, stop_early=False
        )
        assert not report.refuted, str(report)
        assert "no chance" not in str(report)


def test_alarms_are_as_rare_as_promised() -> None:
    """56 audits, 80 runs each. P[Bin(64, 0.05) > quantile] ≤ 1e-6, and likewise at 1 %."""
    found = [evidence(name, runs=80) for name in CORRECT for _ in range(8 if name in BOUNDARY else 2)]
    for level, reached in ((0.05, 1.30103), (0.01, 2.0)):
        assert sum(each >= reached for each in found) <= stats.binom.isf(1e-6, len(found), level)
