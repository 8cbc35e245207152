"""Clip, noise and batch that change from step to step, and what is released beside the gradients.

Events are compared with integrals that know nothing of the accountant. Statistical tests alarm falsely once in 10⁷.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import deniable as dn
from deniable.deep import (
    AdaptiveClipping,
    BallsAndBins,
    CyclicPoisson,
    FixedBatches,
    GridNoise,
    LaplaceNoise,
    LossSeries,
    NoiseShares,
    Observation,
    Plan,
    SeededGenerator,
    Stage,
    Trainer,
    WithoutReplacement,
    clips,
    stages,
)
from deniable.deep.measures import deviation, gradient_multiplier, release
from deniable.errors import DataError, InvalidArgument
from deniable.noise import InsecureSource
from deniable.units import Relation
from tests.deep.models import cross_entropy, flat, network, plan, sgd, table

ALARM = 1e-7
RISING = (
    Stage(steps=1, noise=2, batch=2),
    Stage(steps=2, noise=1, clip=Fraction(1, 4)),
    Stage(steps=1, noise=2, batch=2),
)


def brute_force(ε: float, steps: list[tuple[float, float]], *, points: int = 700) -> float:
    """δ(ε) of Gaussian sums of sensitivity 1 on Poisson samples, by a sum over a grid: the worse of both directions."""
    density: Any = np.ones(())
    other: Any = np.ones(())
    for scale, rate in steps:
        x = np.linspace(-9 * scale, 9 * scale + 1, points)
        width = x[1] - x[0]
        without = stats.norm.pdf(x, 0, scale) * width
        with_unit = (1 - rate) * without + rate * stats.norm.pdf(x, 1, scale) * width
        density, other = np.multiply.outer(density, with_unit), np.multiply.outer(other, without)
    return max(
        float(np.maximum(density - math.exp(ε) * other, 0).sum()),
        float(np.maximum(other - math.exp(ε) * density, 0).sum()),
    )


# stages


def test_the_event_of_stages_against_an_integral() -> None:
    """Two steps with scales 2·0.9 and 0.9 and rates 0.4 and 0.2."""
    stated = Plan(
        size=10, batch=2, clip=1, noise_multiplier=0.9, stages=[Stage(steps=1, noise=2, batch=2), Stage(steps=1)]
    )
    for ε in (0.1, 0.5, 1.5):
        exact = brute_force(ε, [(1.8, 0.4), (0.9, 0.2)])
        assert exact - 1e-7 <= stated.profile.delta(ε) <= exact + 1e-4


@pytest.mark.parametrize(
    ("sampling", "relation"),
    [(None, "add_remove"), (None, "replace"), (None, "zero_out"), (WithoutReplacement(), "replace")],
)
@pytest.mark.parametrize("noise", [None, GridNoise()])
def test_the_event_is_the_sum_of_its_steps(sampling: Any, relation: str, noise: Any) -> None:
    """Each step as a plan of its own."""
    usual: dict[str, Any] = {
        "size": 20,
        "clip": 3,
        "sampling": sampling,
        "relation": Relation(relation),
        "noise": noise,
    }
    stated = Plan(batch=4, noise_multiplier=1.5, stages=RISING, **usual)
    singles = [
        Plan(batch=numbers.batch, noise_multiplier=numbers.noise_multiplier, steps=1, **usual).event
        for numbers in map(stated.at, range(4))
    ]
    whole = singles[0]
    for each in singles[1:]:
        whole = whole + each
    for delta in (1e-3, 1e-6):
        assert stated.profile.epsilon(delta) == pytest.approx(dn.account(whole).epsilon(delta), rel=1e-6)
    assert [stated.at(step).clip for step in range(4)] == [3, Fraction(3, 4), Fraction(3, 4), 3]
    assert [stated.at(step).batch for step in range(4)] == [8, 4, 4, 8]


def test_a_clip_costs_nothing_and_a_target_is_met() -> None:
    falling = stages(steps=12, clip=lambda step: 1 / (1 + step))
    assert plan(stages=falling).event == plan().event
    target = dn.ApproxDP(2, 1e-5)
    calm = stages(steps=12, noise=lambda step: 3 if step < 6 else 1)
    stated = plan(noise_multiplier=None, target=target, stages=calm)
    assert stated.profile.epsilon(1e-5) <= 2
    assert stated.noise_multiplier < plan(noise_multiplier=None, target=target).noise_multiplier


def test_stages_are_what_runs() -> None:
    """Rates, scales, clips and divisors, each measured in its stage."""
    factors = (Stage(steps=30, noise=3, batch=2), Stage(steps=30, clip=Fraction(1, 5)))
    stated = Plan(size=200, batch=20, clip=0.5, noise_multiplier=2, stages=factors)
    model = network(width=60)
    seen: list[Observation] = []
    Trainer(model, sgd(model, lr=0), cross_entropy, stated, observers=[seen.append]).fit(table())
    for part, rate, scale, clip, batch in ((seen[:30], 0.2, 3.0, 0.5, 40), (seen[30:], 0.1, 0.2, 0.1, 20)):
        drawn = sum(len(each.units) for each in part)
        assert stats.binomtest(drawn, 200 * 30, rate).pvalue > ALARM
        noise = torch.cat([
            (each.released[name] * batch - each.clipped[name]).double().reshape(-1)
            for each in part for name in each.clipped
        ])  # fmt: skip
        low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], noise.numel())
        assert low < float((noise / scale).square().sum()) < high
        for each in part:
            length = float(sum(value.double().square().sum() for value in each.clipped.values()).sqrt())
            assert length <= clip * len(each.units) * (1 + 1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stages": [Stage(steps=3)], "steps": 4}, "as many steps"),
        ({"stages": "abc"}, "a list of"),
        ({"stages": [Stage(steps=4, batch=100)]}, "at most size"),
        ({"stages": [Stage(steps=4, clip=Fraction(1, 10**15))]}, "1e-14"),
        ({"stages": [Stage(steps=4, noise=2)], "sampling": FixedBatches(), "relation": "zero_out"}, "no composition"),
        ({"stages": [Stage(steps=4, batch=2)], "sampling": BallsAndBins(), "relation": "zero_out"}, "no composition"),
        ({"stages": [Stage(steps=4, noise=2)], "sampling": CyclicPoisson(parts=2), "relation": "zero_out"}, "no comp"),
        ({"stages": [Stage(steps=4, clip=2)], "noise": dn.strategies.Tree(4), "relation": "zero_out"}, "all steps"),
        ({"stages": [Stage(steps=4, batch=0.3)], "sampling": WithoutReplacement(), "relation": "replace"}, "whole"),
        ({"stages": [Stage(steps=4, clip=2)], "clipping": AdaptiveClipping()}, "AdaptiveClipping finds"),
        ({"steps": 4, "clipping": AdaptiveClipping(), "noise": LaplaceNoise()}, "beside the gradients"),
        ({"steps": 4, "series": LossSeries(bound=1), "noise": NoiseShares(2, 1)}, "beside the gradients"),
        ({"steps": 4, "series": LossSeries(bound=1), "noise": dn.strategies.Tree(4), "relation": "zero_out"}, "beside"),
        ({"steps": 4, "series": LossSeries(bound=1, share=0.4), "clipping": AdaptiveClipping(share=0.2)}, "in all"),
        ({"steps": 4, "series": 3}, "series"),
    ],
)  # fmt: skip
def test_what_no_theorem_covers_is_refused(settings: Any, says: str) -> None:
    if "relation" in settings:
        settings = {**settings, "relation": Relation(settings["relation"])}
    with pytest.raises(InvalidArgument, match=says):
        Plan(size=20, batch=4, clip=1, noise_multiplier=1, **{"steps": None, **settings})


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "one"])
def test_factors_are_positive_numbers(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        Stage(steps=2, noise=wrong)
    with pytest.raises(InvalidArgument):
        stages(steps=2, clip=lambda step: wrong)
    for bad in ({"share": wrong}, {"bound": wrong}):
        with pytest.raises(InvalidArgument):
            LossSeries(**{"bound": 1, **bad})


@pytest.mark.parametrize("size", [400, -400])
@pytest.mark.parametrize(
    "settings",
    [
        lambda huge: {"series": LossSeries(bound=huge)},
        lambda huge: {"series": LossSeries(bound=3, share=min(huge, Fraction(1, 10**400)))},
        lambda huge: {"clipping": AdaptiveClipping(rate=max(huge, 10**400))},
        lambda huge: {"clip": huge, "clipping": AdaptiveClipping()},
        lambda huge: {"stages": (Stage(steps=3), Stage(steps=1, clip=huge))},
        lambda huge: {"stages": (Stage(steps=3), Stage(steps=1, batch=huge)), "series": LossSeries(bound=3)},
    ],
)
def test_numbers_that_leave_the_floats_of_a_step_are_refused_before_it(settings: Any, size: int) -> None:
    with pytest.raises(InvalidArgument):
        plan(steps=4, **settings(Fraction(10) ** size))


def test_every_clip_that_adaptation_can_come_to_is_one() -> None:
    for first in (clips.LEAST, Fraction(10**26), clips.MOST):
        way, clip = AdaptiveClipping(rate=1000), float(first)
        for fraction in (-1.0, -1.0, 2.0, 2.0):
            clip = way.next(clip, fraction, first=first)
            assert clips.LEAST <= clips.checked(clip) <= clips.MOST
            assert torch.full((), clip).isfinite()


def test_a_plan_with_stages_and_measures_is_written_and_read() -> None:
    stated = plan(
        stages=stages(steps=12, noise=lambda step: 1 + step / 7, batch=lambda step: 2, every=4),
        clipping=AdaptiveClipping(quantile=0.7), series=LossSeries(bound=4),
    )  # fmt: skip
    assert Plan.from_json(stated.to_json()) == stated
    told = str(stated)
    assert "stages: Stage(steps=4, batch=2)" in told
    assert "series: LossSeries(bound=4, share=0.02), released in every step" in told
    assert "AdaptiveClipping(quantile=0.7" in told
    assert eval(repr(stages(steps=3, clip=lambda step: 2)), {"Stage": Stage}) == (Stage(steps=3, clip=2),)


# what is released beside the gradients


def test_measures_and_gradients_together_are_one_gaussian() -> None:
    """The joint density of both on one sample, integrated: no more than the event's δ, and no less."""
    z, share, rate = 1.1, Fraction(1, 4), 0.3
    left = float(gradient_multiplier(Fraction(11, 10), {"loss": share}))
    x, y = np.linspace(-9, 10, 900), np.linspace(-20, 21, 900)
    one, two = left, deviation(Fraction(11, 10), share)
    widths = (x[1] - x[0]) * (y[1] - y[0])
    without = np.multiply.outer(stats.norm.pdf(x, 0, one), stats.norm.pdf(y, 0, two)) * widths
    shifted = np.multiply.outer(stats.norm.pdf(x, 1, one), stats.norm.pdf(y, 1, two)) * widths
    mixed = (1 - rate) * without + rate * shifted
    stated = Plan(size=10, batch=3, steps=1, clip=1, noise_multiplier=z, series=LossSeries(bound=1, share=share))
    for ε in (0.2, 0.8):
        exact = max(np.maximum(a - math.exp(ε) * b, 0).sum() for a, b in ((mixed, without), (without, mixed)))
        assert exact - 1e-7 <= stated.profile.delta(ε) <= exact + 1e-4


