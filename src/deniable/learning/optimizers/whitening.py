"""The default of linear models: whiten privately, then descend by noisy gradients.

One noisy second moment of the rows shows which directions they fill. Dividing by it gives all directions the same size,
so that gradient descent needs no luck with its step: noise then costs the effective dimension once, whatever the
condition number. Step, clip and averaging follow from one number that is known when the descent starts.

*What is released.* With z the integer row (|z| ≤ 1) and y the label (|y| ≤ 1, regression only):

1. (Σ zz′, and for regression Σ zy and Σ y²) as one vector, with Gaussian noise. zz′ counts as (diagonal, √2 × upper
   triangle), whose length is |z|². So noise σ on the diagonal and σ/√2 above it is noise σ on a vector of length at
   most 1: variances in the exact ratio 2, not a scaled integer √2. Σ y² counts `SQUARES` = 0.3 times, with noise
   σ/0.3, for a length² of at most 1 + 1 + 0.09. Where the table has no constant column of at least a quarter of z's
   squared length, the number of records is released beside, ½ for a record.
2. T sums of gradients, each clipped to C, with Gaussian noise: `GradientDescent`.

*Neighbours under REPLACE.* Two records with vectors a, b are |a − b|² = |a|² + |b|² − 2⟨a, b⟩ apart. With q = ⟨z, z*⟩
and p = yy*, the product is q² + qp + 0.09p² ≥ (0.09 − ¼)p² ≥ −0.16, and q² ≥ 0 without labels (a count adds something
positive). So the sensitivity² is at most 2·length² + 0.32 for regression and 2·length² for classes.

*Privacy.* Both parts are Gaussian private whatever the number of records, and everything after the first is chosen from
its output: adaptive composition (Dong–Roth–Su 2019, Cor. 3.3). The event is Gaussian(1/(μ√s)) + T × Gaussian(√T/(μ√(1 −
s))); it is known before any record is read.

*Exactness.* Integer rows give integer moments. The whitening matrix is an output; z times it is exact
(`IntegerTable.margins`), and the products are placed on the integer grid anew, row by row, at most `LONGEST` long.

The constants were settled on public tables by measuring (`bench/learning.py` measures them on others); they form a
plateau: share 0.15–0.4, ridge 0.1–0.5 and steps 30–120 score alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable._progress import Tracker, silent
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning.losses import Hinge, Logistic, SmoothedHinge
from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import (
    Array,
    Data,
    Method,
    MethodPlan,
    Solution,
    Task,
    clipped_sum,
    gradient_grid,
    linear,
)
from deniable.learning.optimizers.intervals import CoefficientSpread, DescentRecursion, mean_curvature
from deniable.learning.optimizers.statistics import second_moments
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, round_up, sides
from deniable.learning.table import ONE, IntegerTable
from deniable.noise import Source
from deniable.units import Relation

SQUARES = Fraction(3, 10)
"""How much Σ y² counts in the first release: it is one number and sets the scale of residuals only."""

LONGEST = 8.0
"""The longest whitened row; their mean square is 1. Longer ones are shortened."""

MOST_COLUMNS = 1000
"""Beyond so many columns only the diagonal of the second moment is released: d numbers, not d²/2."""

LEAST_CONSTANT = 0.25
"""The squared constant column from which the second moment itself counts the records."""

_COUNTED = math.floor(math.sqrt(0.5) * ONE)
"""The constant beside a row where the table has none: its square, ½, counts the record."""


@dataclass(frozen=True)
class Setting:
    """The constants for one kind of loss."""

    share: Fraction
    """The part of μ² for the second moment: enough to see directions, the rest for the descent."""

    ridge: float
    """What is added to the eigenvalues, in spectral edges σ√(2d) of the noise: no direction is divided by less."""

    steps: int
    momentum: float
    average: float
    """The last part of the steps, over which θ is averaged: averaging removes noise that the steps put in."""

    stride: float
    """The effective step, in 1/(smoothness × largest eigenvalue): 8 with momentum 0.7 is stable, 3.4/0.3 is the end."""

    clip: float
    """The clip is clip/x: less noise allows longer gradients, and short clips bias probabilities."""

    least_clip: float
    most_clip: float
    wander: float
    """How far noise alone may carry a margin, in standard deviations of nothing else: the cap on the step."""


ROW_LENGTH = 1.5
"""Whitened rows have mean square length 1. Gradients of a lopsided loss are cut where a row is longer than this."""

BINARY = Setting(Fraction(1, 5), 0.3, 60, 0.7, 0.4, 8.0, 0.0125, 0.45, 8.0, 2.0)
MANY = Setting(Fraction(1, 5), 0.3, 60, 0.7, 0.4, 8.0, 0.0125, 0.25, 8.0, 3.0)
"""Several classes: a record's residual is spread over its margins, so shorter clips keep it."""
REAL = Setting(Fraction(3, 10), 0.2, 30, 0.5, 0.5, 2.0, 0.03, 0.3, 6.0, 1.4)
"""Least squares: clip and wander are in units of the residuals' scale, and the descent starts near its end."""


