"""A small convolutional network on Fashion-MNIST, trained end to end at ε = 3, δ = 1e-5.

    DENIABLE_DATA=data python examples/fashion_cnn.py

Large batches, few steps, no momentum, group normalisation; what is reported is the average of the weights over the
last steps, which costs nothing. The settings were chosen with `--held-out 5000`, which keeps so many training images
aside and reports on them instead of the test images. Every seed is a run of its own: whoever published all of them
would pay for all of them. On a GPU a run takes seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import fashion
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import deniable as dn


def network() -> nn.Module:
    """29,034 parameters: two convolutions, each normalised within an image, and one linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(4, 16),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(8, 32),
        nn.Flatten(), nn.Linear(1568, 10),
    )  # fmt: skip


def tempered_network() -> nn.Module:
    """26,010 parameters, with bounded activations (Papernot et al. 2021, "Tempered sigmoid activations")."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, stride=1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return float((torch.cat([model(part) for part in x.split(1000)]).argmax(1) == y).double().mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=3)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--batch", type=int, default=4096)
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--held-out", type=int, default=0, help="report on so many training images, kept aside")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = options.parse_args()
    (x, y), (test, labels) = (
        tuple(part.to(chosen.device) for part in (2 * pixels - 1, classes))
        for pixels, classes in (fashion.images("train"), fashion.images("t10k"))
    )
    if chosen.held_out:
        (x, test), (y, labels) = (part.split([len(part) - chosen.held_out, chosen.held_out]) for part in (x, y))
    target = dn.ApproxDP(chosen.epsilon, 1e-5)
    plan = dn.deep.Plan(size=len(x), batch=chosen.batch, steps=chosen.steps, clip=1, target=target)
    print(plan)
    accuracies = []
    for seed in range(chosen.seeds):
        torch.manual_seed(seed)  # the first weights; noise and sampling are never seeded
        model = network().to(chosen.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=4)
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
        trainer = dn.deep.Trainer(model, optimizer, nn.CrossEntropyLoss(reduction="none"), plan)
        start = time.perf_counter()
        trainer.fit((x, y), on_step=lambda _, m=model, a=averaged: a.update_parameters(m))  # type: ignore[misc]
        accuracies.append(accuracy(averaged, test, labels))
        seconds = time.perf_counter() - start
        print(f"seed {seed}: {accuracies[-1]:.4f} after {seconds:.0f} s; {trainer.progress}", flush=True)
    where = "held-out training" if chosen.held_out else "test"
    print(f"accuracy on {where} images, mean of {len(accuracies)}: {statistics.mean(accuracies):.4f}")


if __name__ == "__main__":
    main()
