"""False alarms: 1000 audits of correct mechanisms, boundary cases included (about ten minutes on one core).

An audit at confidence 1 − α refutes a true claim with probability at most α, whenever it stops. So at α = 0.05 and 0.01
the alarms among 1000 independent audits stay below the 99.9 % binomial quantiles, 72 and 21. An exact test must also
alarm now and then on the boundary, or it has no power.

    python bench/false_alarms.py [audits] [runs]
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path

import history

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]

from scipy import stats  # noqa: E402

import deniable as dn  # noqa: E402
from tests.auditing.correct import BOUNDARY, CORRECT  # noqa: E402

LEVELS = {0.05: 1.30103, 0.01: 2.0}


def main(audits: int = 1000, runs: int = 400) -> None:
    start = time.process_time()
    found: dict[str, list[float]] = defaultdict(list)
    names = list(CORRECT)
    for number in range(audits):
        name = names[number % len(names)]
        case = CORRECT[name]
        report = dn.audit(
            case.mechanism, neighbours=case.neighbours, claim=case.claim, confidence=1 - 1e-9, runs=runs, replay=False
        )
        found[name].append(report.evidence)
    print(f"{audits} audits of {runs} runs, {time.process_time() - start:.0f} CPU seconds\n")
    print(f"{'mechanism':<40}{'audits':>8}" + "".join(f"{f'alarms at {level}':>16}" for level in LEVELS))
    for name, values in found.items():
        mark = " (boundary)" if name in BOUNDARY else ""
        alarms = "".join(f"{sum(value >= reached for value in values):>16}" for reached in LEVELS.values())
        print(f"{name + mark:<40}{len(values):>8}{alarms}")
    print()
    everything = [value for values in found.values() for value in values]
    edge = [value for name in BOUNDARY for value in found[name]]
    for level, reached in LEVELS.items():
        count = sum(value >= reached for value in everything)
        most = int(stats.binom.ppf(0.999, audits, level))
        print(f"alarms at {level}: {count} of {audits}, at most {most} allowed; on the boundary", end=" ")
        print(f"{sum(value >= reached for value in edge)} of {len(edge)}")
        room = level * audits / max(count, 1)
        if audits >= 1000:
            history.add("false_alarms", f"alarms at {level}", count / audits, "of audits", peer="allowed", ratio=room)
        assert count <= most
    assert any(value >= LEVELS[0.05] for value in edge), "an exact test never alarmed on the boundary"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
