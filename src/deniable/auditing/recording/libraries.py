"""The samplers of NumPy, `random`, torch and `deniable.noise`: which functions draw, and where their scale stands."""

from __future__ import annotations

import random

import numpy as np

from deniable import noise
from deniable.auditing.recording.tape import Sampler

_LOC, _SCALE = ("loc", 0), ("scale", 1)

_NUMPY_ADDITIVE = (
    Sampler("laplace", "laplace", _LOC, _SCALE),
    Sampler("normal", "gaussian", _LOC, _SCALE),
    Sampler("standard_normal", "gaussian"),
)
_NUMPY_BOTH = (
    "beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "gamma", "geometric", "gumbel",
    "hypergeometric", "logistic", "lognormal", "multinomial", "multivariate_normal", "negative_binomial", "pareto",
    "permutation", "poisson", "random", "rayleigh", "shuffle", "standard_cauchy", "standard_exponential",
    "standard_gamma", "standard_t", "triangular", "uniform", "vonmises", "weibull", "zipf",
)  # fmt: skip

GENERATOR = (*_NUMPY_ADDITIVE, *map(Sampler, (*_NUMPY_BOTH, "integers", "permuted")))
"""Methods of `numpy.random.Generator`."""

LEGACY = (
    *_NUMPY_ADDITIVE,
    Sampler("randn", "gaussian"),
    *map(Sampler, (*_NUMPY_BOTH, "rand", "randint", "random_sample")),
)
"""Methods of `numpy.random.RandomState`, and functions of `numpy.random`."""

_STANDARD = (
    "betavariate", "binomialvariate", "choice", "choices", "expovariate", "gammavariate", "getrandbits",
    "lognormvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample", "shuffle",
    "triangular", "uniform", "vonmisesvariate", "weibullvariate",
)  # fmt: skip

STANDARD = (
    Sampler("gauss", "gaussian", ("mu", 0), ("sigma", 1)),
    Sampler("normalvariate", "gaussian", ("mu", 0), ("sigma", 1)),
    *(Sampler(name) for name in _STANDARD if hasattr(random, name)),
)
"""Functions of `random`, and methods of `random.Random`."""

TORCH = (
    Sampler("randn", "gaussian"),
    Sampler("randn_like", "gaussian"),
    Sampler("normal", "gaussian", ("mean", 0), ("std", 1)),
    *map(Sampler, ("bernoulli", "multinomial", "poisson", "rand", "rand_like", "randint", "randint_like", "randperm")),
)
"""Functions of torch."""

TENSOR = (
    Sampler("normal_", "gaussian", ("mean", 1), ("std", 2)),
    *map(Sampler, ("bernoulli_", "cauchy_", "exponential_", "geometric_", "random_", "uniform_")),
)
"""Methods of torch's tensors, which come with themselves as the first argument."""

NOISE = (
    Sampler("discrete_laplace", "discrete laplace", None, ("scale", 0)),
    Sampler("discrete_gaussian", "discrete gaussian", None, ("scale", 0), "variance"),
    *map(Sampler, ("bernoulli", "bernoulli_exp", "categorical", "permutation", "race", "ranking", "uniform")),
)
"""Functions of `deniable.noise`."""


class Recorded:
    """Marks generators that record, so that none is wrapped twice."""


LEGACY_NAMES = tuple(sampler for sampler in LEGACY if hasattr(np.random, sampler.name))
NOISE_NAMES = tuple(sampler for sampler in NOISE if hasattr(noise, sampler.name))
