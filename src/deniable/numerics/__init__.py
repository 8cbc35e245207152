"""Numbers that err toward caution: the arithmetic under every promise.

Each function states its contract in its first line. There are four:

| contract | meaning | where |
|---|---|---|
| float, rounded up or down | not below (not above) the true value, by a margin that is stated | `rounding`, `normal` |
| exact fraction, rounded up or down | the same, in exact arithmetic, of any size | `exact`, `normal` |
| bracket | two floats, and a proof that the true value lies between them | `rounding.Bracket`, `normal` |
| array with a relative error | no side, but a bound on the error that the caller adds | `arrays`, `discrete` |

`exact` also shortens numbers to a few digits, `discrete` has the laws of integers, and `roots` finds where a condition
starts to hold. Nothing here knows an event, a guarantee or data. Balls (`flint`) stay where proofs are made.

>>> from fractions import Fraction
>>> from deniable.numerics import exact, normal
>>> exact.short_above(Fraction(1, 3), figures=4)
Fraction(1667, 5000)
>>> normal.delta_bracket(1.0, 0.0).lower <= 0.38292492254802624 <= normal.delta_bracket(1.0, 0.0).upper
True
"""
