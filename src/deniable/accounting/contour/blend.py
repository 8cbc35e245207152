"""A step that is one of several steps, by a public draw: its transform is their weighted mean, M = Σ w_i M_i.

With p_i = w_i M_i(λ)/M(λ), r_i the centred ratios of the parts and m_i their means,

    M(λ + iω)e^{−iωm}/M(λ) − 1 = Σ p_i (r_i e^{iω(m_i − m)} − 1),

so nothing cancels where the ratios are near 1. The weights add up to 1; the first is 1 less the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.transform import Cuttable, LogMoments, Ratios, Tilted, Transform
from deniable.numerics.arrays import CALL, UNIT, Reals, log_of_one_plus

_FAR = 30.0
"""Up to this logarithm M − 1 is summed, beyond it M."""


@dataclass(frozen=True)
class MeanTransform:
    """Transforms with their weights."""

    parts: tuple[tuple[float, Transform], ...]
    lattice: None = None

    @property
    def largest(self) -> float:
        """That of the part with the largest losses."""
        return max(part.largest for _, part in self.parts)

    def cut(self, log_mass: float, digits: float, tilt: float) -> MeanTransform:
        """Every part with its ends cut off: the mean leaves out no more than its parts."""
        parts = [
            (weight, part.cut(log_mass, digits, tilt)) for weight, part in self.parts if isinstance(part, Cuttable)
        ]
        if len(parts) < len(self.parts):
            raise NotCertified("a part has no ends that could be cut")
        return MeanTransform(tuple(parts))

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates: means of the parts' moments under their shares."""
        known = [(weight, part.moments(lambdas)) for weight, part in self.parts]
        with np.errstate(all="ignore"):
            value = _log_mean([(weight, moments.value) for weight, moments in known])
            shares = [weight * np.exp(moments.value - value) for weight, moments in known]
            slope = sum(share * moments.slope for share, (_, moments) in zip(shares, known, strict=True))
            squares = sum(
                share * (moments.curvature + moments.slope**2)
                for share, (_, moments) in zip(shares, known, strict=True)
            )
        return LogMoments(value, np.asarray(slope), np.maximum(squares - slope**2, 1e-300))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedMean:
        """All parts on Re z = tilt."""
        parts = [(weight, part.tilted(tilt, reach=reach, digits=digits)) for weight, part in self.parts]
        return TiltedMean(tilt, parts)


def _log_mean(terms: Sequence[tuple[float, Reals]]) -> Reals:
    """log Σ w e^k, without loss where all k are near 0."""
    top = np.maximum(np.max([value for _, value in terms], axis=0), 0.0)
    near = np.log1p(sum(weight * np.expm1(np.minimum(value, _FAR)) for weight, value in terms))
    far = top + np.log(sum(weight * np.exp(value - top) for weight, value in terms))
    return np.asarray(np.where(top <= _FAR, near, far))


@dataclass(frozen=True)
class TiltedMean:
    """A weighted mean on Re z = tilt."""

    tilt: float
    parts: Sequence[tuple[float, Tilted]]

    @cached_property
    def logarithm(self) -> float:
        """log Σ w_i M_i(λ)."""
        return float(_log_mean([(weight, np.array([part.logarithm])) for weight, part in self.parts])[0])

    @cached_property
    def _shares(self) -> list[float]:
        """p_i."""
        return [weight * math.exp(part.logarithm - self.logarithm) for weight, part in self.parts]

    @cached_property
    def error(self) -> float:
        """The errors of the parts with their shares. Rounding is relative to the parts of M − 1; if M is huge, to M."""
        known = math.fsum(share * part.error for share, (_, part) in zip(self._shares, self.parts, strict=True))
        top = max(part.logarithm for _, part in self.parts)
        if top > _FAR:
            rounding = 8 * CALL + 8 * UNIT * top
        else:
            sizes = math.fsum(weight * abs(math.expm1(part.logarithm)) for weight, part in self.parts)
            rounding = 8 * CALL * sizes * math.exp(-self.logarithm)
        return 1.1 * known + 2 * rounding + CALL * abs(self.logarithm)

    @cached_property
    def mean(self) -> float:
        """The mean of the parts' means, rounded: an exact number from here on."""
        return math.fsum(share * part.mean for share, (_, part) in zip(self._shares, self.parts, strict=True))

    @property
    def size(self) -> int:
        """Terms per frequency."""
        return sum(part.size for _, part in self.parts)

    @property
    def atomic(self) -> bool:
        """Whether a part has atoms."""
        return any(part.atomic for _, part in self.parts)

    def ratios(self, omegas: Reals) -> Ratios:
        """The formula above. An error of p_i counts with |r_i e^{…} − 1|, for the p_i add up to 1."""
        total, absolute = np.zeros(len(omegas), dtype=np.complex128), np.zeros(len(omegas))
        for share, (_, part) in zip(self._shares, self.parts, strict=True):
            logarithm, error = part.ratios(omegas)
            away = part.mean - self.mean
            turn = logarithm.imag + omegas * away
            grown, half = np.exp(logarithm.real), np.sin(0.5 * turn)
            change = np.expm1(logarithm.real) * np.cos(turn) - 2 * half * half + 1j * (grown * np.sin(turn))
            total += share * change
            slip = 4 * UNIT * (omegas * (abs(part.mean) + abs(self.mean)) + np.abs(turn) + np.abs(logarithm))
            sizes = np.abs(np.expm1(logarithm.real)) + 2 * half * half + np.abs(grown * np.sin(turn))
            own = 16 * CALL + 2 * (part.error + self.error)
            absolute += share * (1 + 4 * CALL) * (grown * (error + slip) + own * sizes)
        answer = log_of_one_plus(total.real, total.imag)
        size = np.exp(answer.real)
        absolute += 16 * UNIT * np.abs(total) / np.minimum(size, 1.0)
        return Ratios(answer, 1.01 * absolute / size + 8 * UNIT * np.abs(answer.imag))

    def decay(self, omegas: Reals, last: float) -> Reals:
        """|Σ p_i r_i| ≤ Σ p_i |r_i|."""
        falls = [
            (share, np.expm1(part.decay(omegas, last)))
            for share, (_, part) in zip(self._shares, self.parts, strict=True)
        ]
        own = 16 * CALL + 2 * (self.error + max(part.error for _, part in self.parts))
        total = np.zeros(len(omegas))
        for share, fall in falls:
            total += share * (fall + own * np.abs(fall))
        return np.minimum(np.log1p(np.maximum(total, -1 + 1e-300)), 0.0)
