"""The case of Tramèr et al. 2022, end to end, on a scale that runs in a minute or two.

    python examples/audit_case_2022.py [runs]

A small convolutional network is trained with a claim of ε = 0.21 at δ = 1e-5. Its noise is divided by the batch size
once too often. The attacker never looks inside: they put a checkerboard with a wrong label among the pictures, train
with and without it, and look at its loss. Pilot runs choose the threshold, fresh runs are counted, and Clopper and
Pearson give a lower bound on ε that is wrong with probability 1e-10. The right twin goes through the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from deniable.auditing import statistics as st
from deniable.auditing.training import checkerboard, wrong_label
from deniable.conversions import gaussian_claim_to_gdp
from deniable.guarantees import ApproxDP

SIDE, CLASSES, BATCH, STEPS, CLIP = 6, 3, 100, 3, 1.0
CLAIM = ApproxDP(0.21, 1e-5)
MULTIPLIER = float(STEPS**0.5 / gaussian_claim_to_gdp(CLAIM).mu)
"""All records are in every step, so the run is GDP with μ = √steps / multiplier."""


def network() -> nn.Module:
    """A convolution and a linear layer; every run starts from the same weights, which the attacker may know."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * (SIDE - 2) ** 2, CLASSES))


MODEL = network()


def example_loss(weights: dict[str, Any], picture: Any, label: Any) -> Any:
    """The loss of one example."""
    return nn.functional.cross_entropy(functional_call(MODEL, weights, (picture[None],)), label[None])


GRADIENTS = vmap(grad(example_loss), in_dims=(None, 0, 0))


def train(pictures: Any, labels: Any, *, noise: float) -> dict[str, Any]:
    """Noisy sums of clipped gradients."""
    weights = {name: value.detach().clone() for name, value in MODEL.named_parameters()}
    for _ in range(STEPS):
        each = GRADIENTS(weights, pictures, labels)
        norms = torch.sqrt(sum(g.flatten(1).square().sum(1) for g in each.values()))
        factors = torch.clamp(CLIP / norms.clamp(min=1e-12), max=1)
        for name, value in each.items():
            total = torch.einsum("b,b...->...", factors, value)
            weights[name] = weights[name] - 0.5 * (total + noise * CLIP * torch.randn_like(total)) / BATCH
    return weights


def data() -> tuple[Any, Any, Any, Any]:
    """Pictures and labels, without and with the canary."""
    generator = torch.Generator().manual_seed(1)
    pictures = 0.2 * torch.randn(BATCH, 1, SIDE, SIDE, generator=generator)
    labels = torch.zeros(BATCH, dtype=torch.long)
    canary = torch.tensor(checkerboard((SIDE, SIDE), low=-1, high=1), dtype=torch.float32)[None, None]
    label = torch.tensor([wrong_label(0, classes=CLASSES)])
    return pictures, labels, torch.cat([pictures, canary]), torch.cat([labels, label])


def scores(runs: int, *, noise: float) -> tuple[Any, Any]:
    """The canary's loss, with its sign turned, in runs without and with it."""
    pictures, labels, more, labelled = data()

    def score(x: Any, y: Any) -> float:
        return -float(example_loss(train(x, y, noise=noise), more[-1], labelled[-1]))

    without = [score(pictures, labels) for _ in range(runs)]
    return np.array(without), np.array([score(more, labelled) for _ in range(runs)])


def attack(runs: int, *, noise: float, confidence: float) -> st.Bound:
    """A threshold from pilot runs, a fifth of all; counts from fresh ones; a lower bound on ε."""
    draw: Callable[[int], tuple[Any, Any]] = partial(scores, noise=noise)
    threshold = st.choose_threshold(*draw(max(8, runs // 5)), delta=float(CLAIM.delta))
    counts = st.count_at(threshold, *draw(runs))
    return st.epsilon_lower(counts, delta=CLAIM.delta, confidence=confidence)


def main(runs: int = 600) -> None:
    """Attack the buggy training and its twin."""
    torch.set_num_threads(1)
    trainings = {"noise divided by the batch once too often": MULTIPLIER / BATCH, "the right twin": MULTIPLIER}
    for name, noise in trainings.items():
        found = attack(runs, noise=noise, confidence=1 - 1e-10)
        verdict = "REFUTED" if found.value > float(CLAIM.epsilon) else "consistent"
        print(f"{name}: ε ≥ {found.value:.2f} but for a chance of 1e-10; claimed {float(CLAIM.epsilon)}: {verdict}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
