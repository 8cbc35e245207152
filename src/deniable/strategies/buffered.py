"""Buffered linear Toeplitz strategies: a few buffers replace the whole series of past vectors.

C is Toeplitz with c_0 = 1 and c_k = Σ_i weight_i·decay_i^(k−1). Its noise is

    n_t = z_t − Σ_i weight_i·s_i,   then   s_i ← decay_i·s_i + n_t,

one buffer s_i per term (Dvijotham et al. 2024). The inverse has the same form (`inverse`), with the roots of the
denominator as decays. For decays in [0, 1) and weights ≥ 0 the coefficients are at least 0 and fall from the second on,
so the sensitivity of a separated pattern is exact (`sensitivity`; McMahan–Xu–Zhang 2024, section 4).

>>> Buffered(decays=[0.9, 0.5], weights=[0.1, 0.3], steps=4).coefficients
array([1.   , 0.4  , 0.24 , 0.156])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.strategies.base import Strategy, finite, pack, unpack
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream, add
from deniable.strategies.toeplitz import Toeplitz


class Buffered(Toeplitz):
    """A Toeplitz strategy, given by the decays and weights of its buffers.

    Args:
        decays: one number in [0, 1) per buffer.
        weights: one number ≥ 0 per buffer.
        steps: the steps of the run.
    """

    def __init__(self, *, decays: Any, weights: Any, steps: int) -> None:
        self.decays, self.weights = finite("decays", decays), finite("weights", weights)
        inside = np.all((self.decays >= 0) & (self.decays < 1)) and np.all(self.weights >= 0)
        if self.decays.ndim != 1 or self.decays.shape != self.weights.shape or not inside:
            raise InvalidArgument("decays", "…", "in [0, 1), one for each weight, and the weights at least 0")
        super().__init__(coefficients_of(self.decays, self.weights, _checks.count("steps", steps)), steps)

    @property
    def memory(self) -> int:
        return len(self.decays)

    @property
    def falls(self) -> bool:
        return True  # by its parameters; rounded coefficients could rise by a last digit

    def inverse(self) -> tuple[Array, Array]:
        """Decays and weights of C⁻¹, which may be negative: 1/C(z) by partial fractions."""
        # C(z) = 1 + Σ w_i z/(1 − θ_i z). In y = 1/z: C = Π(y − μ_i)/Π(y − θ_i), so 1/C has decays μ_i.
        below = np.poly(self.decays)
        above = below.copy()
        for i, weight in enumerate(self.weights):
            others = np.poly(np.delete(self.decays, i))
            above[1:] += weight * others
        roots = np.roots(above)
        inverse_weights = [
            np.prod(root - self.decays) / np.prod(root - np.delete(roots, i)) for i, root in enumerate(roots)
        ]  # fmt: skip
        return np.real(roots), np.real(np.array(inverse_weights))

    def stream(self) -> Stream:
        return BufferedStream(self.decays, self.weights, self.steps)

    def plain(self) -> dict[str, Any]:
        return {"kind": "Buffered", "steps": self.steps, "decays": pack(self.decays), "weights": pack(self.weights)}

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Strategy:
        return Buffered(decays=unpack(plain["decays"]), weights=unpack(plain["weights"]), steps=plain["steps"])

    def __repr__(self) -> str:
        return f"Buffered(steps={self.steps}, buffers={self.memory})"


def coefficients_of(decays: Array, weights: Array, steps: int) -> Array:
    """1, Σ w, Σ w·θ, Σ w·θ², …."""
    powers = np.arange(steps - 1)[:, None]
    return np.concatenate([[1.0], (decays**powers) @ weights])


class BufferedStream(Stream):
    """One buffer per decay."""

    def __init__(self, decays: Array, weights: Array, steps: int) -> None:
        super().__init__(steps)
        self._decays, self._weights = decays, weights
        self._buffers: list[Any] = []

    def _next(self, fresh: Sequence[Any]) -> Any:
        noise = fresh[0]
        if not self._buffers:
            self._buffers = [noise * 0.0 for _ in self._decays]
        for weight, buffer in zip(self._weights, self._buffers, strict=True):
            add(noise, -float(weight), buffer)
        for decay, buffer in zip(self._decays, self._buffers, strict=True):
            buffer *= float(decay)
            add(buffer, 1.0, noise)
        return noise

    def _memory(self) -> list[Any]:
        return list(self._buffers)

    def _restore(self, memory: list[Any]) -> None:
        if len(memory) not in (0, len(self._decays)):
            raise DataError("the state of the noise does not have one vector per buffer")
        self._buffers = memory

    def _forget(self, step: int) -> None:
        if step != self.step:
            self._buffers = []
