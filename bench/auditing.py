"""Auditors beside one another, and audits of other libraries: `make bench ROOM=auditing`.

1. Runs until each planted bug of tests/attacks is refuted: by `audit` as it is, by its game on outputs alone, and by
   jax_privacy.auditing and privacy-estimates (bench/peers). Those two take one number per run, so an output of several
   numbers is given to them as its component along the difference of the two means, learnt from runs that are not
   counted; outputs that are not numbers they cannot take. Peers may look after every batch without paying for it.
2. Dividing by the batch that came, at rates from one half to one in twenty, beside the right twin.
3. Audits of what other libraries release: diffprivlib, OpenDP, and a step of Opacus, each beside a control of the same
   code with a bug, which must be caught.

`bench/audit.py` compares with the best fixed-sample test. Results: bench/results/auditing-<date>.md and the history.

    python bench/auditing.py [--streams 3] [--only peers|samples|libraries]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import history
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import deniable as dn  # noqa: E402
from deniable.auditing import AuditReport, audit  # noqa: E402
from deniable.auditing.claims import Claim  # noqa: E402
from deniable.auditing.neighbours import pair_of  # noqa: E402
from tests.attacks import noise_bugs, query_bugs, selection_bugs, sight_bugs, training_bugs  # noqa: E402, F401
from tests.attacks.zoo import ZOO, Broken  # noqa: E402

LEVEL = 1e-3
MOST = 8192
"""Runs after which a peer, and the game on outputs alone, give up."""

PILOT = 500
"""Runs of each world that choose the direction of a score for the peers; they are not counted."""

ENVIRONMENTS = HERE / "peers" / ".venvs"
PEERS = ("jax-privacy", "privacy-estimates")


def numbers(case: Broken, runs: int, *, second: bool) -> Any:
    """The numbers of some outputs, one row per run; None where an output is anything else."""
    pair, rows = pair_of(case.neighbours), []
    for _ in range(runs):
        try:
            value = case.mechanism(pair.second if second else pair.first)
        except ValueError:
            return None
        flat = [value] if isinstance(value, int | float) else value
        if not isinstance(flat, list | tuple | np.ndarray):
            return None
        row = np.asarray(flat)
        if row.ndim != 1 or row.dtype.kind not in "biuf" or len(row) == 0:
            return None
        rows.append(row.astype(float))
    if len({len(row) for row in rows}) > 1:
        return None
    return np.stack(rows)


def scores(case: Broken, streams: int) -> dict[str, Any] | None:
    """Streams of scores of both worlds, by name; None where outputs are not numbers of one length."""
    pilot = [numbers(case, PILOT, second=second) for second in (False, True)]
    if any(rows is None or not np.isfinite(rows).all() for rows in pilot) or pilot[0].shape[1] != pilot[1].shape[1]:
        return None
    apart = pilot[0].mean(axis=0) - pilot[1].mean(axis=0)
    direction = apart / (pilot[0].var(axis=0) + pilot[1].var(axis=0) + 1e-12)
    found = {}
    for stream in range(streams):
        for name, second in (("in", False), ("out", True)):
            found[f"{case.name}/{stream}/{name}"] = numbers(case, MOST // 2, second=second) @ direction
    return found


def peer_runs(streams: int) -> tuple[dict[str, dict[str, float | None]], float]:
    """The median number of runs of every peer for every bug; infinite beyond the limit, None where it sees nothing.

    Beside that, what jax_privacy's bound on μ says of two equal laws.
    """
    cases: list[dict[str, Any]] = []
    drawn: dict[str, Any] = {}
    for case in ZOO.values():
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            found = scores(case, streams)
        if found is not None:
            drawn |= found
            attacked = [(line.epsilon, line.delta) for line in Claim.of(case.claim).lines if line.delta < 0.9]
            cases.append({"name": case.name, "streams": streams, "lines": attacked})
    answers: dict[str, dict[str, float | None]] = {}
    equal = math.nan
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases.json").write_text(json.dumps({"level": LEVEL, "cases": cases}), encoding="utf-8")
        np.savez(Path(folder) / "scores.npz", **drawn)
        for peer in PEERS:
            python = ENVIRONMENTS / peer / "bin" / "python"
            if not python.exists():
                raise SystemExit(f"{peer} is not installed: see bench/peers/{peer}.txt")
            script = [str(python), str(HERE / "peers" / "auditing.py"), peer, folder]
            done = subprocess.run(script, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            said = json.loads(done.stdout)
            seen = {
                name: statistics.median(math.inf if each is None else each for each in runs)
                for name, runs in said["runs"].items()
            }
            answers[f"{peer} {said['version']}"] = {name: seen.get(name) for name in ZOO}
            equal = said.get("equal laws", equal)
    return answers, equal


def our_runs(case: Broken, streams: int, *, replay: bool) -> float:
    """The median number of runs of our audit: everything that it ran, try-outs and replays included."""
    counts = []
    for seed in range(streams):
        report = audit(
            case.mechanism,
            neighbours=case.neighbours,
            claim=case.claim,
            confidence=1 - LEVEL,
            runs=MOST if not replay else max(MOST, case.runs),
            seed=seed,
            replay=replay,
        )
        counts.append(report.runs if _is_caught(case, report) else math.inf)
    return statistics.median(counts)


def _is_caught(case: Broken, report: AuditReport) -> bool:
    if case.by == "low bits":
        return report.low_bits is not None and report.low_bits.verdict == "leaks"
    return report.refuted


def beside_peers(streams: int) -> list[str]:
    """One line per planted bug, then the ratios."""
    peers, equal = peer_runs(streams)
    said = [
        "| planted bug | audit | outputs alone | " + " | ".join(peers) + " |",
        "|---|---|---|" + "---|" * len(peers),
    ]
    ratios: dict[str, list[float]] = {"audit": [], "outputs alone": []}
    unseen, beyond, refuted = 0, 0, 0
    for case in ZOO.values():
        ours = {"audit": our_runs(case, streams, replay=True), "outputs alone": our_runs(case, streams, replay=False)}
        theirs = [peers[peer][case.name] for peer in peers]
        best = min((each for each in theirs if each is not None), default=None)
        refuted += math.isfinite(ours["audit"])
        unseen += best is None
        beyond += best is not None and math.isinf(best)
        for way, runs in ours.items():
            if best is not None and not (math.isinf(runs) and math.isinf(best)):
                ratios[way].append(runs / best)
        numbered = [*(_count(each) for each in ours.values()), *(_count(each) for each in theirs)]
        said.append(f"| {case.name.replace('_', ' ')} | " + " | ".join(numbered) + " |")
    said += ["", f"{refuted} of {len(ZOO)} refuted by audit. Peers cannot take the outputs of {unseen} ("
             f"no single number, or none at all), and need more than {MOST} runs for {beyond}."]  # fmt: skip
    said.append(
        "jax_privacy's `epsilon_from_gdp` is left out: of 1,000 scores from each of two equal laws it says, in"
        f" the median, ε ≥ {equal:.1f} at δ = 1e-5 with 99.9 % confidence."
    )
    for way, values in ratios.items():
        finite = [value for value in values if value]  # 0 where both peers gave up
        middle, everything = statistics.median(finite), statistics.median([*values, *[0.0] * unseen])
        mark = "met" if middle <= 0.5 else "not met"
        said.append(
            f"Runs of {way} beside the better peer: median ratio {middle:.2f} over the {len(finite)} bugs that a peer"
            f" refutes (≤ 0.5: {mark}); {everything:.2f} over all {len(values) + unseen}, with 0 where no peer does."
        )
        history.add("auditing", f"runs of {way}", middle, "of the peer's", peer="the better peer", ratio=1 / middle)
    history.add("auditing", "planted bugs refuted", refuted, f"of {len(ZOO)}")
    history.add("auditing", "planted bugs that peers cannot take", unseen, f"of {len(ZOO)}")
    return said


def _count(runs: float | None) -> str:
    if runs is None:
        return "cannot take it"
    return f"> {MOST}" if math.isinf(runs) else f"{runs:.0f}"


@dataclass(frozen=True)
class Library:
    """One release of a library, its claim, and the control: the same with a bug."""

    name: str
    mechanism: Callable[[Any], Any]
    control: Callable[[Any], Any]
    neighbours: Any
    claim: Any
    runs: int = 2000


MANY, FEWER = [0.0] * 20 + [1.0] * 21, [0.0] * 20 + [1.0] * 20


def diffprivlib_releases() -> Iterator[Library]:
    """Mechanisms and tools of diffprivlib. Its models want an older scikit-learn, and are left out."""
    sys.modules.setdefault("diffprivlib.models", types.ModuleType("diffprivlib.models"))
    from diffprivlib import mechanisms, tools

    def laplace(scale: float) -> Callable[[Any], Any]:
        return lambda rows: mechanisms.Laplace(epsilon=1 / scale, sensitivity=1).randomise(sum(rows))

    def geometric(epsilon: float) -> Callable[[Any], Any]:
        return lambda rows: mechanisms.Geometric(epsilon=epsilon, sensitivity=1).randomise(int(sum(rows)))

    def gaussian(epsilon: float) -> Callable[[Any], Any]:
        return lambda rows: mechanisms.GaussianAnalytic(epsilon=epsilon, delta=1e-3, sensitivity=1).randomise(sum(rows))

    def histogram(epsilon: float) -> Callable[[Any], Any]:
        return lambda rows: tools.histogram(rows, epsilon=epsilon, bins=2, range=(0, 1))[0]

    def mean(epsilon: float) -> Callable[[Any], Any]:
        return lambda rows: tools.mean(rows, epsilon=epsilon, bounds=(0, 1))

    claim, pair = dn.PureDP(1), (MANY, FEWER)
    yield Library("diffprivlib, Laplace", laplace(1), laplace(0.5), pair, claim)
    yield Library("diffprivlib, Geometric", geometric(1), geometric(2), pair, claim)
    yield Library("diffprivlib, GaussianAnalytic", gaussian(1), gaussian(3), pair, dn.ApproxDP(1, 1e-3))
    yield Library("diffprivlib, histogram", histogram(1), histogram(2), pair, claim)
    replaced = dn.PureDP(1, relation="replace")
    narrow = [0.0] * 5, [1.0] + [0.0] * 4
    yield Library("diffprivlib, mean (n public)", mean(1), mean(2), narrow, replaced)


def opendp_releases() -> Iterator[Library]:
    """Measurements of OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point")

    def laplace(scale: float) -> Callable[[Any], Any]:
        space = dp.vector_domain(dp.atom_domain(bounds=(0, 1))), dp.symmetric_distance()
        measurement = space >> dp.t.then_sum() >> dp.m.then_laplace(scale=scale)
        return lambda rows: measurement([int(row) for row in rows])

    def gaussian(scale: float) -> Callable[[Any], Any]:
        space = dp.vector_domain(dp.atom_domain(bounds=(0, 1))), dp.symmetric_distance()
        measurement = space >> dp.t.then_sum() >> dp.m.then_gaussian(scale=scale)
        return lambda rows: measurement([int(row) for row in rows])

    def response(probability: float) -> Callable[[Any], Any]:
        measurement = dp.m.make_randomized_response_bool(prob=probability)
        return lambda rows: measurement(bool(rows[0]))

    pair = (MANY, FEWER)
    yield Library("OpenDP, Laplace of a sum", laplace(1.0), laplace(0.5), pair, dn.PureDP(1))
    yield Library("OpenDP, Gaussian of a sum", gaussian(1.0), gaussian(0.5), pair, dn.DiscreteGaussian(scale=1))
    answer = dn.PureDP(math.log(3), relation="replace")
    yield Library("OpenDP, randomized response", response(0.75), response(0.9), ([1], [0]), answer)


