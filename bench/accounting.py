"""How tight and how fast the accountant is, with two peers beside it: `make bench ROOM=accounting`.

Tasks a–f are the ones people bring: many Gaussians, three kinds of DP-SGD, many Laplace queries, and a mixture. Every
tool answers the same question, ε at a δ. Ours gives a proven bracket; the peers run at their default settings, as
subprocesses in their own virtual environments, which the first run creates from bench/peers/*.txt. True values are
enclosures from the proof mode (deniable.accounting.proof), which agrees with independent high-precision values.

Each tool runs in a process of its own on one core, so that its peak memory is its own. Times are processor seconds, the
same as seconds on a quiet machine; ours are medians of 20 warm calls without the cache of `account`. The figures go to
bench/results: accounting-<date>.md and the history.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import venv
from fractions import Fraction
from pathlib import Path
from typing import Any

import history

HERE = Path(__file__).resolve().parent
PEERS = {"dp-accounting": "dp-accounting.txt", "prv-accountant": "prv-accountant.txt"}
PATIENCE = 300

Part = tuple[str, float, float, int]
"""(kind, parameter, rate, count): the parameter is a noise multiplier, or ε₀ of Laplace noise."""

TASKS: dict[str, tuple[list[Part], float, float]] = {
    "a": ([("gaussian", 1.0, 1.0, 1000)], 1e-5, 633.9298513356150),
    "b": ([("gaussian", 1.1, 256 / 60_000, 14_063)], 1e-5, 2.381689726141651),
    "c": ([("gaussian", 0.8, 0.001, 10**6)], 1e-6, 10.68240754619905),
    "d": ([("gaussian", 0.6, 0.01, 10**5)], 1e-7, 120.6122820164693),
    "e": ([("laplace", 0.1, 1.0, 1000)], 1e-6, 18.95028736753957),
    "f": ([("laplace", 0.05, 1.0, 100), ("gaussian", 20.0, 1.0, 100), ("gaussian", 1.0, 0.004, 5000)], 1e-6,
          3.787887165662135),
}  # fmt: skip
RATIOS = {"a": 500, "b": 30, "c": 50, "d": 50, "e": 30, "f": 50}
TINY = {
    "b": {1e-12: 4.174618406594860, 1e-15: 4.771841642221695, 1e-20: 5.680642750677010, 1e-50: 11.81143783283117,
          1e-100: 21.78776904244029},
    "e": {1e-12: 26.02130125636675, 1e-15: 28.80597699512022, 1e-20: 32.83379379871678, 1e-50: 49.67427191296400,
          1e-100: 67.34013523148367},
}  # fmt: skip
SIXTY: list[Part] = [("gaussian", 0.8 + 0.02 * k, 0.01 + 0.0001 * k, 100) for k in range(60)]
SIGMA = 3.8128168


# ours


def event(parts: list[Part]) -> Any:
    """The parts as an event. Rates and parameters are the decimals they print as; 256/60000 is itself."""
    from deniable.events import Gaussian, Laplace

    total = None
    for kind, parameter, rate, count in parts:
        exact = Fraction(256, 60_000) if rate == 256 / 60_000 else Fraction(f"{rate:.6g}")
        given = Fraction(f"{parameter:.6g}")
        step = Gaussian(given) if kind == "gaussian" else Laplace(1 / given)
        part = step.sampled(rate=exact) * count
        total = part if total is None else total + part
    return total


def ours(task: str) -> dict[str, Any]:
    """One task: bracket, warm milliseconds, peak memory."""
    from deniable.accounting.accountant import curve
    from deniable.accounting.fold import fold

    parts, delta, _ = (SIXTY, 1e-6, 0.0) if task == "sixty" else TASKS[task]
    what = event(parts)
    times = []
    for _ in range(6 if task == "sixty" else 21):
        start = time.process_time()
        found = curve(fold(what))
        bracket = found.epsilon_bracket(delta)
        times.append(1e3 * (time.process_time() - start))
    return {
        "lower": bracket.lower,
        "upper": bracket.upper,
        "method": found.method,
        "ms": statistics.median(times[1:]),
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def ours_tiny() -> list[dict[str, object]]:
    """Tiny deltas on b and e, and the count up to 10^9."""
    from deniable.accounting.accountant import curve
    from deniable.accounting.fold import fold

    rows = []
    for task, deltas in TINY.items():
        for delta in deltas:
            start = time.process_time()
            found = curve(fold(event(TASKS[task][0]))).epsilon_bracket(delta)
            ms = 1e3 * (time.process_time() - start)
            rows.append({"task": task, "delta": delta, "lower": found.lower, "upper": found.upper, "ms": ms})
    for count in (10**3, 10**5, 10**7, 10**9):
        what = event([("gaussian", 1.1, 0.004, count)])
        curve(fold(what)).epsilon_bracket(1e-6)
        start = time.process_time()
        found = curve(fold(what)).epsilon_bracket(1e-6)
        ms = 1e3 * (time.process_time() - start)
        rows.append({"task": f"T={count:.0e}", "delta": 1e-6, "lower": found.lower, "upper": found.upper, "ms": ms})
    return rows


GROUPS = {2: 3.9790857630, 3: 6.3429329743, 5: 11.637974385, 10: 27.899558250}
"""Members of a group and ε at σ = 1, q = 0.01, 1000 steps, δ = 1e-5."""


def ours_group(members: int) -> dict[str, Any]:
    """A run for a group."""
    from deniable.accounting.accountant import curve
    from deniable.accounting.fold import fold
    from deniable.events import dpsgd

    what, times = dpsgd(noise_multiplier=1, rate=0.01, steps=1000).for_group(members), []
    for _ in range(6):
        start = time.process_time()
        bracket = curve(fold(what)).epsilon_bracket(1e-5)
        times.append(1e3 * (time.process_time() - start))
    return {"lower": bracket.lower, "upper": bracket.upper, "ms": statistics.median(times[1:])}


def ours_calibration() -> dict[str, float]:
    """The noise for ε = 1, δ = 10^{-5} at rate 1 % and 10^4 steps."""
    from deniable import calibration
    from deniable.events import dpsgd
    from deniable.guarantees import ApproxDP

    times = []
    for _ in range(5):
        sys.modules["deniable.accounting.accountant"]._curve.cache_clear()
        start = time.process_time()
        found = calibration.calibrate(lambda s: dpsgd(noise_multiplier=s, rate=0.01, steps=10_000), ApproxDP(1, 1e-5))
        times.append(time.process_time() - start)
    return {"value": float(found.value), "seconds": statistics.median(times[1:])}


# peers; these run inside their own environments


def peer_dp_accounting(task: str) -> dict[str, Any]:
    """PLD accounting at its default grid of 1e-4."""
    from importlib.metadata import version

    import dp_accounting as dpa
    from dp_accounting import pld

    start = time.process_time()
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE)
    parts: list[Any] = []
    deltas = [1e-5]
    if task.startswith("group "):
        members = int(task.split(" ")[1])
        weights = [math.comb(members, j) * 0.01**j * 0.99 ** (members - j) for j in range(members + 1)]
        step = dpa.dp_event.MixtureOfGaussiansDpEvent(1.0, list(range(members + 1)), weights)
        accountant.compose(step, 1000)
    else:
        parts, delta, _ = (SIXTY, 1e-6, 0.0) if task == "sixty" else TASKS[task.partition(" ")[0]]
        deltas = [float(d) for d in task.split(" ")[1:]] or [delta]
    for kind, parameter, rate, count in parts:
        step = dpa.GaussianDpEvent(parameter) if kind == "gaussian" else dpa.LaplaceDpEvent(1 / parameter)
        accountant.compose(step if rate == 1 else dpa.PoissonSampledDpEvent(rate, step), count)
    found = [accountant.get_epsilon(d) for d in deltas]
    return {"epsilon": found, "seconds": time.process_time() - start, "version": version("dp-accounting"),
            "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}  # fmt: skip


def peer_prv_accountant(task: str) -> dict[str, Any]:
    """PRV accounting at its default error of 0.1 in ε."""
    from importlib.metadata import version

    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import (
        GaussianMechanism,
        LaplaceMechanism,
        PoissonSubsampledGaussianMechanism,
    )

    parts, delta, _ = (SIXTY, 1e-6, 0.0) if task == "sixty" else TASKS[task.partition(" ")[0]]
    deltas = [float(d) for d in task.split(" ")[1:]] or [delta]
    start = time.process_time()
    laws, counts = [], []
    for kind, parameter, rate, count in parts:
        if kind == "laplace":
            laws.append(LaplaceMechanism(mu=parameter))
        elif rate == 1:
            laws.append(GaussianMechanism(noise_multiplier=parameter))
        else:
            laws.append(PoissonSubsampledGaussianMechanism(noise_multiplier=parameter, sampling_probability=rate))
        counts.append(count)
    found = []
    for d in deltas:
        accountant = PRVAccountant(prvs=laws, max_self_compositions=counts, eps_error=0.1, delta_error=d / 1000)
        found.append(accountant.compute_epsilon(d, counts)[2])
    return {"epsilon": found, "seconds": time.process_time() - start, "version": version("prv-accountant"),
            "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}  # fmt: skip


# the table


def elsewhere(python: Path | str, *flags: str) -> Any:
    """What this file prints in another process, on one core; None when a peer failed or took too long."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [str(python), __file__, *flags]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **one})
    except subprocess.TimeoutExpired:
        return None
    if done.returncode and python == sys.executable:
        raise SystemExit(done.stderr)
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def install(peer: str) -> Path:
    """The peer's own Python."""
    place = HERE / "peers" / ".venvs" / peer
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
        wanted = str(HERE / "peers" / PEERS[peer])
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
    return python


