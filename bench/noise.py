"""How fast the exact samplers are, with OpenDP beside them: `make bench ROOM=noise`.

Both draw integer noise that is exact by construction: ours by certified tables, OpenDP's by the rejection samplers of
Canonne, Kamath and Steinke. Each round times the peer and then ours on the same machine in the same state; the table
gives medians over the rounds and their ratio. The peer runs as a subprocess in its own virtual environment, which the
first run creates from bench/peers/opendp.txt; it is called through its Python interface, a list in and a list out.

The figures go to bench/results: noise-<date>.md and the history.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import history

HERE = Path(__file__).resolve().parent
PEER = HERE / "peers" / ".venvs" / "opendp"
ROUNDS = 5
CASES = [(law, scale) for law in ("laplace", "gaussian") for scale in (1.0, 100.0, 1e6, 1e12)]
TARGETS = {"laplace": (5.0, {1.0: 50, 100.0: 50, 1e6: 50, 1e12: 50}),
           "gaussian": (3.0, {1.0: 50, 100.0: 50, 1e6: 20, 1e12: 20})}  # fmt: skip
MANY = 10**8


def rate(draw: Callable[[int], Any], size: int) -> float:
    """Draws per second."""
    start = time.perf_counter()
    draw(size)
    return size / (time.perf_counter() - start)


def peer_round() -> dict[str, Any]:
    """One round of OpenDP; runs inside its own environment."""
    from importlib.metadata import version

    import opendp.prelude as dp

    dp.enable_features("contrib")
    rates, singles = {}, {}
    for law, scale in CASES:
        make, metric = (dp.m.make_laplace, dp.l1_distance) if law == "laplace" else (dp.m.make_gaussian, dp.l2_distance)
        vector = make(dp.vector_domain(dp.atom_domain(T="i64")), metric(T="i64"), scale=scale)
        zeros = [0] * 10_000
        vector(zeros[:100])
        rates[f"{law} {scale:g}"] = rate(lambda n: vector(zeros), len(zeros))  # noqa: B023
        scalar = make(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=scale)
        singles[f"{law} {scale:g}"] = 1e6 / rate(lambda n: [scalar(0) for _ in range(n)], 1000)  # noqa: B023
    return {"version": version("opendp"), "rates": rates, "singles": singles}


def our_round() -> dict[str, Any]:
    """One round of ours."""
    from deniable import noise

    rates, singles = {}, {}
    for law, scale in CASES:
        draw = noise.discrete_laplace if law == "laplace" else noise.discrete_gaussian
        draw(scale, 1000)
        rates[f"{law} {scale:g}"] = rate(lambda n: draw(scale, n), 2_000_000)  # noqa: B023
        singles[f"{law} {scale:g}"] = 1e6 / rate(lambda n: [draw(scale) for _ in range(n)], 10_000)  # noqa: B023
    return {"rates": rates, "singles": singles}


def first_draws() -> dict[str, float]:
    """Milliseconds to the first draw at a scale not seen before, tables included."""
    from deniable import noise

    found = {}
    for law, scale in CASES:
        draw = noise.discrete_laplace if law == "laplace" else noise.discrete_gaussian
        times = []
        for i in range(1, 8):
            start = time.perf_counter()
            draw(scale * (1 + i / 100))
            times.append(1e3 * (time.perf_counter() - start))
        found[f"{law} {scale:g}"] = statistics.median(times)
    return found


def many(law: str) -> dict[str, float]:
    """A hundred million draws in blocks; runs in a process of its own so that its peak memory is the peak."""
    from deniable import noise

    draw = noise.discrete_laplace if law == "laplace" else noise.discrete_gaussian
    draw(100.0, 1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, total = time.perf_counter(), 0
    for block in noise.blocks(lambda n: draw(100.0, n), MANY):
        total += int(block.sum())
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def elsewhere(python: Path | str, *flags: str) -> Any:
    """What this file prints in another process."""
    done = subprocess.run([str(python), __file__, *flags], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def install_peer() -> None:
    if not (PEER / "bin" / "python").exists():
        venv.create(PEER, with_pip=True)
        wanted = str(HERE / "peers" / "opendp.txt")
        subprocess.run([str(PEER / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", wanted], check=True)


def machine() -> str:
    import numpy

    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, {model}, {platform.system()}; Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}; load average {load:.1f} at the start"
    )


def report() -> str:
    where = machine()
    install_peer()
    rounds = [(elsewhere(PEER / "bin" / "python", "--peer"), our_round()) for _ in range(ROUNDS)]

    def median(side: int, kind: str, case: str) -> float:
        return statistics.median(r[side][kind][case] for r in rounds)

    lines = [
        f"# Noise, {datetime.date.today()}",
        "",
        f"{where}. OpenDP {rounds[0][0]['version']}, 64-bit integers. Medians of {ROUNDS} rounds, one thread each.",
        "",
        "| law, scale | ours, M/s | OpenDP, M/s | ratio | mark | one draw: ours, µs | OpenDP, µs | first draw, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    cold = first_draws()
    for law, scale in CASES:
        case = f"{law} {scale:g}"
        ours, theirs = median(1, "rates", case) / 1e6, median(0, "rates", case) / 1e6
        single, their_single = median(1, "singles", case), median(0, "singles", case)
        floor, ratios = TARGETS[law]
        good = ours >= floor and ours / theirs >= ratios[scale] and single <= 20
        mark = f"≥ {floor:g} M/s, ≥ {ratios[scale]}×, ≤ 20 µs: {'met' if good else 'MISSED'}"
        history.add("noise", case, ours, "M draws/s", peer="OpenDP", ratio=ours / theirs)
        lines.append(
            f"| {law} {scale:g} | {ours:.1f} | {theirs:.4f} | {ours / theirs:.0f}× | {mark} "
            f"| {single:.1f} | {their_single:.1f} | {cold[case]:.1f} |"
        )
    lines.append("")
    for law in ("laplace", "gaussian"):
        big = elsewhere(sys.executable, "--many", law)
        lines.append(
            f"{MANY:.0e} draws of the {law} law at scale 100, in blocks: {big['seconds']:.1f} s, "
            f"memory grown by {big['grown']:.1f} MiB."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time OpenDP once and print JSON")
    parser.add_argument("--many", help="draw 1e8 of this law and print JSON")
    given = parser.parse_args()
    if given.peer:
        print(json.dumps(peer_round()))
    elif given.many:
        print(json.dumps(many(given.many)))
    else:
        text = report()
        print(text)
        history.keep("noise", text)


if __name__ == "__main__":
    main()
