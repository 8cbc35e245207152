"""False alarms: audits of correct mechanisms with claims that are exactly tight, in more than twenty kinds.

An audit at confidence 1 − α refutes a true claim with probability at most α, whenever it stops, and a proof never does.
So the alarms among n independent audits at α stay below the 99.9 % binomial quantile, and alarms "by replay" are none.
An exact test must also alarm now and then on the boundary, or it has no power.

    python bench/false_alarms.py [audits] [runs] [workers]        2070 audits of 300 runs: twenty minutes of one core
"""

from __future__ import annotations

import datetime
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import history

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]

from scipy import stats  # noqa: E402

import deniable as dn  # noqa: E402
from tests.auditing.families import EPSILONS, FAMILIES  # noqa: E402

LEVELS = {0.05: 1.30103, 0.01: 2.0}


def attack(number: int, runs: int) -> tuple[str, float, bool]:
    """One audit: the kind of mechanism, the evidence against its true claim, and whether it was "proved" false."""
    names = list(FAMILIES)
    name, epsilon = names[number % len(names)], EPSILONS[number // len(names) % len(EPSILONS)]
    case = FAMILIES[name](epsilon)
    report = dn.audit(case.mechanism, neighbours=case.neighbours, claim=case.claim, confidence=1 - 1e-9, runs=runs)
    return name, report.evidence, report.by == "replay"


def main(audits: int = 2070, runs: int = 300, workers: int = 1) -> None:
    """Print the table, and keep it."""
    start = time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        found = list(pool.map(attack, range(audits), [runs] * audits, chunksize=23))
    evidence: dict[str, list[float]] = defaultdict(list)
    for name, value, _ in found:
        evidence[name].append(value)
    proofs = sum(proved for *_, proved in found)
    lines = [
        f"# False alarms, {datetime.date.today()}",
        "",
        f"{audits} audits of {runs} runs with replays, ε in {EPSILONS}, claims exactly tight;"
        f" {workers} workers, {time.monotonic() - start:.0f} s. Refuted by proof: {proofs}.",
        "",
        "| mechanism | audits | " + " | ".join(f"alarms at α = {level}" for level in LEVELS) + " |",
        "|---|---|" + "---|" * len(LEVELS),
    ]
    for name, values in evidence.items():
        alarms = " | ".join(str(sum(value >= reached for value in values)) for reached in LEVELS.values())
        lines.append(f"| {name} | {len(values)} | {alarms} |")
    everything = [value for values in evidence.values() for value in values]
    fine = proofs == 0
    lines.append("")
    for level, reached in LEVELS.items():
        count = sum(value >= reached for value in everything)
        most = int(stats.binom.ppf(0.999, audits, level))
        lines.append(f"Alarms at α = {level}: {count} of {audits}; {most} would be within the promise.")
        fine &= count <= most
        room = level * audits / max(count, 1)
        if audits >= 1000:
            history.add("false_alarms", f"alarms at {level}", count / audits, "of audits", peer="allowed", ratio=room)
    print("\n".join(lines))
    if audits >= 1000:
        history.keep("false-alarms", "\n".join(lines))
    if not fine:
        raise SystemExit("more alarms than promised")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
