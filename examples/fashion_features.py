"""A linear model on fixed scattering features of Fashion-MNIST, by noisy gradient descent on all of the data.

    DENIABLE_DATA=data python examples/fashion_features.py --epsilon 3

The features are computed from each image alone and learn nothing, so they cost no privacy (Tramèr and Boneh 2021,
"Differentially private learning needs better features"). Settings were chosen on the last 10,000 training images, never
on the test images. Every seed is a run of its own: whoever published all of them would pay for all of them.
"""

from __future__ import annotations

import argparse
import statistics
import time

import fashion
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import deniable as dn

STEPS = 120
SETTINGS = {True: (15.0, 0.13), False: (5.0, 0.24)}
"""Clip and learning rate for ε of 2 and more, and for less."""


def features(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Scattering features with a constant, and labels."""
    pixels, labels = fashion.images(part)
    found = fashion.scattering(pixels)
    return torch.cat([found, torch.full((len(found), 1), 3.0)], dim=1), labels


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=3)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--steps", type=int, default=STEPS)
    chosen = options.parse_args()
    (x, y), (test, labels) = features("train"), features("t10k")
    clip, rate = SETTINGS[chosen.epsilon >= 2]
    target = dn.ApproxDP(chosen.epsilon, 1e-5)
    plan = dn.deep.Plan(examples=60_000, batch=60_000, steps=chosen.steps, clip=clip, target=target)
    print(plan)
    found = []
    for seed in range(chosen.seeds):
        model = nn.Linear(x.shape[1], 10, bias=False)
        nn.init.zeros_(model.weight)  # the problem is convex; only the noise differs between seeds
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        averaged = AveragedModel(model)
        trainer = dn.deep.Trainer(model, optimizer, nn.CrossEntropyLoss(reduction="none"), plan)
        start = time.perf_counter()
        for batch in trainer.batches((x, y)):
            if trainer.step(batch).step > 0.6 * plan.steps:
                averaged.update_parameters(model)
        with torch.no_grad():
            found.append(float((averaged(test).argmax(1) == labels).double().mean()))
        print(f"seed {seed}: {found[-1]:.4f} after {time.perf_counter() - start:.0f} s; {trainer.progress}", flush=True)
    print(f"test accuracy, mean of {len(found)}: {statistics.mean(found):.4f}")


if __name__ == "__main__":
    main()
