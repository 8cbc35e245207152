"""Audits: runs and seconds until a broken mechanism is refuted, next to a fixed-sample test: `make bench ROOM=audit`.

For a mechanism whose most telling event is known, the reference is the smallest number of runs with which a
fixed-sample test on that event refutes the claim at α = 1e-3 when the counts are the expected ones: a test at power one
half that was told where to look. The goal is 4 times as many.

Also: what released versions of other libraries get wrong, where they are installed (bench/peers), and how near a
white-box audit of noisy gradient steps comes to the truth. False alarms have a bench of their own (false_alarms.py).
Results go to bench/results: audit-<date>.md and the history.
"""

from __future__ import annotations

import datetime
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import history
import numpy as np
from scipy import stats

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from deniable.auditing import AuditReport, audit  # noqa: E402
from deniable.auditing.statistics import Counts, gdp_epsilon, joint_test  # noqa: E402
from deniable.auditing.training import gradient_canary, white_box_mu  # noqa: E402
from deniable.conversions import gaussian_claim_to_gdp  # noqa: E402
from deniable.guarantees import ApproxDP, PureDP  # noqa: E402
from tests.attacks import noise_bugs, query_bugs, selection_bugs, sight_bugs, training_bugs  # noqa: E402, F401
from tests.attacks.zoo import ZOO, Broken  # noqa: E402

LEVEL = 1e-3
SEEDS = 5

PEERS = {
    "dp-accounting": """
import dp_accounting
from dp_accounting import pld, rdp
relation = dp_accounting.NeighboringRelation.REPLACE_ONE
response = dp_accounting.RandomizedResponseDpEvent(0.2, 2)
one = pld.PLDAccountant(neighboring_relation=relation); one.compose(response, 1)
ten = pld.PLDAccountant(neighboring_relation=relation); ten.compose(response, 10)
print(f"randomized response once: {one.get_epsilon(1e-5):.4f}; ten times: {ten.get_epsilon(1e-5):.4f}")
event = dp_accounting.GaussianDpEvent(1.0)
bound = rdp.RdpAccountant(neighboring_relation=relation); bound.compose(event)
exact = pld.PLDAccountant(neighboring_relation=relation); exact.compose(event)
print(f"one Gaussian under replace: RDP {bound.get_epsilon(1e-5):.3f}, PLD {exact.get_epsilon(1e-5):.3f}")
""",
}


def reference(case: Broken) -> int | None:
    """Runs of the best fixed-sample test on the best event: exact and joint, or binomial in the coin game."""
    if case.best is None or not isinstance(case.claim, PureDP | ApproxDP):
        return None
    high, low = case.best
    epsilon = float(case.claim.epsilon)
    delta = float(case.claim.delta) if isinstance(case.claim, ApproxDP) else 0.0
    chance = math.exp(epsilon) / (1 + math.exp(epsilon))
    # (guesses, right guesses) per round: a guess in every round, or only where the event happens.
    games = ((1.0, (high + 1 - low) / 2), ((high + low) / 2, high / 2))

    def refutes(runs: int) -> bool:
        for guesses, right in games:
            said, correct = round(runs * guesses), round(runs * right)
            # δ of the rounds may be given away.
            excused = stats.binom.isf(1e-9, runs, delta) if delta else 0
            if stats.binom.sf(correct - excused - 1, said, chance) <= LEVEL:
                return True
        half = runs // 2
        return (
            joint_test(Counts(round(half * high), half, round(half * low), half), epsilon=epsilon, delta=delta) <= LEVEL
        )

    runs = 8
    while runs < 10**6:
        if refutes(runs):
            return runs
        runs = math.ceil(runs * 1.05)
    return None


def zoo() -> list[str]:
    """One line per broken mechanism."""
    lines = [
        "| mechanism | found by | runs (median) | seconds | fixed-sample test | ratio | mark |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in ZOO.values():
        runs, seconds, refuted = [], [], 0
        for seed in range(SEEDS if case.by == "testing" else 1):
            start = time.process_time()
            report = audit(
                case.mechanism,
                neighbours=case.neighbours,
                claim=case.claim,
                confidence=1 - LEVEL,
                runs=case.runs,
                seed=seed,
            )
            seconds.append(time.process_time() - start)
            runs.append(report.runs)
            refuted += _is_caught(case, report)
        many = statistics.median(runs)
        taken = f"{many:.0f}"
        fixed = reference(case) if case.by == "testing" else None
        ratio = f"{many / fixed:.1f}" if fixed else ""
        mark = "refuted" if refuted == len(runs) else f"refuted {refuted} of {len(runs)}"
        if fixed:
            mark += "; ≤ 4×: " + ("met" if many <= 4 * fixed else "not met")
        against = {"peer": "the best fixed-sample test", "ratio": fixed / many} if fixed else {}
        history.add("audit", case.name.replace("_", " "), many, "runs", **against)
        lines.append(
            f"| {case.name.replace('_', ' ')} | {case.by} | {taken} | {statistics.median(seconds):.2f}"
            f" | {fixed or ''} | {ratio} | {mark} |"
        )
    return lines


def _is_caught(case: Broken, report: AuditReport) -> bool:
    if case.by == "low bits":
        return report.low_bits is not None and report.low_bits.verdict == "leaks"
    return report.refuted


def power() -> list[str]:
    """White-box audits of true Gaussian steps."""
    lines = ["| ε | observations | ε found / ε, median of 101 | bounds above ε | mark |", "|---|---|---|---|---|"]
    canary = gradient_canary(50, clip=1)
    for epsilon, steps in ((1, 20_000), (4, 2000), (8, 600)):
        mu = float(gaussian_claim_to_gdp(ApproxDP(epsilon, 1e-5)).mu)
        found = []
        for seed in range(101):
            noisy = canary + np.random.default_rng(seed).normal(scale=1 / mu, size=(steps, 50))
            found.append(gdp_epsilon(white_box_mu(noisy, canary=canary).value, delta=1e-5) / epsilon)
        share = statistics.median(found)
        mark = "≥ 0.9: met" if share >= 0.9 else "≥ 0.9: not met"
        lines.append(f"| {epsilon} | {steps} | {share:.3f} | {sum(f > 1 for f in found)} of 101 | {mark} |")
    return lines


def others() -> list[str]:
    """What other libraries say about the same events, each in its own environment."""
    lines = []
    for name, code in PEERS.items():
        python = HERE / "peers" / ".venvs" / name / "bin" / "python"
        if not python.exists():
            lines.append(f"{name}: not installed; python -m venv and pip install -r bench/peers/{name}.txt")
            continue
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        said = done.stdout.strip() or done.stderr.strip().splitlines()[-1]
        lines += [f"{name}: {line}" for line in said.splitlines()]
    return lines


def main() -> None:
    """Print everything, and keep it."""
    load = os.getloadavg()[0]
    machine = f"{os.cpu_count()} cores, {platform.system()}; Python {platform.python_version()}; load {load:.1f}"
    text = "\n".join(
        [
            f"# Audits, {datetime.date.today()}",
            "",
            f"{machine}. α = {LEVEL}; medians of {SEEDS} audits; processor seconds.",
            "",
            *zoo(),
            "",
            "## White-box power (95 %, δ = 1e-5)",
            "",
            *power(),
            "",
            "## Other libraries",
            "",
            *others(),
        ]
    )
    print(text)
    history.keep("audit", text)


if __name__ == "__main__":
    main()
