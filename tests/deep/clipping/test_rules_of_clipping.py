"""Rules of clipping: what each unit adds to the sums is what a loop over units gives, never longer than the clip."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deniable as dn
from deniable.deep.clipping import ClippingEngine
from deniable.deep.clips import AutomaticClipping, Clipping, FlatClipping, PerGroupClipping, PerLayerClipping
from deniable.errors import InvalidArgument
from tests.deep.clipping.reference import by_unit, cross_entropy, one_by_one

CLIP = 0.3
RULES = {
    "flat": FlatClipping(),
    "automatic": AutomaticClipping(0.05),
    "per layer": PerLayerClipping(),
    "per group": PerGroupClipping({"0.": 3, "": 1, "2.bias": 0.5}),
}


def model() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def batch(rows: int = 6) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    return torch.randn(rows, 4) * torch.tensor([0.01, 0.3, 1, 3, 10, 30])[:rows, None], torch.arange(rows) % 3


def expected(rule: Clipping, units: dict[str, Tensor], order: int) -> list[dict[str, Tensor]]:
    """What each unit adds, by the definition."""
    shares = []
    for unit in range(len(next(iter(units.values())))):
        gradient = {name: each[unit] for name, each in units.items()}
        whole = torch.cat([each.flatten() for each in gradient.values()]).norm(order)
        share = {}
        if isinstance(rule, AutomaticClipping):
            share = {name: each * CLIP / (whole + 0.05) for name, each in gradient.items()}
        elif isinstance(rule, FlatClipping):
            share = {name: each * min(1, CLIP / whole) for name, each in gradient.items()}
        else:
            weights: Any = {"0.weight": 1, "0.bias": 1, "2.weight": 2, "2.bias": 2}, {1: 1, 2: 1}
            if isinstance(rule, PerGroupClipping):
                weights = {"0.weight": 1, "0.bias": 1, "2.weight": 2, "2.bias": 3}, {1: 3, 2: 1, 3: 0.5}
            of, weight = weights
            total = sum(each**order for each in weight.values()) ** (1 / order)
            for group in weight:
                names = [name for name in gradient if of[name] == group]
                norm = torch.cat([gradient[name].flatten() for name in names]).norm(order)
                own = CLIP * weight[group] / total
                share |= {name: gradient[name] * min(1, own / norm) for name in names}
        shares.append(share)
    return shares


def check(found: Any, rule: Clipping, units: dict[str, Tensor], *, order: int = 2, unit_of_sums: float = 1.0) -> None:
    shares = expected(rule, units, order)
    for share in shares:
        assert torch.cat([each.flatten() for each in share.values()]).norm(order) <= CLIP * (1 + 1e-9)
    for name, each in found.sums.items():
        wanted = sum(share[name] for share in shares)
        torch.testing.assert_close(each.double() * unit_of_sums, wanted, rtol=2e-3, atol=2e-4 + unit_of_sums * 6)
    norms = torch.cat([each.flatten(1) for each in units.values()], 1).norm(order, dim=1)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-4, atol=1e-5)


OPTIONS: dict[str, dict[str, Any]] = {
    "fast": {"mode": "fast"},
    "two passes": {"mode": "two_pass"},
    "vmap": {"mode": "vmap"},
    "in parts": {"microbatch": 4},
    "graph": {"compile": "graph"},
    "by person": {"rows_per_unit": 2},
    "scaled": {"loss_scale": 8.0},
    "integers": {"bits": 20},
    "l1": {"norm": "l1"},
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("how", OPTIONS)
def test_every_rule_in_every_mode_is_a_loop_over_units(name: str, how: str) -> None:
    options, network = OPTIONS[how], model()
    engine = ClippingEngine(network, cross_entropy, clipping=RULES[name], **options)
    units = by_unit(one_by_one(network, cross_entropy, batch()), options.get("rows_per_unit", 1))
    order = 1 if options.get("norm") == "l1" else 2
    grid = CLIP / 2.0 ** options["bits"] if "bits" in options else 1.0
    check(engine(batch(), clip=CLIP), RULES[name], units, order=order, unit_of_sums=grid)


@pytest.mark.parametrize("name", RULES)
def test_one_unit_never_moves_the_sums_by_more_than_the_clip(name: str) -> None:
    engine, (x, y) = ClippingEngine(model(), cross_entropy, clipping=RULES[name]), batch()
    for unit in range(6):
        alone = engine((x[unit : unit + 1], y[unit : unit + 1]), clip=CLIP).sums
        assert torch.cat([each.double().flatten() for each in alone.values()]).norm() <= CLIP


@pytest.mark.parametrize("name", RULES)
def test_a_unit_that_is_not_finite_in_one_layer_adds_nothing_to_any(name: str) -> None:
    network = model()
    engine, (x, y) = ClippingEngine(network, cross_entropy, clipping=RULES[name]), batch()
    without = engine((x[:5], y[:5]), clip=CLIP)
    x = x.clone()
    x[5, 0] = torch.inf  # tanh hides it from the second layer
    found = engine((x, y), clip=CLIP)
    assert found.norms[5] == torch.inf
    assert not found.factors[5].any()
    torch.testing.assert_close(found.sums, without.sums)


@pytest.mark.parametrize("clip", [1e-14, 1.0, 1e30])
@pytest.mark.parametrize("size", [0.0, 1e-24, 1e-20, 1e-14])
def test_gradients_that_vanish_stay_within_the_clip(clip: float, size: float) -> None:
    """Squares below 1e-45 are gone, and a norm may be zero where the gradient is not."""
    engine = ClippingEngine(
        nn.Linear(4, 1, bias=False), lambda made, _: size * made.squeeze(1), clipping=AutomaticClipping(1e-14)
    )
    sums = engine((torch.ones(1, 4), torch.zeros(1)), clip=clip).sums["weight"].double()
    assert sums.isfinite().all()
    assert sums.norm() <= clip


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap"])
def test_no_factor_makes_a_large_side_infinite(mode: str) -> None:
    """Inputs of zero beside large gradients of outputs: the gradient is zero, and so is what enters the sum."""
    engine = ClippingEngine(
        nn.Linear(4, 2, bias=False), lambda made, _: 1e18 * made.sum(1), clipping=AutomaticClipping(1e-14), mode=mode
    )
    assert (engine((torch.zeros(2, 4), torch.zeros(2)), clip=1e30).sums["weight"] == 0).all()


@pytest.mark.parametrize("name", RULES)
def test_the_self_check_knows_the_rule(name: str) -> None:
    ClippingEngine(model(), cross_entropy, clipping=RULES[name]).check(batch(), clip=CLIP)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_shares_of_groups_make_up_the_whole_and_no_more(norm: str) -> None:
    names = tuple(f"layer{at}.weight" for at in range(37))
    for rule in (PerLayerClipping(), PerGroupClipping({f"layer{at}.": at + 1 for at in range(37)})):
        shares = [Fraction(each.share) for each in rule.groups(names, norm)]
        whole = sum(shares) if norm == "l1" else sum(each * each for each in shares)
        assert 1 - Fraction(1, 10**9) < whole <= 1
        assert sorted(name for each in rule.groups(names, norm) for name in each.names) == sorted(names)


@pytest.mark.parametrize("size", [Fraction(1, 10**300), Fraction(1), Fraction(10**200), Fraction(10**400)])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_weights_of_groups_have_any_size(size: Fraction, norm: str) -> None:
    """Only their proportions count."""
    found = PerGroupClipping({"a": 3 * size, "b": 4 * size}).groups(("a", "b"), norm)
    whole = 7 if norm == "l1" else 5
    assert [group.share for group in found] == pytest.approx([3 / whole, 4 / whole])


def test_groups_that_do_not_cover_the_parameters_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"a beginning for 2\.weight"):
        ClippingEngine(model(), cross_entropy, clipping=PerGroupClipping({"0.": 1}))
    with pytest.raises(InvalidArgument, match="names of trained parameters"):
        ClippingEngine(model(), cross_entropy, clipping=PerGroupClipping({"0.": 1, "2.": 1, "head.": 1}))
    for wrong in ({}, {"a": 0}, {"a": -1}, {1: 1}, [("a", 1)]):
        with pytest.raises(InvalidArgument):
            PerGroupClipping(wrong)  # type: ignore[arg-type]
    for small in (0, -1, 1e-15, 1e-300):
        with pytest.raises(InvalidArgument):
            AutomaticClipping(small)
    with pytest.raises(InvalidArgument):
        dn.deep.Plan(size=9, batch=3, steps=2, clip=1, noise_multiplier=1, clipping="automatic")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RULES)
def test_a_plan_keeps_its_rule_and_its_event(name: str) -> None:
    given: dict[str, Any] = {"size": 90, "batch": 30, "steps": 3, "clip": 0.3, "noise_multiplier": 1}
    plan, flat = dn.deep.Plan(**given, clipping=RULES[name]), dn.deep.Plan(**given)
    assert plan.event == flat.event
    assert dn.deep.Plan.from_json(plan.to_json()) == plan
    assert (plan == flat) == (name == "flat")
    assert (repr(RULES[name]) in str(plan)) == (name != "flat")


@pytest.mark.parametrize("name", ["automatic", "per layer"])
def test_a_trainer_clips_by_the_rule_of_its_plan(name: str) -> None:
    x, y = batch()
    network = model()
    plan = dn.deep.Plan(
        size=6, batch=6, steps=1, clip=CLIP, noise_multiplier=1, clipping=RULES[name], relation="zero_out",
        sampling=dn.deep.FixedBatches(),
    )  # fmt: skip
    units = by_unit(one_by_one(network, cross_entropy, (x, y)), 1)
    seen: list[Any] = []
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    trainer = dn.deep.Trainer(network, optimizer, cross_entropy, plan, observers=[seen.append])
    trainer.fit((x, y))
    shares = expected(RULES[name], units, 2)
    for parameter, each in seen[0].clipped.items():
        wanted = sum(share[parameter] for share in shares)
        torch.testing.assert_close(each.double(), wanted, rtol=2e-3, atol=2e-4)
