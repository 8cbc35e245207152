"""Small models and data for the tests of training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import deniable as dn
from deniable.deep import Plan

cross_entropy = nn.CrossEntropyLoss(reduction="none")


def table(rows: int = 200, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of four numbers and one of three labels."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=random)
    return x, (x @ torch.randn(4, 3, generator=random)).argmax(1)


def network(*, seed: int = 1, width: int = 8) -> nn.Module:
    """Two layers."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3))


def sgd(model: nn.Module, **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD((p for p in model.parameters() if p.requires_grad), **{"lr": 0.1, **settings})


def plan(**changed: Any) -> Plan:
    """200 examples, batches of 20, 12 steps."""
    usual: dict[str, Any] = {"size": 200, "batch": 20, "steps": 12, "clip": 1, "noise_multiplier": 2}
    return Plan(**{**usual, **changed})


def flat(model: nn.Module) -> Tensor:
    """All parameters in one row."""
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def ledger(path: Any, *, unit: str = "row", epsilon: float = 10, **settings: Any) -> dn.Ledger:
    return dn.Ledger.create(path, unit=unit, budget=dn.ApproxDP(epsilon, 1e-4, **settings))
