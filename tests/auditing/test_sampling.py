"""Claims about samples are judged as a whole, with the record in a sample by design. About 8 seconds."""

from __future__ import annotations

import functools
import itertools
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import deniable as dn
from deniable.auditing.auditor import Judge
from deniable.auditing.betting import RunBudget
from deniable.auditing.claims import Claim, Line
from deniable.auditing.detectors import value_detectors
from deniable.auditing.neighbours import Pair, place_of_change
from deniable.auditing.recording import DrawTape, ForcedChoice, recorded
from deniable.auditing.sampling import DrawPlace, Mask, conditional_claim, largest_distance, sampled_worlds
from deniable.auditing.worlds import Limits

RATE = 0.5
CLAIM = dn.Gaussian(scale=1).sampled(rate=RATE)
MANY = [-1.0] * 22


def averaged(rows: list[float], *, own_size: bool) -> float:
    """A clipped average of a Poisson sample; the divisor must be the expected size, not the one that came."""
    kept = np.clip(np.asarray(rows)[np.random.random(len(rows)) < RATE], -1, 1)
    size = max(1, len(kept)) if own_size else RATE * len(MANY)
    return float(kept.sum() / size + np.random.normal(0, 1 / (RATE * len(MANY))))


def test_dividing_by_the_batch_that_came_is_refuted_and_its_twin_is_not() -> None:
    """Seeded; the twin is refuted with probability at most 1e-6, on a claim that is exactly tight."""
    pair = ([*MANY, 1.0], MANY)
    report = dn.audit(functools.partial(averaged, own_size=True), neighbours=pair, claim=CLAIM, runs=4000, seed=1)
    assert report.by == "testing"
    assert "sample" in [finding.kind for finding in report.findings]
    assert report.confidence == pytest.approx(0.95)
    right = functools.partial(averaged, own_size=False)
    twin = dn.audit(right, neighbours=pair, claim=CLAIM, runs=400, seed=1, confidence=1 - 1e-6)
    assert not twin.refuted


def test_a_curve_that_holds_is_not_refuted_by_an_inner_step() -> None:
    """A smaller rate than claimed pays for less noise: the curve holds everywhere, the inner step is worse."""

    def seldom(rows: list[float]) -> float:
        return float(np.asarray(rows)[np.random.random(len(rows)) < 0.1].sum() + np.random.normal(0, 0.9))

    report = dn.audit(seldom, neighbours=([1.0] * 9, [1.0] * 8), claim=CLAIM, runs=600, confidence=1 - 1e-6)
    assert not report.refuted


def test_the_lines_are_those_of_the_inner_step_where_sampling_is_exact() -> None:
    """With τ = 0 the first order of a sampled Gaussian's lines is the Gaussian's own curve."""
    claim = Claim.of(CLAIM)
    lines = conditional_claim(claim, RATE, distance=0.0).lines
    inner = dn.account(dn.Gaussian(scale=1))
    forward = [line for line in lines if line.orders == (True, False)]
    assert len(forward) == len(claim.lines)
    for line in forward:
        assert line.delta == pytest.approx(inner.delta(line.epsilon), rel=1e-3, abs=1e-9)
        assert line.delta >= inner.delta(line.epsilon) * (1 - 1e-9)


def summed(rows: list[float], *, above: bool = False, one_by_one: bool = False, leaks: bool = False) -> float:
    draws = [random.random() for _ in rows] if one_by_one else np.random.random(len(rows))
    kept = [row for row, u in zip(rows, draws, strict=True) if (u >= 1 - RATE if above else u < RATE)]
    return sum(kept) + float(np.random.normal()) + (len(rows) if leaks else 0)


@pytest.mark.parametrize("options", [{}, {"above": True}, {"one_by_one": True}], ids=str)
def test_the_mask_is_found(options: dict[str, Any]) -> None:
    mechanism = functools.partial(summed, **options)
    pair = Pair([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 40.0])
    worlds = sampled_worlds(mechanism, pair, Claim.of(CLAIM), seed=3, limits=Limits())
    assert worlds is not None
    assert worlds.mask.below is not options.get("above", False)
    assert all(worlds.run(number, True).output.numbers[0] > 25 for number in range(20))
    assert worlds.differences(100, 20) == 0


def test_a_canary_in_the_middle_leaves_the_others_their_numbers() -> None:
    pair = Pair([1.0, 2.0, 40.0, 3.0], [1.0, 2.0, 3.0])
    assert place_of_change(pair.first, pair.second) == (2, False)
    worlds = sampled_worlds(summed, pair, Claim.of(CLAIM), seed=3, limits=Limits())
    assert worlds is not None
    assert worlds.differences(0, 20) == 0
    choice = ForcedChoice("numpy random", 1, 1, lambda u: 9.0)
    with recorded(np.random.random, DrawTape(1)):
        plain = np.random.random(3)
    with recorded(np.random.random, DrawTape(1, choices=[choice])):
        chosen = np.random.random(4)
    assert chosen[[0, 2, 3]].tolist() == plain.tolist()
    assert chosen[1] == 9.0


