"""The tilted convolution power of lattice laws, with a bound on every error.

Masses w are tilted to v = w·e^{λl − K}, so that the composition is large where it is asked about and rounding is
relative to δ rather than to 1. With a = FFT(v), the composed tilted masses are y = FFT⁻¹(Π aⁿ), on a window of N
points, and

    δ(ε) = e^{ΣnK − λε} · Σ_{l > ε} y(l)·g(l − ε),   g(x) = e^{−λx}(1 − e^{−x}).

Terms of the error, all in units of e^{ΣnK − λε}:

1. *Tilting.* Each v is within a factor 1 ± η of its meaning, η = 4u(2 + |λl − K|): a factor (1 ± η)ⁿ. Those below
   1e-290 are left out, and n times their sum is added (`lost`).
2. *Transform.* ‖a − ã‖₂ ≤ E = 8u·log₂N·√N·‖v‖₂ (Higham 2002, Thm 24.2, with room to spare). Where nE would matter, the
   frequencies that count are summed directly instead, as 1 − Σv·2sin² − iΣv·sin, whose error is len(v)·u·Σv(2sin² +
   |sin|).
3. *Power.* |aⁿ − ãⁿ| ≤ n|a − ã|(|ã| + E)ⁿ⁻¹, summed over all frequencies by Cauchy–Schwarz; the logarithm and the
   exponential add u(8 + 2n|ln ã|) relatively. Frequencies below e^−50 are left out and their bound is added.
4. *Inverse transform.* As 2, for the vector Π aⁿ.
5. *Wrapping.* The window is cyclic. Mass that lies outside it is bounded by Chernoff from the stored v; from above it
   may hide δ of at most e^{−λ(top − ε)} each, from below it may have entered at the largest g.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from deniable.accounting.grid.cumulants import Window
from deniable.accounting.grid.lattice import Lattice
from deniable.accounting.pairs.law import Array
from deniable.numerics.arrays import UNIT


@dataclass(frozen=True, eq=False)
class Power:
    """A composition on a window of losses, tilted."""

    tilt: float
    step: float
    start: float
    """The loss of the first point of the window."""

    log_scale: float
    """ΣnK."""

    mass: Array
    infinite: float
    """Bound on the P-mass of infinite losses."""

    factor: float
    """ln of the factor by which the true masses may differ."""

    shift: float
    """How far the true losses may be from the lattice."""

    point_error: float
    """Bound on the error of a single mass."""

    norm_error: float
    """Bound on the Euclidean norm of a further error."""

    wrapped: tuple[float, float]
    """Tilted mass below and above the window, at most."""

    lost: float = 0.0
    """Tilted mass that was too small to keep, at most."""

    def loss(self, index: int) -> float:
        """The loss of a point."""
        return self.start + self.step * index

    @cached_property
    def kernel(self) -> tuple[Array, float, float]:
        """g at 1, 2, … points, out to where it vanishes, with its sum and its norm (both rounded up)."""
        count = len(self.mass)
        if self.tilt * self.step * count > 80:
            count = math.ceil(80 / (self.tilt * self.step)) + 1
        away = self.step * np.arange(1, count + 1)
        g = np.exp(-self.tilt * away) * -np.expm1(-away)
        return g, float(g.sum()) * (1 + 1e-9), math.sqrt(float(g @ g)) * (1 + 1e-9)

    @property
    def dropped(self) -> float:
        """What lies beyond the kernel: at most all the mass, at e^−80."""
        return 2 * math.exp(-80.0) if len(self.kernel[0]) < len(self.mass) else 0.0

    def log_delta(self, index: int) -> tuple[float, float]:
        """ln of the two ends of δ at the loss of a point, before `factor`, `shift` and `infinite`."""
        g, total, norm = self.kernel
        here = self.mass[index + 1 :][: len(g)]
        value = float(here @ g[: len(here)])
        size = value + 2 * self.point_error * total + 2 * self.norm_error * norm
        error = self.point_error * total + self.norm_error * norm + len(g) * UNIT * size
        base = self.log_scale - self.tilt * self.loss(index)
        rounding = 8 * UNIT * (abs(self.log_scale) + abs(self.tilt * self.loss(index)) + 2)
        room = self.step * (len(self.mass) - index)
        hidden = self.wrapped[1] * math.exp(-min(self.tilt * room, 700.0)) + self.lost
        largest = float(g.max())
        up = value + error + hidden + self.dropped
        down = value - error - (self.wrapped[0] + self.wrapped[1]) * largest
        return (
            base - rounding + math.log(down) if down > 0 else -math.inf,
            base + rounding + math.log(up) if up > 0 else -math.inf,
        )


def power(parts: Sequence[tuple[Lattice, int]], *, tilt: float, size: int, window: Window) -> Power:
    """The composition of lattices, each with its count, on a window of `size` points about its tilted mean."""
    step = parts[0][0].step
    if any(not np.any(lattice.mass > 0) for lattice, _ in parts):
        return _nothing(step, tilt, size, window)
    steps = [_Tilted.of(lattice, count, tilt) for lattice, count in parts]
    logs, error, kept, left_out = _spectrum(steps, size)
    spectrum = np.zeros(size // 2 + 1, dtype=complex)
    with np.errstate(under="ignore"):
        spectrum[kept] = np.exp(logs)
    mass = np.asarray(fft.irfft(spectrum, size))
    double = np.full(size // 2 + 1, 2.0)
    double[0] = double[-1] = 1.0
    norm = math.sqrt(float(double @ np.abs(spectrum) ** 2) / size)
    # The window starts `begin` points from the sum of the steps' own centres.
    centre = sum((Fraction(s.centre) * s.count for s in steps), Fraction(0))
    begin = math.floor((Fraction(window.low) - centre) / Fraction(step))
    start = float(centre + Fraction(step) * begin)
    mass = np.roll(mass, -(begin % size))
    # Chernoff: the window reaches from begin to begin + size, in points from the sum of the centres.
    wrapped = (
        _wrapped(steps, begin, -window.slopes[0] * step),
        _wrapped(steps, begin + size - 1, window.slopes[1] * step),
    )
    counts = [(s.lattice, s.count) for s in steps]
    if not (np.isfinite(mass).all() and math.isfinite(error + norm)):
        return unknown(tilt)
    return Power(
        tilt=tilt,
        step=step,
        start=start,
        log_scale=math.fsum(s.count * s.log_mass for s in steps),
        mass=mass,
        infinite=min(1.0, math.fsum(n * lattice.infinite for lattice, n in counts)),
        factor=math.fsum(n * math.log1p(lattice.factor) for lattice, n in counts)
        + math.fsum(s.count * s.tilting for s in steps),
        shift=math.fsum(n * lattice.shift for lattice, n in counts) + 8 * UNIT * (abs(start) + step * size),
        point_error=(error + left_out) / size,
        norm_error=8 * UNIT * math.log2(size) * norm,
        wrapped=wrapped,
        lost=math.fsum(float(s.count) * s.lost for s in steps),
    )


def _nothing(step: float, tilt: float, size: int, window: Window) -> Power:
    """A composition of which nothing is left: the emptiest lower bound."""
    return Power(tilt, step, window.low, 0.0, np.zeros(size), 0.0, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0))


def unknown(tilt: float) -> Power:
    """Nothing is known: δ between 0 and 1."""
    return Power(tilt, 1.0, 0.0, 0.0, np.zeros(4), 1.0, math.inf, 0.0, 0.0, 0.0, (0.0, 0.0))


@dataclass(frozen=True, eq=False)
class _Tilted:
    """One step, tilted and centred."""

    lattice: Lattice
    count: int
    log_mass: float
    mass: Array
    offsets: NDArray[np.int64]
    """Points from the centre."""

    centre: Fraction
    drift: float
    """The tilted mean, in points from the centre."""

    tilting: float
    """Bound on |ln| of the relative error of the masses."""

    lost: float
    """The masses that were too small to keep, together; twice that, for the factors of the other steps."""

    @classmethod
    def of(cls, lattice: Lattice, count: int, tilt: float) -> _Tilted:
        held = np.flatnonzero(lattice.mass > 0)
        losses = lattice.losses[held]
        exponent = tilt * losses
        log_v = np.log(lattice.mass[held]) + exponent
        if np.max(np.abs(exponent)) < 1:
            # A small K is lost in ln Σ unless it is computed from the deviations.
            total = math.fsum(lattice.mass[held])
            log_mass = math.log(total) + math.log1p(float(lattice.mass[held] @ np.expm1(exponent)) / total)
        else:
            peak = float(log_v.max())
            log_mass = peak + math.log(float(np.exp(log_v - peak).sum()))
        raised = exponent - log_mass
        with np.errstate(under="ignore"):
            # Where e^raised is no float the mass is tiny and goes into the exponent.
            direct = lattice.mass[held] * np.exp(np.minimum(raised, 600.0))
            v = np.where(raised < 600, direct, np.exp(np.minimum(log_v - log_mass, 600.0)))
        some = v > 1e-290
        lost = 2e-290 * float(len(v) - some.sum())
        held, v = held[some], v[some]
        middle = int(np.rint(float(v @ held) / float(v.sum())))
        offsets = (held - middle).astype(np.int64)
        centre = Fraction(lattice.origin) + Fraction(lattice.step) * (lattice.first + middle)
        drift = float(v @ offsets) / float(v.sum())
        worst = float(np.max(np.where(raised < 600, np.abs(raised), 1400 + np.abs(raised))[some]))
        return cls(lattice, count, log_mass, v, offsets, centre, drift, 4 * UNIT * (2 + worst), lost)


def _spectrum(steps: Sequence[_Tilted], size: int) -> tuple[NDArray[np.complex128], float, NDArray[np.int64], float]:
    """Σ n·ln a on the frequencies that count, a bound on Σ|error| over all, those frequencies, and what is left out."""
    half = size // 2 + 1
    double = np.full(half, 2.0)
    double[0] = double[-1] = 1.0
    log_bound = np.zeros(half)
    transforms = []
    for s in steps:
        cyclic = np.bincount(np.mod(s.offsets, size), weights=s.mass, minlength=size)
        a = np.asarray(fft.rfft(cyclic))
        error = 8 * UNIT * math.log2(size) * math.sqrt(size) * float(np.linalg.norm(cyclic)) + 4 * UNIT
        transforms.append((a, error))
        log_bound += s.count * np.log(np.abs(a) + error)
    kept = np.flatnonzero(log_bound > -50)
    with np.errstate(under="ignore"):
        left_out = float((double * np.exp(np.minimum(log_bound, 700.0)))[log_bound <= -50].sum())
    bound = np.exp(np.minimum(log_bound[kept], 700.0))
    weight = double[kept]
    logs = np.zeros(len(kept), dtype=complex)
    total = np.full(len(kept), 8 * UNIT)
    spread = 0.0
    for s, (a, error) in zip(steps, transforms, strict=True):
        if s.count * error > 1e-7 and len(kept) * len(s.mass) <= 1 << 25:
            x, y, each = _directly(s, kept, size)
            real, imaginary = 0.5 * np.log1p(2 * x + x * x + y * y), np.arctan2(y, 1 + x)
            total += s.count * each / np.maximum(np.hypot(1 + x, y), 1e-300)
        else:
            here = a[kept]
            real, imaginary = np.log(np.maximum(np.abs(here), 1e-300)), np.angle(here)
            # Σ|error| ≤ n·E·‖bound/(|a| + E)‖₂ by Cauchy–Schwarz, both halves of the spectrum counted.
            ratio = bound / (np.abs(here) + error)
            spread += s.count * error * math.sqrt(float(weight @ ratio**2))
        logs += s.count * (real + 1j * imaginary)
        total += 2 * UNIT * s.count * np.hypot(real, imaginary)
    # (1 + t)-type terms: a relative error t of ln a·n becomes e^t − 1 of the power.
    pointwise = float((weight * bound) @ np.expm1(np.minimum(total, 700.0)))
    return logs, pointwise + spread, kept, left_out


def _directly(s: _Tilted, kept: NDArray[np.int64], size: int) -> tuple[Array, Array, Array]:
    """a − 1 (real and imaginary part) at some frequencies, and a bound on its error."""
    over = math.fsum([*s.mass.tolist(), -1.0])
    x, y, each = np.empty(len(kept)), np.empty(len(kept)), np.empty(len(kept))
    chunk = max(1, (1 << 21) // len(s.mass))
    for begin in range(0, len(kept), chunk):
        k = kept[begin : begin + chunk]
        angle = (np.mod(np.outer(k, s.offsets) + size // 2, size) - size // 2) * (math.pi / size)
        sine = np.sin(angle)
        twice = 2 * sine * np.cos(angle)
        x[begin : begin + chunk] = over - (2 * sine * sine) @ s.mass
        y[begin : begin + chunk] = -(twice @ s.mass)
        each[begin : begin + chunk] = (len(s.mass) + 16) * UNIT * ((2 * sine * sine + np.abs(twice)) @ s.mass)
    return x, y, each + 4 * UNIT * abs(over) + 1e-300


def _wrapped(steps: Sequence[_Tilted], edge: int, slope: float) -> float:
    """Chernoff bound on the tilted mass beyond the edge of the window: E e^{slope·(S − edge)}, from the stored
    masses.
    """
    exponent, margin = -slope * edge, 1e-6
    for s in steps:
        raised = slope * s.offsets
        peak = max(float(np.max(raised)), 0.0)
        rounding = (len(s.mass) + 16) * UNIT
        with np.errstate(under="ignore"):
            if peak < 0.5:
                grown = np.expm1(raised)
                moved = math.log1p(float(s.mass @ grown) + math.fsum([*s.mass.tolist(), -1.0]))
                margin += 2 * s.count * rounding * float(s.mass @ np.abs(grown))
            else:
                moved = peak + math.log(float(s.mass @ np.exp(raised - peak)))
                margin += s.count * (rounding + 4 * UNIT * (1 + peak))
        exponent += s.count * moved
    return math.exp(min(exponent + margin, 0.0))