def test_the_noise_of_a_measure_is_the_stated_one() -> None:
    source, values = InsecureSource(5), torch.tensor([1.0, -1.0, 0.5, math.nan, 7.0, -math.inf])
    drawn = np.array(
        [release(values, multiplier=Fraction(2), share=Fraction(1, 4), source=source) for _ in range(3000)]
    )
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], 3000)
    assert low < (((drawn - 1.5) / deviation(Fraction(2), Fraction(1, 4))) ** 2).sum() < high


def test_the_gradients_get_the_rest_of_the_noise() -> None:
    """A loss without a gradient: what moves is the noise, of scale z/√(1 − share)."""
    share = Fraction(2, 5)
    stated = plan(steps=1, clip=0.5, noise_multiplier=3, series=LossSeries(bound=1, share=share))
    model = nn.Linear(4, 3000)
    before = flat(model).double()
    Trainer(model, sgd(model, lr=1), lambda output, y: (output * 0).sum(1), stated).fit(table())
    moved = (flat(model).double() - before) * 20 / (3 * 0.5) * math.sqrt(1 - share)
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], moved.numel())
    assert low < float(moved.square().sum()) < high


def losses_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(model(x), y).detach()


def test_the_series_is_the_mean_of_clamped_losses() -> None:
    """Almost without noise, of everybody: the clamped mean, also for people with several rows."""
    x, y = table()
    model = network()
    quiet = {"batch": 200, "steps": 2, "noise_multiplier": Fraction(1, 10**4)}
    trainer = Trainer(model, sgd(model, lr=0), cross_entropy, plan(**quiet, series=LossSeries(bound=1))).fit((x, y))
    wanted = float(losses_of(model, x, y).clamp(0, 1).mean())
    assert [each.loss for each in trainer.series] == pytest.approx([wanted] * 2, abs=1e-4)
    assert [each.step for each in trainer.series] == [1, 2]
    people = {**quiet, "size": 50, "batch": 50, "unit": "who", "rows_per_unit": 4, "augmentations": 2}
    stated = plan(**people, series=LossSeries(bound=1))
    trainer = Trainer(model, sgd(model, lr=0), cross_entropy, stated)
    trainer.fit((x, y), people=[row // 4 for row in range(200)])
    wanted = float(losses_of(model, x, y).view(50, 4).mean(1).clamp(0, 1).mean())
    assert trainer.series[0].loss == pytest.approx(wanted, abs=1e-4)


def test_the_clip_follows_the_quantile() -> None:
    """Almost without noise the clip comes to the median of the norms, from above and from below."""
    x, y = table()
    model = network()
    probe = Trainer(model, sgd(model, lr=0), cross_entropy, plan(batch=200, steps=1)).fit((x, y))
    median = probe.private.quantiles((0.5,))[0]
    for first in (median * 8, median / 8):
        rule = AdaptiveClipping(rate=0.5)
        stated = plan(batch=200, steps=25, clip=first, noise_multiplier=Fraction(1, 1000), clipping=rule)
        trainer = Trainer(model, sgd(model, lr=0), cross_entropy, stated).fit((x, y))
        assert trainer.clip == pytest.approx(median, rel=0.1)


def test_every_step_clips_to_its_own_clip_as_in_a_loop() -> None:
    x, y = table()
    model = network()
    seen: list[Observation] = []
    clips: list[float] = []
    rule = AdaptiveClipping(quantile=0.3, rate=1)
    stated = plan(batch=200, steps=3, clip=0.4, noise_multiplier=Fraction(1, 100), clipping=rule)
    trainer = Trainer(model, sgd(model, lr=0), cross_entropy, stated, observers=[seen.append])
    for batch in trainer.batches((x, y)):
        clips.append(trainer.clip)
        trainer.step(batch)
    assert len(set(clips)) == 3
    for clip, each in zip(clips, seen, strict=True):
        wanted = dn.deep.clipped_gradients(network(), cross_entropy, (x, y), clip)[0]
        for name, value in wanted.items():
            torch.testing.assert_close(each.clipped[name], value, atol=1e-3, rtol=1e-3)


def test_a_clip_stays_within_a_million_of_the_first() -> None:
    rule = AdaptiveClipping(rate=10**6)
    assert rule.next(1.0, -1e300, first=Fraction(1)) == 1e6
    assert rule.next(1.0, 1e300, first=Fraction(1)) == 1e-6


def test_clip_and_series_survive_a_checkpoint(tmp_path: Path) -> None:
    stated = plan(clipping=AdaptiveClipping(), series=LossSeries(bound=2), steps=6)
    data = table()
    straight = network()
    whole = Trainer(straight, sgd(straight), cross_entropy, stated, generator=SeededGenerator(3)).fit(data)
    model = network()
    first = Trainer(model, sgd(model), cross_entropy, stated, generator=SeededGenerator(3))
    for batch in first.batches(data):
        if first.step(batch).step == 3:
            break
    first.save(tmp_path / "run.pt")
    first.close()
    again = network(seed=9)
    second = Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy, generator=SeededGenerator(3))
    second.fit(data)
    second.close()
    assert torch.equal(flat(again), flat(straight))
    assert (second.clip, second.series) == (whole.clip, whole.series)
    state = torch.load(tmp_path / "run.pt", weights_only=True)
    wrong: Any
    for wrong in ({"clip": None, "series": []}, {"clip": "1", "series": []}, {"clip": 1.0, "series": [[1, 2.0]]}, 3):
        torch.save({**state, "measures": wrong}, tmp_path / "run.pt")
        with pytest.raises(DataError):
            Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy)
