"""Audits: runs and seconds until a broken mechanism is refuted, next to a fixed-sample test: `make bench ROOM=audit`.

For a mechanism whose most telling event is known, the reference is the smallest number of runs with which the exact
joint test on that event refutes the claim at α = 1e-3 when the counts are the expected ones: a test at power one half
that was told where to look. The goal is 4 times as many.

Also: what released versions of other libraries get wrong, where they are installed (bench/peers), and how near a
white-box audit of noisy gradient steps comes to the truth. False alarms have a bench of their own (false_alarms.py).
Results go to bench/results/audit-<date>.md.
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

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from deniable.auditing import audit  # noqa: E402
from deniable.auditing.statistics import Counts, gdp_epsilon, joint_test  # noqa: E402
from deniable.auditing.training import gradient_canary, white_box_mu  # noqa: E402
from deniable.conversions import gaussian_claim_to_gdp  # noqa: E402
from deniable.guarantees import ApproxDP, PureDP  # noqa: E402
from tests.attacks import noise_bugs, query_bugs, selection_bugs, training_bugs  # noqa: E402, F401
from tests.attacks.zoo import ZOO, Broken  # noqa: E402

LEVEL = 1e-3
SEEDS = 5

PEERS = {
    "dp-accounting": """
import dp_accounting
from dp_accounting import pld, rdp
one = pld.PLDAccountant(); one.compose(dp_accounting.RandomizedResponseDpEvent(0.2, 2), 1)
ten = pld.PLDAccountant(); ten.compose(dp_accounting.RandomizedResponseDpEvent(0.2, 2), 10)
print(f"randomized response once: {one.get_epsilon(1e-5):.4f}; ten times: {ten.get_epsilon(1e-5):.4f}")
relation = dp_accounting.NeighboringRelation.REPLACE_ONE
event = dp_accounting.GaussianDpEvent(1.0)
bound = rdp.RdpAccountant(neighboring_relation=relation); bound.compose(event)
exact = pld.PLDAccountant(neighboring_relation=relation); exact.compose(event)
print(f"one Gaussian under replace: RDP {bound.get_epsilon(1e-5):.3f}, PLD {exact.get_epsilon(1e-5):.3f}")
""",
}


def reference(case: Broken) -> int | None:
    """Runs, both worlds together, of the fixed-sample test on the best event."""
    if case.best is None or not isinstance(case.claim, PureDP | ApproxDP):
        return None
    high, low = case.best
    epsilon = case.claim.epsilon
    delta = case.claim.delta if isinstance(case.claim, ApproxDP) else 0
    n = 4
    while n < 10**6:
        counts = Counts(round(n * high), n, round(n * low), n)
        if joint_test(counts, epsilon=epsilon, delta=delta) <= LEVEL:
            return 2 * n
        n = math.ceil(n * 1.1)
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
                replay=case.by == "replay",
            )
            seconds.append(time.process_time() - start)
            runs.append(report.runs)
            refuted += report.refuted
        many = statistics.median(runs)
        fixed = reference(case) if case.by == "testing" else None
        ratio = f"{many / fixed:.1f}" if fixed else ""
        mark = "refuted" if refuted == len(runs) else f"refuted {refuted} of {len(runs)}"
        if fixed:
            mark += "; ≤ 4×: " + ("met" if many <= 4 * fixed else "not met")
        lines.append(
            f"| {case.name.replace('_', ' ')} | {case.by} | {many:.0f} | {statistics.median(seconds):.2f}"
            f" | {fixed or ''} | {ratio} | {mark} |"
        )
    return lines


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
    (HERE / "results" / f"audit-{datetime.date.today()}.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
