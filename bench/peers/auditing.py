"""The peers of bench/auditing.py, each run by the Python of its own virtual environment: `auditing.py NAME FOLDER`.

FOLDER/cases.json lists planted bugs: their claimed lines (ε, δ), and how many streams of scores there are;
FOLDER/scores.npz holds the scores, by case, stream and world. For every stream the peer says how many runs it needs
until one of its bounds is above the claim. It is helped: the best of its bounds counts, the bound may be read after
every batch of runs without paying for that, the scores point in the right direction, and a claim with several lines is
attacked on each of them at the full level.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import numpy as np

SMALLEST, COARSE, FINE = 8, 1.5, 1.08
"""Runs of each world at first, and the steps in which they grow: coarse, then fine below the first success."""

TINY = 1e-12
"""Bounds that need a δ above 0 get this one for a pure claim."""

Refutes = Callable[[Any, Any, dict[str, Any]], bool]


def jax_privacy(level: float) -> Refutes:
    """Clopper and Pearson, and the bound for one run, each with two ways to choose the threshold.

    Its `epsilon_from_gdp` is left out: on scores of two equal laws it reports a large ε (see `equal_laws`).
    """
    peer = _jax_module()
    strategies = (peer.Bonferroni(), peer.Split(seed=0))

    def refutes(inside: Any, outside: Any, case: dict[str, Any]) -> bool:
        ways = [peer.CanaryScoreAuditor(inside, outside), peer.CanaryScoreAuditor(-outside, -inside)]
        for epsilon, delta in case["lines"]:
            for strategy in strategies:
                if ways[0].epsilon_clopper_pearson(level, delta, False, threshold_strategy=strategy) > epsilon:
                    return True
                for way in ways:
                    if way.epsilon_one_run(level, max(delta, TINY), threshold_strategy=strategy) > epsilon:
                        return True
        return False

    return refutes


def equal_laws(level: float) -> float:
    """What jax_privacy's `epsilon_from_gdp` says of 1,000 scores from each of two equal laws, in the median of 21."""
    peer, random = _jax_module(), np.random.default_rng(0)
    found = []
    for _ in range(21):
        auditor = peer.CanaryScoreAuditor(random.normal(size=1000), random.normal(size=1000))
        found.append(auditor.epsilon_from_gdp(level, 1e-5))
    return float(np.median(found))


def _jax_module() -> Any:
    # The module needs NumPy, SciPy and dp_accounting only; its package would load jax.
    path = Path(str(distribution("jax-privacy").locate_file("jax_privacy/auditing.py")))
    spec = importlib.util.spec_from_file_location("jax_privacy_auditing", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be read")
    peer = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = peer
    spec.loader.exec_module(peer)
    return peer


def privacy_estimates(level: float) -> Refutes:
    """Its three bounds on the counts of one threshold, which the first half of the runs chooses."""
    import privacy_estimates as peer
    from privacy_estimates.joint_density import Beta

    def counts(inside: Any, outside: Any, cut: float) -> Any:
        hits, alarms = int((inside >= cut).sum()), int((outside >= cut).sum())
        return peer.AttackResults(FN=len(inside) - hits, FP=alarms, TN=len(outside) - alarms, TP=hits)

    def refutes(inside: Any, outside: Any, case: dict[str, Any]) -> bool:
        half = len(inside) // 2
        cuts = np.unique(np.quantile(np.concatenate([inside[:half], outside[:half]]), np.linspace(0.01, 0.99, 33)))
        for epsilon, delta in case["lines"]:

            def promise(cut: float, delta: float = delta) -> float:
                found = counts(inside[:half], outside[:half], cut)
                return float(peer.compute_eps_lo(found, delta, 0.3, "beta"))

            found = counts(inside[half:], outside[half:], max(cuts, key=promise))
            if any(peer.compute_eps_lo(found, delta, level, method) > epsilon for method in ("beta", "jeffreys")):
                return True
            # The bound of the joint posterior is above ε exactly if the region of (ε, δ) has less than the level. Its
            # integral takes seconds, so it is asked only where the other two are near.
            near = peer.compute_eps_lo(found, delta, 30 * level, "jeffreys") > epsilon
            if near and 0 <= Beta(found).probability_private(epsilon, delta, epsabs=level / 10) < level:
                return True
        return False

    return refutes


PEERS = {"jax-privacy": jax_privacy, "privacy-estimates": privacy_estimates}


def runs_needed(refutes: Refutes, inside: Any, outside: Any, case: dict[str, Any]) -> int | None:
    """The runs of both worlds together with which a claim is first refuted; None if all of them do not."""

    def first(start: float, stop: float, step: float) -> tuple[float, float] | None:
        before, count = start, start
        while count <= stop:
            size = math.ceil(count)
            if refutes(inside[:size], outside[:size], case):
                return before, count
            before, count = count, count * step
        return None

    most = min(len(inside), len(outside))
    coarse = first(SMALLEST, most, COARSE)
    if coarse is None:
        return None
    fine = first(*coarse, FINE) or coarse
    return 2 * math.ceil(fine[1])


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with (folder / "cases.json").open(encoding="utf-8") as file:
        given = json.load(file)
    refutes = PEERS[name](given["level"])
    with np.load(folder / "scores.npz") as scores:
        found: dict[str, list[int | None]] = {}
        for case in given["cases"]:
            names = [f"{case['name']}/{stream}" for stream in range(case["streams"])]
            found[case["name"]] = [
                runs_needed(refutes, scores[f"{name}/in"], scores[f"{name}/out"], case) for name in names
            ]
    beside = {"equal laws": equal_laws(given["level"])} if name == "jax-privacy" else {}
    print(json.dumps({"version": version(name), "runs": found, **beside}))


if __name__ == "__main__":
    main()
