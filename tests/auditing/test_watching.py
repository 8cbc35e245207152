"""A trainer watched from outside: the real one keeps its plan, broken ones do not. About 5 seconds.

Everything is seeded, so nothing here is left to chance; the audits' own levels are 1e-3 and less.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deniable.auditing.training import StepWatcher
from deniable.errors import InvalidArgument
from deniable.units import REPLACE

torch = pytest.importorskip("torch", reason="needs torch; run: pip install 'deniable[deep]'")
from torch import nn  # noqa: E402

from deniable.deep import GridNoise, Plan, SeededGenerator, Trainer  # noqa: E402

LOSS = nn.CrossEntropyLoss(reduction="none")
STEPS = 240


def data(rows: int = 4) -> tuple[Any, Any]:
    """A few rows; the canary, the first, is far from the others."""
    random = torch.Generator().manual_seed(3)
    x = torch.randn(rows, 4, generator=random)
    x[0] = 20.0
    return x, torch.arange(rows) % 3


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def plan(**changed: Any) -> Plan:
    """Half of the rows in a batch; one step with the canary is 2-GDP."""
    return Plan(**{"size": 4, "batch": 2, "steps": STEPS, "clip": 0.1, "noise_multiplier": 0.5, **changed})


def watched(executed: Plan) -> StepWatcher:
    """What a watcher sees who was promised `plan()`, while the trainer executes another."""
    model, rows = network(), data()
    watcher = StepWatcher(model, LOSS, plan=plan(), rows=rows, canary=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)  # slow, so that the canary's gradient stays long
    Trainer(model, optimizer, LOSS, executed, observers=[watcher], generator=SeededGenerator(3)).fit(rows)
    return watcher


def test_the_trainer_keeps_its_plan_and_the_bound_is_of_use() -> None:
    """Of other seeds at most 2 in a million fail: 1e-6 is the audit's, and the bound's mean and deviation are 1.74 and
    0.16 (120 scores of each kind), five deviations above 0.9.
    """
    watcher = watched(plan())
    sure = watcher.judge(confidence=1 - 1e-6)
    assert not sure.refuted, str(sure)
    assert watcher.judge(confidence=0.9).mu.value > 0.9
    assert len(watcher.with_) + len(watcher.without) == STEPS


def test_what_a_step_means_for_the_run() -> None:
    usual = plan(size=1000, batch=10, steps=100, noise_multiplier=1)
    watcher = StepWatcher(network(), LOSS, plan=usual, rows=data(), canary=0)
    assert watcher.run_epsilon(1.0) == pytest.approx(usual.profile.epsilon(1e-5), rel=1e-6)
    assert 0 < watcher.run_epsilon(0.8) < watcher.run_epsilon(1.0)


@pytest.mark.parametrize(
    "executed",
    [plan(noise_multiplier=0.25), plan(clip=0.4, noise_multiplier=0.125)],
    ids=["half the noise", "clipped four times too late"],
)
def test_a_trainer_that_does_something_else_is_refuted(executed: Plan) -> None:
    found = watched(executed).judge(confidence=0.999)
    assert found.refuted, str(found)
    assert "refuted" in str(found)


def test_clipping_the_average_is_refuted() -> None:
    """A trainer of another house: the average gradient is clipped, not each, and the noise is that of the plan."""
    model, (x, y) = network(), data(8)
    promised = plan(size=8, batch=4)
    watcher = StepWatcher(model, LOSS, plan=promised, rows=(x, y), canary=0)
    random = torch.Generator().manual_seed(9)
    for step in range(80):
        units = [unit for unit in range(8) if torch.rand((), generator=random) < 0.5]
        model.zero_grad()
        if units:
            LOSS(model(x[units]), y[units]).mean().backward()
        gradients = {
            name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
        }
        length = torch.sqrt(sum(each.square().sum() for each in gradients.values()))  # type: ignore[arg-type]
        factor = min(1.0, float(promised.clip) / max(float(length), 1e-9))
        scale = float(promised.noise_multiplier * promised.clip / promised.batch)
        released = {n: g * factor + scale * torch.randn(g.shape, generator=random) for n, g in gradients.items()}
        with torch.no_grad():
            for name, each in model.named_parameters():
                each -= 0.001 * released[name]  # type: ignore[misc]
        watcher(SimpleNamespace(step=step, released=released, units=units))
    found = watcher.judge(confidence=0.999)
    assert found.refuted, str(found)


@pytest.mark.parametrize(
    "wrong", [{"noise": GridNoise()}, {"relation": REPLACE}, {"unit": "who", "rows_per_unit": 2}], ids=str
)
def test_other_plans_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="plan"):
        StepWatcher(network(), LOSS, plan=plan(**wrong), rows=data(), canary=0)


def test_the_canary_must_be_there() -> None:
    with pytest.raises(InvalidArgument, match="canary"):
        StepWatcher(network(), LOSS, plan=plan(), rows=data(), canary=4)
