"""Five hundred random events, with dp-accounting beside: `python bench/accounting_events.py`.

Every event is one that dp-accounting can describe: Gaussian, Laplace and discrete Laplace noise, Poisson samples with
rates from 1e-9 to 1, groups of up to ten (its mixture of Gaussians), truncated batches, and sums of these; up to 1e9
steps, δ from 1e-12 to 1e-3. Noise is drawn so that most runs cost between a thousandth and some tens in ε. Both tools
get the same numbers. The peer runs at its defaults, in its own virtual environment, in one process for all events; each
event has `PATIENCE` seconds there. Times are processor seconds from the event to ε, without the start of Python.

The question for each event: is our proven upper end ever above the peer's answer? A peer's answer below our proven
lower end is too small, and is counted apart. For truncated batches dp-accounting takes the number of units as known
exactly, and we take it as a limit: where the capacity is a few units, ours costs more.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import accounting
import history

COUNT, SEED, PATIENCE = 500, 23, 20
MEMORY = 6 * 2**30
Event = dict[str, Any]
"""kind, scale, rate, count, members, delta; a sum has `parts` instead of a kind of its own."""

KINDS = {
    "sampled gaussian": 40,
    "group": 15,
    "sampled laplace": 10,
    "gaussian": 5,
    "laplace": 6,
    "discrete laplace": 6,
    "truncated": 8,
    "sum": 10,
}


def draw(number: int = COUNT, seed: int = SEED) -> list[Event]:
    """The events, the same for every tool."""
    source = random.Random(seed)
    return [draw_event(source) for _ in range(number)]


def draw_event(source: random.Random) -> Event:
    kind = source.choices(list(KINDS), KINDS.values())[0]
    delta = digits(10 ** source.uniform(-12, -3))
    if kind == "sum":
        kinds = [each for each in KINDS if each not in ("sum", "truncated")]
        parts = [draw_part(source, source.choice(kinds), most=1e6) for _ in range(source.randint(2, 4))]
        return {"kind": "sum", "parts": parts, "delta": delta}
    return {**draw_part(source, kind), "delta": delta}


def draw_part(source: random.Random, kind: str, most: float = 1e9) -> Event:
    """One kind of step, many times. `reach` is about the number of standard deviations that the run moves a unit."""
    sampled = kind in ("sampled gaussian", "group", "sampled laplace", "truncated")
    rate = digits(10 ** source.uniform(-9, 0)) if sampled else 1.0
    count = round(10 ** source.uniform(0, math.log10(most)))
    members = source.randint(2, 10) if kind == "group" else 1
    reach = 10 ** source.uniform(-2, 0.8)
    least = members * rate * math.sqrt(count) / reach
    scale = digits(max(least, 10 ** source.uniform(-0.4, 1)))
    part = {"kind": kind, "scale": scale, "rate": rate, "count": count, "members": members}
    if kind == "truncated":
        size = round(10 ** source.uniform(2, 6))
        part |= {"rate": digits(10 ** source.uniform(-4, -0.5)), "size": size}
        expected = size * part["rate"]
        part["scale"] = digits(max(scale, part["rate"] * math.sqrt(count) / reach))
        part["capacity"] = max(1, math.ceil(expected + source.uniform(0, 8) * math.sqrt(expected)))
    if kind == "discrete laplace":
        part["sensitivity"] = source.randint(1, 3)
    return part


def digits(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")


# ours


def our_event(event: Event) -> Any:
    """As an event of deniable."""
    from deniable.events import DiscreteLaplace, Gaussian, Laplace

    if event["kind"] == "sum":
        total = our_event(event["parts"][0])
        for part in event["parts"][1:]:
            total = total + our_event(part)
        return total
    kind, scale, rate = event["kind"], event["scale"], event["rate"]
    if kind == "truncated":
        step = Gaussian(scale).truncated(rate=rate, capacity=event["capacity"], size=event["size"])
    elif kind == "discrete laplace":
        step = DiscreteLaplace(scale, event["sensitivity"])
    else:
        step = (Laplace if "laplace" in kind else Gaussian)(scale).sampled(rate=rate)
    return (step.for_group(event["members"]) if event["members"] > 1 else step) * event["count"]


def ours(events: list[Event]) -> None:
    """One line of JSON for each event."""
    from deniable.accounting.accountant import curve
    from deniable.accounting.fold import fold

    for event in events:
        what = our_event(event)
        start = time.process_time()
        answer = curve(fold(what))
        bracket = answer.epsilon_bracket(event["delta"])
        seconds = time.process_time() - start
        line = {"lower": bracket.lower, "upper": bracket.upper, "seconds": seconds, "method": answer.method}
        print(json.dumps(line), flush=True)


# the peer, inside its own environment


def peer_step(event: Event) -> Any:
    """One step as an event of dp-accounting."""
    import dp_accounting as dpa

    kind, scale, rate, members = event["kind"], event["scale"], event["rate"], event["members"]
    if kind == "group":
        weights = [math.comb(members, j) * rate**j * (1 - rate) ** (members - j) for j in range(members + 1)]
        return dpa.dp_event.MixtureOfGaussiansDpEvent(scale, list(range(members + 1)), weights)
    if kind == "truncated":
        return dpa.dp_event.TruncatedSubsampledGaussianDpEvent(event["size"], rate, event["capacity"], scale)
    if kind == "discrete laplace":
        return dpa.dp_event.DiscreteLaplaceDpEvent(1 / scale, event["sensitivity"])
    step = dpa.LaplaceDpEvent(scale) if "laplace" in kind else dpa.GaussianDpEvent(scale)
    return dpa.PoissonSampledDpEvent(rate, step) if rate < 1 else step


def peers(events: list[Event]) -> None:
    """One line of JSON for each event: its ε, or what went wrong."""
    import dp_accounting as dpa
    from dp_accounting import pld

    def give_up(*_: object) -> None:
        raise TimeoutError

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, give_up)
    for event in events:
        start = time.process_time()
        signal.alarm(PATIENCE)
        try:
            accountant = pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE)
            for part in event.get("parts", [event]):
                accountant.compose(peer_step(part), part["count"])
            answer: dict[str, Any] = {"epsilon": float(accountant.get_epsilon(event["delta"]))}
        except Exception as problem:  # noqa: BLE001 - whatever the peer raises is its answer
            answer = {"problem": type(problem).__name__}
        signal.alarm(0)
        print(json.dumps({**answer, "seconds": time.process_time() - start}), flush=True)


# the table


def compare(events: list[Event], mine: list[Event], theirs: list[Event]) -> str:
    """The report, with every event at which ours is not the smaller."""
    verdicts: Counter[str] = Counter()
    ratios, widths, looser = [], [], []
    for event, our, other in zip(events, mine, theirs, strict=True):
        widths.append((our["upper"] - our["lower"]) / our["upper"] if our["upper"] else 0.0)
        verdict = judge(our, other)
        verdicts[verdict] += 1
        if "epsilon" in other:
            ratios.append(other["seconds"] / our["seconds"])
        if verdict == "ours is larger":
            looser.append((our["upper"] / other["epsilon"] - 1, event, our, other))
    finite = sum(our["upper"] < math.inf for our in mine)
    exact = sum(width <= 1e-6 for width, our in zip(widths, mine, strict=True) if "of the bound" not in our["method"])
    claimed = sum("of the bound" not in our["method"] for our in mine)
    faster = statistics.median(ratios)
    every = statistics.median(other["seconds"] / our["seconds"] for our, other in zip(mine, theirs, strict=True))
    lines = [
        f"# {len(events)} random events, {history.datetime.now(history.UTC).date()}",
        "",
        f"{accounting.machine()}. Seed {SEED}; dp-accounting at its defaults, {PATIENCE} s for each event.",
        "",
        *(f"- {words}: {number}" for words, number in sorted(verdicts.items())),
        f"- ours is finite at {finite}; width ≤ 1e-6 at {exact} of {claimed} brackets that claim the events themselves",
        f"- seconds: ours {statistics.median(our['seconds'] for our in mine):.4f} in the median, "
        f"{max(our['seconds'] for our in mine):.2f} at most; dp-accounting "
        f"{statistics.median(other['seconds'] for other in theirs):.3f} and {max(o['seconds'] for o in theirs):.1f}; "
        f"ratio {faster:.1f} in the median of the events that both answer "
        f"(mark ≥ 10: {accounting.mark(faster >= 10)}), "
        f"{every:.1f} if an event that dp-accounting gave up counts with the time it had used",
        f"- never looser: {accounting.mark(not looser)}",
        "",
    ]
    for excess, event, our, other in sorted(looser, key=lambda row: -row[0]):
        lines.append(f"- {excess:.1e} larger: {json.dumps(event)}: {our} against {other['epsilon']!r}")
    return "\n".join(lines)


def judge(our: Event, other: Event) -> str:
    """What the comparison of one event says."""
    if "epsilon" not in other:
        return f"dp-accounting gives no answer ({other['problem']})"
    if other["epsilon"] == math.inf > our["upper"]:
        return "dp-accounting says infinity"
    if other["epsilon"] < our["lower"] and "of the bound" not in our["method"]:
        return "dp-accounting is below our proven lower end: too small"
    return "ours is the smaller, or equal" if our["upper"] <= other["epsilon"] else "ours is larger"


def lines_of(command: list[str]) -> list[Event]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=["ours", "peer"], help="answer all events and print JSON lines")
    parser.add_argument("--answers", type=Path, help="a file with the peer's answers of an earlier run")
    given = parser.parse_args()
    events = draw()
    if given.tool:
        (ours if given.tool == "ours" else peers)(events)
        return
    mine = lines_of([sys.executable, __file__, "--tool", "ours"])
    if given.answers:
        theirs = [json.loads(line) for line in given.answers.read_text(encoding="utf-8").splitlines()]
    else:
        theirs = lines_of([str(accounting.install("dp-accounting")), __file__, "--tool", "peer"])
    text = compare(events, mine, theirs)
    ratio = statistics.median(o["seconds"] / m["seconds"] for m, o in zip(mine, theirs, strict=True) if "epsilon" in o)
    seconds = statistics.median(our["seconds"] for our in mine)
    history.add("accounting_events", "500 random events", 1e3 * seconds, "ms", peer="dp-accounting", ratio=ratio)
    print(text)
    history.keep("accounting_events", text)


if __name__ == "__main__":
    main()
