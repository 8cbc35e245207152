"""Clipping inside backpropagation, refuted beside its right twin. Seconds, on NumPy alone.

    python examples/audit_backprop_clipping.py

Stevens et al. 2022 clip each layer's input to C_x in the forward pass and the gradient that comes back to C_g. For a
linear layer one example's gradient is the product of the two, so its norm is at most C_x·C_g: sound, if the gradients
are those of single examples, and the noise is for C_x·C_g. With a loss that is averaged over the batch every gradient
that comes back already carries 1/B. Clipping *that* bounds one example's share by C_x·C_g, not by C_x·C_g/B, and noise
for C_x·C_g/B is B times too small (Tramèr et al. 2022 measured such a bug from outside).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import deniable as dn

BATCH, INPUTS, OUTPUTS = 8, 5, 3
INPUT_CLIP, GRADIENT_CLIP, SCALE = 1.0, 1.0, 1.0
WEIGHTS = np.random.default_rng(0).normal(size=(OUTPUTS, INPUTS)) / 10


def shorten(rows: Any, clip: float) -> Any:
    """Each row with a norm of at most `clip`."""
    return rows * np.minimum(1, clip / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def backward(rows: Any, *, averaged: bool) -> tuple[Any, Any]:
    """The layer's inputs, clipped, and the gradients that come back to its outputs: those of a squared error."""
    inputs = shorten(rows[:, :INPUTS], INPUT_CLIP)
    back = inputs @ WEIGHTS.T - rows[:, INPUTS:]
    return inputs, back / BATCH if averaged else back


def clipped_after_the_mean(rows: Any) -> Any:
    """The bug: gradients of the mean loss are clipped, and the noise is for a mean."""
    inputs, back = backward(rows, averaged=True)
    total = shorten(back, GRADIENT_CLIP).T @ inputs
    return total + np.random.normal(scale=SCALE * INPUT_CLIP * GRADIENT_CLIP / BATCH, size=total.shape)


def clipped_before_the_mean(rows: Any) -> Any:
    """The twin: gradients of single examples are clipped, summed, noised and then averaged."""
    inputs, back = backward(rows, averaged=False)
    total = shorten(back, GRADIENT_CLIP).T @ inputs
    return (total + np.random.normal(scale=SCALE * INPUT_CLIP * GRADIENT_CLIP, size=total.shape)) / BATCH


def neighbours() -> tuple[Any, Any]:
    """A batch, and the batch without one example that is far from the others."""
    rows = np.random.default_rng(1).normal(size=(BATCH, INPUTS + OUTPUTS))
    rows[-1] = 50.0
    return rows, rows[:-1]


def main() -> None:
    """Audit both."""
    for step in (clipped_after_the_mean, clipped_before_the_mean):
        print(step.__name__.replace("_", " "))
        print(dn.audit(step, neighbours=neighbours(), claim=dn.Gaussian(scale=SCALE), runs=400, seed=1))
        print()


if __name__ == "__main__":
    main()