def opacus_steps() -> Iterator[Library]:
    """A step of Opacus: one weight, one noisy sum of clipped gradients."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    def step(rows: Any, *, noise: float, clipped: bool = True) -> float:
        data = torch.tensor(rows, dtype=torch.float32).reshape(-1, 1)
        layer = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(layer.weight)
        model = GradSampleModule(layer)
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer = DPOptimizer(
            inner,
            noise_multiplier=noise if clipped else noise / 5,
            max_grad_norm=1.0 if clipped else 5.0,
            expected_batch_size=None,
            loss_reduction="sum",
        )
        model(data).sum().backward()
        optimizer.step()
        return float(layer.weight.detach()[0, 0])

    pair, claim = ([5.0, 5.0, 5.0], [5.0, 5.0]), dn.Gaussian(scale=1)
    right = _with(step, noise=1.0)
    yield Library("Opacus, a step; control: noise 0.7", right, _with(step, noise=0.7), pair, claim, 1500)
    loose = _with(step, noise=1.0, clipped=False)
    yield Library("Opacus, a step; control: clip five times as large", right, loose, pair, claim, 1500)


def _with(function: Callable[..., Any], **options: Any) -> Callable[[Any], Any]:
    return lambda rows: function(rows, **options)


def libraries() -> list[str]:
    """One line per release of another library, and one for its control."""
    sys.path.append(str(ENVIRONMENTS / "beside"))
    warnings.simplefilter("ignore")
    said = [
        "| release | claim | verdict | ε at least | runs | low bits | control | runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    caught, false, total = 0, 0, 0
    for family in (diffprivlib_releases, opendp_releases, opacus_steps):
        try:
            releases = list(family())
        except ModuleNotFoundError as problem:
            said.append(f"| {family.__name__}: {problem}; see bench/peers/beside.txt | | | | | | | |")
            continue
        for library in releases:
            right, wrong = (_audited(library, each) for each in (library.mechanism, library.control))
            bits = "" if right.low_bits is None else right.low_bits.verdict
            said.append(
                f"| {library.name} | {right.claim} | {right.verdict} | {right.lower:.2f} of {right.claimed:.2f}"
                f" | {right.runs} | {bits} | {wrong.verdict} by {wrong.by} | {wrong.runs} |"
            )
            caught, false, total = caught + wrong.refuted, false + right.refuted, total + 1
    said += ["", f"{caught} of {total} controls caught; {false} of {total} releases refuted."]
    history.add("auditing", "controls of other libraries caught", caught, f"of {total}")
    return said


def _audited(library: Library, mechanism: Callable[[Any], Any]) -> AuditReport:
    return audit(
        mechanism, neighbours=library.neighbours, claim=library.claim, confidence=1 - LEVEL, runs=library.runs, seed=1
    )


def averaged_step(rows: Any, *, rate: float, expected: float, own_size: bool) -> float:
    """A clipped average of a Poisson sample with noise for σ = 1: divided by the size that came, or by the expected."""
    kept = np.clip(np.asarray(rows)[np.random.random(len(rows)) < rate], -1, 1)
    size = max(1, len(kept)) if own_size else expected
    return float(kept.sum() / size + np.random.normal(0, 1 / expected))


def samples() -> list[str]:
    """Dividing by the batch that came: twenty audits at each rate, of expected batches from 4 to 13.5, and the twin."""
    said = ["| rate | records | refuted | runs (median) | twin refuted |", "|---|---|---|---|---|"]
    for rate in (0.5, 0.2, 0.05):
        sizes = [round((4 + step / 2) / rate) for step in range(20)]
        claim = dn.Gaussian(scale=1).sampled(rate=rate)
        reports: dict[bool, list[AuditReport]] = {True: [], False: []}
        for own_size in (True, False):
            for size in sizes if own_size else sizes[::4]:
                step = _with(averaged_step, rate=rate, expected=rate * size, own_size=own_size)
                pair = [-1.0] * size + [1.0], [-1.0] * size
                reports[own_size].append(audit(step, neighbours=pair, claim=claim, runs=12_000 if own_size else 4000))
        wrong, right = reports[True], reports[False]
        caught, runs = sum(report.refuted for report in wrong), statistics.median(report.runs for report in wrong)
        said.append(
            f"| {rate} | {sizes[0]} to {sizes[-1]} | {caught} of {len(wrong)} | {runs:.0f}"
            f" | {sum(report.refuted for report in right)} of {len(right)} |"
        )
        history.add("auditing", f"dividing by the batch that came, rate {rate}, refuted", caught, f"of {len(wrong)}")
    return said


def main() -> None:
    """Print everything, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=3, help="repetitions, of which the median is taken")
    parser.add_argument("--only", choices=["peers", "samples", "libraries"], help="one of the parts")
    given = parser.parse_args()
    start = time.perf_counter()
    said = [f"# Auditors side by side, {datetime.date.today()}", ""]
    said += [f"{history.this_machine()}. α = {LEVEL}; medians of {given.streams}.", ""]
    if given.only in (None, "peers"):
        said += [*beside_peers(given.streams), ""]
    if given.only in (None, "samples"):
        said += ["## Dividing by the batch that came (audits at 95 % confidence)", "", *samples(), ""]
    if given.only in (None, "libraries"):
        said += ["## Audits of other libraries", "", *libraries(), ""]
    text = "\n".join([*said, f"{time.perf_counter() - start:.0f} s in all."])
    print(text)
    history.keep("auditing", text)


if __name__ == "__main__":
    main()