def machine() -> str:
    import numpy

    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return (
        f"{os.cpu_count()} cores, {model}, {platform.system()}; Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}; load average {os.getloadavg()[0]:.1f} at the start"
    )


def shown(found: dict[str, Any] | None, asked: bool) -> str:
    """A peer's answer: ε, seconds, memory."""
    if found is None:
        return f"failed, or over {PATIENCE} s" if asked else "not run"
    value = found["epsilon"][0]
    return f"{value:.10g} in {found['seconds']:.2f} s, {found['mb']:.0f} MB"


def mark(good: bool) -> str:
    return "met" if good else "MISSED"


def report(skip_peers: bool) -> str:
    where = machine()
    pythons = {} if skip_peers else {peer: install(peer) for peer in PEERS}
    lines = [
        f"# Accounting, {datetime.date.today()}",
        "",
        f"{where}. Processor time on one core each; ours: median of 20 warm calls from the event to ε, no cache.",
        "",
        "| task | true ε | ours, upper end | width / ε | ms | MB "
        "| dp-accounting PLD | ratio | prv-accountant | ratio | marks |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    versions: dict[str, str] = {}
    asked = bool(pythons)
    for task, (_, delta, true) in TASKS.items():
        mine = elsewhere(sys.executable, "--ours", task)
        theirs = {peer: elsewhere(python, "--peer", peer, "--task", task) for peer, python in pythons.items()}
        versions |= {peer: found["version"] for peer, found in theirs.items() if found}
        ratio = {peer: 1e3 * found["seconds"] / mine["ms"] if found else math.nan for peer, found in theirs.items()}
        width = (mine["upper"] - mine["lower"]) / mine["upper"]
        holds = mine["lower"] <= true * (1 + 1e-13) and true * (1 - 1e-13) <= mine["upper"]
        first = theirs.get("dp-accounting")
        tighter = mark(first is None or mine["upper"] <= first["epsilon"][0])
        if first and first["epsilon"][0] < mine["lower"]:
            tighter = "theirs is below the truth"
        for peer, times in ratio.items() or {None: None}.items():
            history.add("accounting", f"task {task}", mine["ms"], "ms", peer=peer, ratio=times)
        fast = not first or ratio["dp-accounting"] >= RATIOS[task]
        marks = (
            f"contains the truth: {mark(holds)}; ≤ 1e-6: {mark(width <= 1e-6)}; ≤ 20 ms: {mark(mine['ms'] <= 20)}; "
            f"≥ {RATIOS[task]}×: {mark(fast)}; tighter: {tighter}; < 200 MB: {mark(mine['mb'] < 200)}"
        )
        lines.append(
            f"| {task}, δ = {delta:g} | {true:.10g} | {mine['upper']:.12g} | {width:.1e} | {mine['ms']:.1f} "
            f"| {mine['mb']:.0f} | {shown(first, asked)} | {ratio.get('dp-accounting', math.nan):.0f}× "
            f"| {shown(theirs.get('prv-accountant'), asked)} | {ratio.get('prv-accountant', math.nan):.0f}× | {marks} |"
        )
    lines += ["", "Peers: " + ", ".join(f"{peer} {found}" for peer, found in versions.items()) + ".", ""]
    lines += tiny_rows(pythons)
    lines += group_rows(pythons)
    lines += sixty_row(pythons)
    chosen = elsewhere(sys.executable, "--calibration")
    history.add("accounting", "calibration", chosen["seconds"], "s")
    lines += [
        f"Calibration (ε = 1, δ = 1e-5, q = 0.01, 10 000 steps; true σ = {SIGMA}): σ = {chosen['value']:.7f} in "
        f"{chosen['seconds']:.3f} s; mark ≤ 0.15 s, within 1e-5 above: "
        f"{mark(chosen['seconds'] <= 0.15 and -1e-7 <= chosen['value'] / SIGMA - 1 <= 1e-5)}.",
        "",
    ]
    return "\n".join(lines)


def tiny_rows(pythons: dict[str, Path]) -> list[str]:
    """Tiny deltas, and counts."""
    lines = [
        "| question | true ε | ours, upper end | width / ε | ms | dp-accounting PLD | prv-accountant |",
        "|---|---|---|---|---|---|---|",
    ]
    theirs: dict[tuple[str, str, float], str] = {}
    for task, deltas in TINY.items():
        for peer, python in pythons.items():
            for delta in deltas:
                found = elsewhere(python, "--peer", peer, "--task", f"{task} {delta!r}")
                theirs[peer, task, delta] = "fails" if found is None else f"{found['epsilon'][0]:.7g}"
    for row in elsewhere(sys.executable, "--tiny"):
        true = TINY.get(row["task"], {}).get(row["delta"])
        others = [theirs.get((peer, row["task"], row["delta"]), "") for peer in PEERS]
        width = (row["upper"] - row["lower"]) / row["upper"]
        lines.append(
            f"| {row['task']}, δ = {row['delta']:g} | {'' if true is None else f'{true:.10g}'} | {row['upper']:.11g} "
            f"| {width:.1e} | {row['ms']:.1f} | {others[0]} | {others[1]} |"
        )
    return [*lines, ""]


def group_rows(pythons: dict[str, Path]) -> list[str]:
    """Groups under Poisson sampling."""
    lines = [
        "| group of | true ε | ours, upper end | width / ε | ms | dp-accounting PLD | marks |",
        "|---|---|---|---|---|---|---|",
    ]
    for members, true in GROUPS.items():
        mine = elsewhere(sys.executable, "--group", str(members))
        python = pythons.get("dp-accounting")
        other = elsewhere(python, "--peer", "dp-accounting", "--task", f"group {members}") if python else None
        ratio = 1e3 * other["seconds"] / mine["ms"] if other else None
        history.add("accounting", f"group of {members}", mine["ms"], "ms", peer="dp-accounting", ratio=ratio)
        width = (mine["upper"] - mine["lower"]) / mine["upper"]
        tighter = other is None or mine["upper"] <= other["epsilon"][0]
        lines.append(
            f"| {members} | {true:.10g} | {mine['upper']:.11g} | {width:.1e} | {mine['ms']:.1f} "
            f"| {shown(other, bool(pythons))} "
            f"| contains the truth: {mark(abs(mine['upper'] / true - 1) < 1e-9)}; tighter: {mark(tighter)} |"
        )
    return [*lines, ""]


def sixty_row(pythons: dict[str, Path]) -> list[str]:
    """Sixty different sampled Gaussians."""
    mine = elsewhere(sys.executable, "--ours", "sixty")
    other = elsewhere(pythons["dp-accounting"], "--peer", "dp-accounting", "--task", "sixty") if pythons else None
    return [
        f"60 different sampled Gaussians, 100 steps each: ours {mine['upper']:.9g} in {mine['ms'] / 1e3:.3f} s, "
        f"{mine['mb']:.0f} MB (mark ≤ 0.5 s: {mark(mine['ms'] <= 500)}); dp-accounting {shown(other, bool(pythons))}.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", help="answer one task and print JSON")
    parser.add_argument("--tiny", action="store_true", help="answer the tiny deltas and print JSON")
    parser.add_argument("--group", type=int, help="answer for a group and print JSON")
    parser.add_argument("--calibration", action="store_true", help="calibrate and print JSON")
    parser.add_argument("--peer", choices=[*PEERS], help="which peer this process is")
    parser.add_argument("--task", help="the task of the peer, with deltas after it")
    parser.add_argument("--skip-peers", action="store_true", help="ours alone")
    given = parser.parse_args()
    if given.ours:
        print(json.dumps(ours(given.ours)))
    elif given.tiny:
        print(json.dumps(ours_tiny()))
    elif given.group:
        print(json.dumps(ours_group(given.group)))
    elif given.calibration:
        print(json.dumps(ours_calibration()))
    elif given.peer:
        peer = peer_dp_accounting if given.peer == "dp-accounting" else peer_prv_accountant
        print(json.dumps(peer(given.task)))
    else:
        text = report(given.skip_peers)
        print(text)
        history.keep("accounting", text)


if __name__ == "__main__":
    main()