def test_where_absence_shows_the_outputs_are_tested_as_they_come() -> None:
    """Being outside the sample is not like being absent, so the lines of a sample would not follow from the claim."""
    leaking = functools.partial(summed, leaks=True)
    pair = Pair([1.0, 2.0], [1.0, 2.0, 3.0])
    assert sampled_worlds(leaking, pair, Claim.of(CLAIM), seed=3, limits=Limits()) is None
    assert sampled_worlds(summed, pair, Claim.of(dn.Gaussian(scale=1)), seed=3, limits=Limits()) is None


def steps(rows: list[float], *, rate: float, clip: float, noise: float = 1.0) -> float:
    """Noisy sums of three Poisson samples, one after the other; zeros are added for those who are not in."""
    total = 0.0
    for _ in range(3):
        kept = np.random.random(len(rows)) < rate
        total += float((np.clip(rows, -clip, clip) * kept).sum() + np.random.normal(0, noise))
    return total


STEPS = dn.Gaussian(scale=1).sampled(rate=0.1) * 3
PAIR = ([0.1] * 40 + [20.0], [0.1] * 40)


def composed_claim() -> Claim:
    """Two lines of the curve of three steps, rounded up, and its ε at some δ: the accountant needs seconds for them."""
    epsilons = {1e-5: 2.087, 1e-3: 0.983, 1e-2: 0.437, 0.05: 0.083, 0.2: 0.0}
    lines = (Line(0.0, 0.07388), Line(0.5065, 0.007388))
    return Claim(STEPS, dn.account(STEPS), 1e-5, lines, None, epsilons)


def test_a_composed_claim_is_judged_as_a_whole_and_its_twin_is_kept() -> None:
    """Seeded; the twin, whose claim is exactly tight, is refuted with probability at most 1e-6."""
    broken, right = (functools.partial(steps, rate=0.1, clip=clip) for clip in (30.0, 1.0))
    judge = Judge(
        mechanism=broken, claim=composed_claim(), level=0.05, budget=RunBudget(2000), detectors=value_detectors, seed=1
    )
    report = judge.pair(Pair(*PAIR))
    assert report.by == "testing"
    assert "sample" in [finding.kind for finding in report.findings]
    twin = replace(judge, mechanism=right, level=1e-6, budget=RunBudget(300))
    assert not twin.pair(Pair(*PAIR)).refuted


def test_the_masks_of_all_steps_are_found_though_sums_differ_in_their_last_bits() -> None:
    mechanism = functools.partial(steps, rate=0.1, clip=30.0)
    worlds = sampled_worlds(mechanism, Pair(*PAIR), composed_claim(), seed=3, limits=Limits())
    assert worlds is not None
    assert [place.turn for place in worlds.mask.places] == [1, 2, 3]
    assert worlds.mask.chance == pytest.approx(1 - 0.9**3)
    inside = [worlds.run(number, True).output.numbers[0] for number in range(30)]
    assert min(inside) > 12  # the sums of the others have a mean of 1.2, the noise a deviation of 1.7
    assert worlds.differences(100, 20) == 0


def test_the_steps_with_the_record_have_their_law_given_that_there_is_one() -> None:
    """Each pattern's frequency is within five deviations: a false alarm in at most 4 of a million."""
    mask, random_ = Mask(tuple(DrawPlace("numpy random", turn, 0) for turn in (1, 2, 3)), 0.3), np.random.default_rng(5)
    draws, counts = 4000, dict.fromkeys(itertools.product([False, True], repeat=3), 0)
    for _ in range(draws):
        choices = mask.choices(inside=True, random=random_)
        counts[tuple(choice.value(random_.random()) < 0.3 for choice in choices)] += 1
        assert all(choice.value(random_.random()) >= 0.3 for choice in mask.choices(inside=False, random=random_))
    for pattern, count in counts.items():
        chance = math.prod(0.3 if inside else 0.7 for inside in pattern) / mask.chance if any(pattern) else 0.0
        assert abs(count / draws - chance) <= 5 * math.sqrt(chance * (1 - chance) / draws)


def test_coupled_runs_bound_the_distance_at_the_level() -> None:
    """If τ were above the bound, runs that are all alike would have a probability below the level."""
    for runs, level in ((8, 0.04), (1000, 1e-3)):
        assert (1 - largest_distance(runs, level)) ** runs == pytest.approx(level)
