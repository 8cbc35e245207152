"""Pictures that teach: the privacy loss, a test between two normal laws, one promise kept in several ways, what a
number of releases costs under each theorem, and accuracy against privacy.

Each function returns a figure as data; `svg.render` and `plots.draw` draw it.

>>> figure = threshold_figure(mu=1)
>>> [line.label for line in figure.lines][-2:]
['false positives: 31 %', 'false negatives: 31 %']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable.accounting import account
from deniable.calibration import calibrate
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event, Gaussian, Laplace, dpsgd
from deniable.explaining.curves import tradeoff_figure
from deniable.explaining.figures import FigureLine, Interval, IntervalFigure, LineFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.guarantees import ApproxDP, PureDP
from deniable.guarantees.printing import rounded_up, small
from deniable.mechanisms import size as plan_size
from deniable.textbook.compare import Comparison
from deniable.textbook.loss import losses

_POINTS = 160
"""Points along an axis."""

_BLUR = 1 / 6
"""The standard deviation of the window over which a loss is drawn, in standard deviations of the loss."""


def loss_figure(event: Event, *, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """The law of an event's privacy loss, and the normal law with the same mean and variance.

    The loss of few steps may have atoms, and that of many steps has thousands. So the density is drawn over a window of
    a sixth of a standard deviation: separate atoms stay visible, and many of them become one smooth line.

    Args:
        event: what touched the data. Where removing a unit and adding one differ, the loss of removing is drawn.
        labels: the words of the picture.
    """
    loss = losses(event)[0]
    deviation = math.sqrt(loss.variance)
    if not 0 < deviation < math.inf:
        raise InvalidArgument(
            "event", event, "one whose loss varies and is never infinite", "Leave a failing part out."
        )
    xs = tuple(loss.mean + deviation * 4.5 * (2 * i / _POINTS - 1) for i in range(_POINTS + 1))
    density = tuple(loss.density_within(xs, window=_BLUR * deviation))
    bell = NormalDist(loss.mean, deviation)
    return LineFigure(
        labels.loss,
        labels.loss_axis,
        labels.density,
        (
            FigureLine(labels.loss_line, xs, density),
            FigureLine(labels.loss_normal, xs, tuple(map(bell.pdf, xs)), dashed=True),
        ),
        alt=labels.loss_alt.format(mean=f"{loss.mean:.3g}", deviation=f"{deviation:.3g}"),
        x_range=(xs[0], xs[-1]),
    )


def threshold_figure(*, mu: Number, threshold: Number | None = None, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """Two normal laws μ apart, a threshold between them, and the two errors of the test that decides by it.

    Args:
        mu: how far apart the laws are, in standard deviations: the μ of μ-GDP.
        threshold: above it the test says "took part"; half of μ, if it is left out.
        labels: the words of the picture.
    """
    apart = float(_checks.between("mu", mu, low=0, high=20, expected="between 0 and 20"))
    at = apart / 2 if threshold is None else float(_checks.number("threshold", threshold))
    low, high = -3.5, apart + 3.5
    if not low < at < high:
        raise InvalidArgument("threshold", threshold, f"between {low:g} and {high:g}, where the laws are drawn")
    without, with_you = NormalDist(0, 1), NormalDist(apart, 1)

    def curve(law: NormalDist, start: float, end: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        xs = tuple(start + (end - start) * i / _POINTS for i in range(_POINTS + 1))
        return xs, tuple(map(law.pdf, xs))

    positives, negatives = (f"{100 * rate:.2g} %" for rate in (1 - without.cdf(at), with_you.cdf(at)))
    return LineFigure(
        labels.threshold,
        labels.threshold_axis,
        labels.density,
        (
            FigureLine(labels.threshold_without, *curve(without, low, high)),
            FigureLine(labels.threshold_with, *curve(with_you, low, high)),
            FigureLine(labels.threshold_line.format(at=f"{at:.3g}"), (at, at), (0.0, 0.42), dashed=True),
            FigureLine(f"{labels.false_positives}: {positives}", *curve(without, at, high), filled=True),
            FigureLine(f"{labels.false_negatives}: {negatives}", *curve(with_you, low, at), filled=True),
        ),
        alt=labels.threshold_alt.format(mu=f"{apart:g}", at=f"{at:.3g}", positives=positives, negatives=negatives),
        x_range=(low, high),
        y_range=(0, 0.42),
    )


def promise_figure(target: ApproxDP, *, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """Trade-off curves of mechanisms that all keep one promise: what each of them allows a test to achieve.

    Args:
        target: the promise, with δ above 0.
        labels: the words of the picture.
    """
    _checks.member("target", target, ApproxDP, remedy="For example dn.ApproxDP(1, 1e-5).")
    makers: dict[str, Callable[[Number], Event]] = {
        labels.promise_laplace: lambda scale: Laplace(scale, relation=target.relation),
        labels.promise_gaussian: lambda scale: Gaussian(scale, relation=target.relation),
        labels.promise_sampled: lambda scale: dpsgd(
            noise_multiplier=scale, rate=0.01, steps=1000, relation=target.relation
        ),
    }
    claims = {name: calibrate(make, target).profile for name, make in makers.items()}
    own = account(Claimed(PureDP(target.epsilon, relation=target.relation)))  # the curve of randomized response
    return tradeoff_figure({labels.promise_response: own, **claims}, labels=labels)


def forms_figure(comparison: Comparison, *, labels: Labels = ENGLISH_LABELS) -> IntervalFigure:
    """ε of the largest number of steps in a comparison under each theorem, side by side, smallest last.

    Args:
        comparison: from `textbook.compare_theorems`.
        labels: the words of the picture.
    """
    ends = sorted(
        ((line.epsilons[-1], line) for line in comparison.lines if 0 < line.epsilons[-1] < math.inf),
        key=lambda end: -end[0],
    )
    rows = tuple(
        Interval(
            labels.comparison_estimate.format(theorem=line.theorem) if line.estimate else line.theorem,
            epsilon, 0.0, epsilon,
        )
        for epsilon, line in ends
    )  # fmt: skip
    count = f"{comparison.counts[-1]:,}"
    sentences = [
        labels.comparison_alt_line.format(theorem=row.name, epsilon=rounded_up(row.value), count=count) for row in rows
    ]
    return IntervalFigure(
        labels.forms.format(count=count, step=comparison.step),
        labels.comparison_cost.format(delta=small(comparison.delta)),
        rows,
        alt=" ".join([labels.forms_alt, *sentences]),
    )


def accuracy_figure(
    mechanism: Callable[..., Any],
    *,
    sizes: Sequence[int] = (100, 1000, 10_000),
    epsilons: Sequence[Number] = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
    labels: Labels = ENGLISH_LABELS,
    settings: Mapping[str, Any],
) -> LineFigure:
    """The error that the planner promises against ε, one line per number of people.

    Args:
        mechanism: what `dn.size` takes: a mechanism's function, or a linear model's class.
        sizes: the numbers of people.
        epsilons: where the curves are computed.
        labels: the words of the picture.
        settings: the other arguments of the mechanism, such as `bounds`.
    """
    across = tuple(sorted(float(_checks.positive("epsilons", epsilon)) for epsilon in epsilons))
    if len(across) < 2 or not sizes:
        raise InvalidArgument("epsilons", epsilons, "two values or more, and one size or more")
    errors = {
        many: tuple(float(plan_size(mechanism, size=many, epsilon=epsilon, **settings).error) for epsilon in across)
        for many in sizes
    }
    lines = tuple(
        FigureLine(labels.accuracy_line.format(many=f"{many:,}"), across, drawn) for many, drawn in errors.items()
    )
    sentences = [
        labels.accuracy_alt_line.format(many=f"{many:,}", error=f"{drawn[-1]:.3g}", epsilon=f"{across[-1]:g}")
        for many, drawn in errors.items()
    ]
    return LineFigure(
        labels.accuracy,
        "ε",
        labels.accuracy_axis,
        lines,
        alt=" ".join([labels.accuracy_alt, *sentences]),
        log_x=True,
        log_y=True,
    )