@dataclass(frozen=True)
class Whitened(Method):
    """Whiten by one noisy second moment, then noisy gradient descent; the default of every linear model.

    Preconditions: δ > 0. No smoothness, no Lipschitz bound, no number of records. It has no risk bound that is worth
    printing; what to expect is `Outlook`, by measurement.

    >>> from deniable.guarantees import ApproxDP
    >>> from deniable.learning.losses import Logistic
    >>> Whitened().plan(Task(Logistic(), 10, ApproxDP(1, 1e-6), size=0, constant=0.7)).event
    Gaussian(scale=9.44666918) + Gaussian(scale=36.5867925) * 60
    """

    name: ClassVar[str] = "whitened"
    theorem: ClassVar[str] = "a noisy second moment, then noisy gradients: Gaussian composition (Dong–Roth–Su 2019)"
    counts: ClassVar[bool] = True

    part: Fraction = Fraction(1)
    """The part of μ² that it spends; less where something else is released beside."""

    def plan(self, task: Task) -> WhitenedPlan:
        loss = linear(task, self)
        if task.radius is not None:
            raise self.refuse("it minimises over all θ; a radius would be ignored.")
        setting = REAL if loss.regression else BINARY if loss.outputs == 1 else MANY
        mu = largest_mu(task.target) * math.sqrt(self.part)
        counted = task.constant**2 < LEAST_CONSTANT
        real = Fraction(1) + SQUARES**2 if loss.regression else Fraction(0)
        squared = 1 + real + (Fraction(1, 4) if counted else 0)
        length = round_up(math.sqrt(squared) * (1 + 1e-12))
        apart = Fraction(1)
        if task.relation is Relation.REPLACE:
            below = Fraction(1, 4) - SQUARES**2 if loss.regression else Fraction(0)
            apart = round_up(math.sqrt(2 * (squared + below) / squared) * (1 + 1e-12))
        first = round_up(float(apart) / (mu * math.sqrt(setting.share)) * (1 + 1e-12))
        rest = mu * math.sqrt(1 - setting.share)
        ratio = round_up(task.sides * math.sqrt(setting.steps) / rest * (1 + 1e-12))
        d = task.columns
        draws = (d if d > MOST_COLUMNS else d * (d + 1) // 2) + (d + 1 if loss.regression else 0) + counted
        event = gaussian_event(first, draws=draws, relation=task.relation, sensitivity=apart) + gaussian_event(
            ratio, steps=setting.steps, draws=setting.steps * task.parameters, relation=task.relation
        )
        return WhitenedPlan(task, event, math.inf, setting, length, first, ratio, rest / task.sides, counted)


@dataclass(frozen=True)
class NoisyMoments:
    """The first release, in units of z: all noisy."""

    second: NDArray[np.float64]
    """Σ zz′, or its diagonal."""

    products: NDArray[np.float64]
    """Σ zy; zeros without real labels."""

    squares: float
    """Σ y²; 0 without real labels."""

    size: float
    """The number of records: declared, or counted with noise and no less than its noise."""

    doubt: float
    """1, or more where the count drowns in its noise: the noise number is so many times larger."""

    noise: float
    """σ, the noise on the diagonal."""


@dataclass(frozen=True)
class Basis:
    """Whitened coordinates: z times `matrix`, whose columns (or diagonal) are scaled eigenvectors."""

    matrix: NDArray[np.float64]
    values: NDArray[np.float64]
    """Eigenvalues of the noisy second moment, no less than 0."""

    scales: NDArray[np.float64]
    largest: float
    """The largest eigenvalue of the whitened rows' second moment; 1/largest is the effective dimension."""

    def back(self, theta: Array) -> NDArray[np.float64]:
        """Whitened coordinates to coordinates of z."""
        if self.matrix.ndim == 1:
            return np.asarray((self.matrix * theta.T).T)
        return np.asarray(self.matrix @ theta)

    def apply(self, table: IntegerTable) -> IntegerTable:
        """The whitened rows as integers; a row of length 1 there is `LONGEST` long here."""
        if self.matrix.ndim == 2:
            return IntegerTable.place(table.margins(self.matrix), norm=LONGEST)
        rows = table.rows * (self.matrix / ONE) if isinstance(table.rows, np.ndarray) else _stretch(table, self.matrix)
        return IntegerTable.place(rows, norm=LONGEST)


@dataclass(frozen=True)
class WhitenedPlan(MethodPlan):
    """One run."""

    setting: Setting
    length: Fraction
    """What a record's moments are long, at most."""

    first: Fraction
    """Noise of the first release, in `length`."""

    ratio: Fraction
    """Noise of every step, in clips."""

    mu: float
    """The GDP parameter of the descent under ADD_REMOVE; under REPLACE half of it, as noise is for two clips."""

    counted: bool
    """Whether the number of records is released beside the second moment."""

    @property
    def loss(self) -> LinearLoss:
        """The loss; a hinge has its corner rounded off by a quarter: at most 1/16 more, and a step that may be long."""
        return SmoothedHinge(0.25) if isinstance(self.task.linear, Hinge) else self.task.linear

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        return self.solve(data, source=source, track=track).theta

    def solve(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Solution:
        setting, loss = self.setting, self.loss
        moments = self.measure(data, source)
        basis = whiten(moments, ridge=setting.ridge)
        number = moments.doubt / (basis.largest * self.mu * moments.size)
        start, scale = np.zeros(self.task.shape), 1.0
        if loss.regression:
            start, scale = self._start(moments, basis, number)
        if not loss.smooth:
            loss = loss.smoothed(scale / 4)
        clip = (
            ROW_LENGTH * loss.lipschitz
            if loss.lopsided
            else scale * min(max(setting.clip / number, setting.least_clip), setting.most_clip)
        )
        noisy = setting.wander * scale * min(1.0, 0.5 / number) * self.mu * moments.size / (setting.steps * clip)
        step = min(setting.stride / (loss.smoothness * basis.largest), noisy)
        white = Data(basis.apply(data.table), data.labels, data.weights)
        unit, bound, worth = gradient_grid(clip / LONGEST)
        task = Task(loss, self.task.columns, self.task.target, self.task.size)

        def gradient(theta: Array) -> Array:
            sums = clipped_sum(white, task, theta * LONGEST, unit=unit, bound=bound)
            noisy = add_gaussian(sums, bound=bound, ratio=self.ratio, source=source)
            return np.asarray(noisy * (worth * LONGEST / moments.size))

        # The penalty (λ/2)|θ|² of the user, in whitened coordinates; taken implicitly it cannot overshoot.
        pull = 1 + step * (self.task.regularization / moments.size) * np.square(basis.scales)
        theta, speed, total = start, np.zeros(task.shape), np.zeros(task.shape)
        kept = max(1, round(setting.steps * setting.average))
        for turn in track(range(setting.steps)):
            speed = setting.momentum * speed + gradient(theta)
            theta = task.project(((theta - step * (1 - setting.momentum) * speed).T / pull).T)
            if turn >= setting.steps - kept:
                total += theta
        found = Solution(task.project(basis.back(total / kept)), moments.size, number, moments)
        if loss.outputs > 1 or loss.lopsided or moments.second.ndim == 1:
            return found
        # Half the spectral noise below its eigenvalue: the curvature that is certain.
        clear = np.maximum(basis.values - 2 * moments.noise, 0.05 * moments.noise)
        bend = 1.0 if loss.regression else self._bend(found.theta, moments)
        curvature = bend * clear * np.square(basis.scales) / moments.size
        recursion = DescentRecursion(curvature, step, setting.momentum, pull, setting.steps, kept)
        noise = float(self.ratio) * clip / moments.size
        # The residuals' scale is read off noisy sums: one deviation of theirs above it.
        unsure = moments.noise / float(SQUARES) / moments.size
        dispersion = scale * scale + unsure if loss.regression else 1.0
        optimum, variance = recursion.spread(total / kept, start, noise=noise, dispersion=dispersion, size=moments.size)
        covariance = (basis.matrix * variance) @ basis.matrix.T
        return replace(found, spread=CoefficientSpread(basis.back(optimum), covariance))

    def _bend(self, theta: Array, moments: NoisyMoments) -> float:
        """The mean curvature of the logistic loss over the margins; for other losses their largest."""
        if not isinstance(self.loss, Logistic):
            return self.loss.smoothness
        square = float(theta @ moments.second @ theta) / moments.size
        center = float(theta @ moments.second[-1]) / (self.task.constant * moments.size) if not self.counted else 0.0
        return mean_curvature(center, square - center * center)

    def measure(self, data: Data, source: Source | None) -> NoisyMoments:
        """The first release."""
        task, d, real = self.task, self.task.columns, self.task.linear.regression
        beside = [np.trunc(np.clip(data.labels, -1, 1) * ONE)] if real else []
        if self.counted:
            beside.append(np.full(data.table.count, float(_COUNTED)))
        sums = second_moments(data, beside, diagonal=d > MOST_COLUMNS)

        def noisy(values: Array, *, weight: Fraction | int = 1) -> NDArray[np.float64]:
            bound = self.length * ONE * ONE
            return add_gaussian(values, bound=bound, ratio=self.first, factor=1 / Fraction(weight), source=source)

        if sums.second.ndim == 1:
            second = noisy(sums.second)
        else:
            second, above = np.diag(noisy(np.diagonal(sums.second))), np.triu_indices(d, 1)
            second[above] = noisy(sums.second[above], weight=2)
            second = second + np.triu(second, 1).T
        products = noisy(sums.products[0]) if real else np.zeros(d)
        squares = float(noisy(sums.squares[:1], weight=SQUARES**2)[0]) if real else 0.0
        last = sums.squares[-1:] if self.counted else None
        constant = _COUNTED if self.counted else math.floor(task.constant * ONE)
        counted = noisy(last)[0] if last is not None else (second[-1] if second.ndim == 1 else second[-1, -1])
        sigma = float(self.first * self.length)
        found, least = float(counted) / constant**2, max(4 * sigma, 10.0)
        size, doubt = (float(task.size), 1.0) if task.size else (max(found, least), 1.0)
        if not task.size and found < least:
            doubt = (least / max(found, least / 10)) ** 2
        return NoisyMoments(second / ONE**2, products / ONE**2, squares / ONE**2, size, doubt, sigma)

    def _start(self, moments: NoisyMoments, basis: Basis, number: float) -> tuple[Array, float]:
        """Least squares on the noisy moments, shrunk by empirical Bayes; and the scale of the residuals around it.

        In an eigenvector's direction b = wθ + noise of variance ν = σ²(1 + |θ|²/2): the noise of b, and that of M times
        θ. With θ ~ N(0, τ²) the posterior mean is wτ²b/(w²τ² + ν); τ² is fitted by expectation and maximisation.
        Directions of less than half the noise's spectral edge say nothing and stay 0.
        """
        d, variance = len(moments.products), moments.noise**2
        theta, values = np.zeros(d), basis.values
        if number <= 1 and moments.second.ndim == 2:
            along = (basis.matrix / basis.scales).T @ moments.products
            clear = values >= 0.5 * moments.noise * math.sqrt(2 * d)
            spread = 1.0
            for _ in range(50 if clear.any() else 0):
                unsure = variance * (1 + float(theta @ theta) / 2)
                precision = values * values * spread + unsure
                theta = np.where(clear, values * spread * along / precision, 0.0)
                spread = float(np.mean((theta**2 + spread * unsure / precision)[clear]))
            left = moments.squares - 2 * float(theta @ along) + float(theta @ (values * theta))
        else:
            left = moments.squares
        scale = math.sqrt(max(left, 0.0) / moments.size)
        return theta / basis.scales, min(max(scale, 0.05), 0.5)  # within labels in [−1, 1]; less is never trusted


def whiten(moments: NoisyMoments, *, ridge: float) -> Basis:
    """The basis in which rows have mean square length 1 and no direction is larger than the noise lets one know."""
    second, d = moments.second, len(moments.second)
    try:
        values, vectors = (second, None) if second.ndim == 1 else np.linalg.eigh(second)
    except np.linalg.LinAlgError:  # it did not converge: noise alone decides that, and all directions count alike
        values, vectors = np.full(d, moments.size / d), np.eye(d)
    values = np.maximum(values, 0.0)
    edge = ridge * moments.noise * (math.sqrt(2 * d) if second.ndim == 2 else math.sqrt(2 * math.log(2 * d)))
    kept = values / (values + edge)
    total = max(float(kept.sum()), 0.5)
    scales = np.sqrt(moments.size / total / (values + edge))
    largest = max(float(kept.max()) / total, 1 / d)
    return Basis(scales if vectors is None else vectors * scales, values, scales, largest)


def _stretch(table: IntegerTable, scales: Array) -> Any:
    """A sparse table with every column scaled."""
    from scipy import sparse

    return sparse.csr_array(table.rows.multiply(scales[None, :] / ONE))


@dataclass(frozen=True)
class Outlook:
    """What to expect of a fit before it is made, from public numbers alone.

    `number` is d/(μn), the largest that the noise number of a fit can be; the fit itself finds the effective dimension.
    The words are what 115 fits on 23 public tables gave.

    >>> Outlook(0.4, columns=20, size=200).words
    'n is too small for d at this ε, expect little or nothing beyond a constant'
    """

    number: float
    columns: int
    size: int

    @classmethod
    def of(cls, target: ApproxDP | PureDP, *, columns: int, size: int) -> Outlook:
        """For a promise, so many columns (the constant among them), and so many records."""
        mu = largest_mu(target) * math.sqrt(1 - BINARY.share) / sides(target.relation)
        return cls(columns / (mu * size), columns, size)

    @property
    def words(self) -> str:
        """What a fit with this noise number gave, on average."""
        return expectation(self.number)

    def __str__(self) -> str:
        line = f"noise number {self.number:.2g} at most ({self.columns} columns, {self.size} records): {self.words}"
        if self.number <= 0.1:
            return line
        enough = math.ceil(self.size * self.number / 0.05)
        return f"{line}; {enough} records would do for three quarters of what a fit without privacy gains"


def expectation(number: float) -> str:
    """The noise number in words: how much of what a fit without privacy gains over a constant is left, on average."""
    for least, share in ((0.005, "about 95 %"), (0.02, "about 90 %"), (0.05, "about 80 %"), (0.1, "about 70 %")):
        if number < least:
            return f"expect {share} of what a fit without privacy gains over a constant"
    if number < 0.2:
        return "n is small for d at this ε, expect about half of what a fit without privacy gains over a constant"
    return "n is too small for d at this ε, expect little or nothing beyond a constant"
