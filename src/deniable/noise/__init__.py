"""Exact random numbers from a secure source of bits: the only room that touches entropy.

Every sampler takes its parameters as exact numbers (a float is its shortest decimal), returns integers with exactly the
stated law, and decides no draw by floating-point arithmetic. `size=None` gives one number, else an array. `source=None`
means the operating system's randomness; tests pass an `InsecureSource`.

>>> from deniable import noise
>>> noise.discrete_laplace(2.5, (2, 3), source=noise.InsecureSource(0)).shape
(2, 3)
"""

from deniable.noise.bernoulli import bernoulli, bernoulli_exp
from deniable.noise.choices import (
    EXPONENTIAL,
    GUMBEL,
    LAPLACE,
    Categorical,
    ContinuousNoise,
    categorical,
    race,
    ranking,
)
from deniable.noise.discrete import discrete_gaussian, discrete_laplace
from deniable.noise.grid import Grid, add
from deniable.noise.shapes import blocks
from deniable.noise.source import InsecureSource, RecordingSource, ReplaySource, SecureSource, Source, secure
from deniable.noise.uniform import permutation, uniform

__all__ = [
    "EXPONENTIAL",
    "GUMBEL",
    "LAPLACE",
    "Categorical",
    "ContinuousNoise",
    "Grid",
    "InsecureSource",
    "RecordingSource",
    "ReplaySource",
    "SecureSource",
    "Source",
    "add",
    "bernoulli",
    "bernoulli_exp",
    "blocks",
    "categorical",
    "discrete_gaussian",
    "discrete_laplace",
    "permutation",
    "race",
    "ranking",
    "secure",
    "uniform",
]
