"""Where a condition starts to hold, and where a function is least or largest: every search over one number.

A condition is a function from a number to a bool that fails up to a border and holds from there on. Each search returns
numbers at which the condition was *evaluated*, or that the caller vouched for. So an answer on the safe side needs no
monotone condition: a poor search could only cost tightness. To search for the border of a condition that holds first
and fails later, negate it and take the other end.

| search | returns |
|---|---|
| `enlarge` | the first of start, 2·start, 4·start, … at which a condition holds |
| `crossing`, `border` | both sides of the border, as neighbouring floats |
| `bisect` | both sides of the border, after a number of halvings; floats or fractions |
| `first_whole` | the first whole number at which a condition holds |
| `walk` | the first of start + step, start + 2·step, … at which a proof succeeds |
| `lowest`, `highest` | the best place and value that were seen |

The solver for events is `calibration`: it asks an accountant, which is slow, and so it uses secants.

>>> crossing(lambda x: x * x >= 2, 0.0, 2.0)
(1.414213562373095, 1.4142135623730951)
>>> first_whole(lambda n: n * n >= 50, 0, 50)
8
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

N = TypeVar("N", float, Fraction)


def enlarge(holds: Callable[[N], bool], start: N, *, most: float, factor: int = 2) -> N | None:
    """The first of start, factor·start, factor²·start, … at which a condition holds; None beyond `most`."""
    at = start
    while not holds(at):
        if at >= most:
            return None
        at = at * factor
    return at


def crossing(holds: Callable[[float], bool], low: float, high: float, *, relative: float = 0.0) -> tuple[float, float]:
    """The last float at which a condition fails and the first at which it holds, or a pair within `relative`.

    `low ≥ 0` must fail and `high` must hold; neither is evaluated. The size of the border is found first, then its
    digits, so a border of 10^−300 takes no longer than one of 1.
    """
    shrink = 16.0
    while high - low > max(relative * high, 2 * math.ulp(high)):
        if low == 0:
            middle = max(high / shrink, 5e-324)
            shrink *= shrink
        else:
            middle = low + (high - low) / 2 if high <= 4 * low else math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def border(holds: Callable[[float], bool], high: float, *, relative: float = 0.0) -> tuple[float, float]:
    """The `crossing` between 0 and `high`, where the condition must hold; (0, 0) if it holds at 0 already."""
    return (0.0, 0.0) if holds(0.0) else crossing(holds, 0.0, high, relative=relative)


def bisect(holds: Callable[[N], bool], fails: N, holding: N, *, turns: int = 60) -> tuple[N, N]:
    """Both sides of the border of a condition after `turns` halvings: the first fails, the second holds.

    `fails` may lie above `holding`. The condition must fail at the one and hold at the other; neither is evaluated.
    """
    for _ in range(turns):
        middle = (fails + holding) / 2
        if middle in (fails, holding):
            break
        fails, holding = (fails, middle) if holds(middle) else (middle, holding)
    return fails, holding


def first_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first whole number above `low` at which a condition holds; `high`, where it must, if there is no other."""
    return bisect_left(range(low + 1, high), True, key=holds) + low + 1


def walk(proves: Callable[[float], bool], start: float, step: float) -> float | None:
    """The first of start + step, start + 2·step, start + 4·step, … at which a proof succeeds, or 0; None after 60."""
    for _ in range(60):
        at = start + step
        if at <= 0.0:
            return 0.0
        if proves(at):
            return at
        step *= 2
    return None


def lowest(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """A place on [low, high], and the smallest value seen there: a log-spaced look, then golden sections.

    For bounds that hold at every place, so that the search can cost tightness only.
    """
    count = 33
    points = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    values = [function(point) for point in points]
    best = min(range(count), key=values.__getitem__)
    left, right = points[max(best - 1, 0)], points[min(best + 1, count - 1)]
    least = (values[best], points[best])
    ratio = (math.sqrt(5) - 1) / 2
    one, two = right - ratio * (right - left), left + ratio * (right - left)
    at_one, at_two = function(one), function(two)
    for _ in range(48):
        least = min(least, (at_one, one), (at_two, two))
        if at_one > at_two:
            left, one, at_one = one, two, at_two
            two = left + ratio * (right - left)
            at_two = function(two)
        else:
            right, two, at_two = two, one, at_one
            one = right - ratio * (right - left)
            at_one = function(one)
    return least[1], least[0]


def highest(
    function: Callable[[float], float], last: float, *, most: Callable[[float], float], least: float = 0.0
) -> float:
    """The largest value seen of a function with one peak on [0, last].

    `most` bounds it from above and falls, so the look stops where nothing can exceed what is known, `least` included.
    Doubling steps find the peak's neighbourhood; parabolas, with golden sections where they fail, find the peak
    (Brent).
    """
    points, values = [0.0], [function(0.0)]
    step = min(last, 2.0**-7)
    while points[-1] < last and most(points[-1]) > max(*values, least):
        points.append(min(last, step))
        values.append(function(points[-1]))
        step *= 2
        if values[-1] < values[-2] < max(values):
            break
    best = max(range(len(points)), key=values.__getitem__)
    low, high = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    # 1 − δ − α grows with ε: between two places the shallow line is at most e^gap times its value at the second.
    if least and values[best] * math.exp(high - low) <= least:
        return values[best]
    return max(values[best], _peak(function, low, high))


def _peak(function: Callable[[float], float], low: float, high: float) -> float:
    """Brent's method on an interval, for a maximum."""
    golden = (3 - math.sqrt(5)) / 2
    x = w = v = low + golden * (high - low)
    fx = fw = fv = function(x)
    step = before = 0.0
    for _ in range(60):
        middle, close = (low + high) / 2, 2.0**-27 * max(1.0, abs(x))
        if abs(x - middle) + (high - low) / 2 <= 2 * close:
            break
        parabola = False
        if abs(before) > close:
            r, q = (x - w) * (fx - fv), (x - v) * (fx - fw)
            p, q = (x - v) * q - (x - w) * r, 2 * (q - r)
            p, q = (-p, q) if q > 0 else (p, -q)
            if q and abs(p) < abs(q * before / 2) and q * (low - x) < p < q * (high - x):
                before, step, parabola = step, p / q, True
        if not parabola:
            before = (high if x < middle else low) - x
            step = golden * before
        u = x + (step if abs(step) >= close else math.copysign(close, step))
        fu = function(u)
        if (
            parabola and abs(fu - fx) <= 2.0**-36
        ):  # the top of a smooth peak, or as near as an engine's bracket lets see
            return max(fu, fx)
        if fu >= fx:
            low, high = (x, high) if u >= x else (low, x)
            v, w, x, fv, fw, fx = w, x, u, fw, fx, fu
        else:
            low, high = (u, high) if u < x else (low, u)
            if fu >= fw or w == x:
                v, w, fv, fw = w, u, fw, fu
            elif fu >= fv or v in (x, w):
                v, fv = u, fu
    return fx
