"""`Strategy`: a matrix C, how far one unit can move C·x, the error that remains, and a stream of its noise.

A run releases x_t + n_t for t = 1 … T, x_t the clipped sum of step t and n = N·z for normal z, where N·C = I (N = C⁻¹
when C is square). So everything released is N·(C·x + z), post-processing of one Gaussian step whose sensitivity is the
largest |C·u| that one unit can cause. It may be adaptive, x_t depending on what was released before: what step t
releases uses only rows of C·x + z that are final by then, and the noise is Gaussian (Denisov et al. 2022, Theorem 2.1).

>>> from deniable.strategies import Toeplitz, once
>>> strategy = Toeplitz.square_root(100)
>>> strategy.event(scale=4, participation=once(100))
MatrixGaussian(scale=4, sensitivity=1.59102235, steps=100)
>>> f"{strategy.rmse(once(100)):.2f}, with independent noise {(101 / 2) ** 0.5:.2f}"
'2.37, with independent noise 7.11'
"""

from __future__ import annotations

import base64
import json
import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from deniable._checks import Number
from deniable._forms import Plain
from deniable._signatures import public
from deniable.errors import InvalidArgument
from deniable.events import MatrixGaussian
from deniable.strategies import sensitivity as bounds
from deniable.strategies.sensitivity import Participation, Sensitivity, once
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream
from deniable.strategies.workloads import EACH, PREFIX, Workload
from deniable.units import AnyRelation, Relation

FORMAT = 1
"""The version of the JSON form."""


class Strategy(Plain):
    """Correlated noise for a run of `steps` steps. Immutable. Strategies with equal numbers are equal."""

    steps: int
    registry: ClassVar[dict[str, type[Strategy]]] = {}

    def __init_subclass__(cls) -> None:
        Strategy.registry[cls.__name__] = cls

    # what it is

    @property
    @abstractmethod
    def bands(self) -> int:
        """How many diagonals of C are not 0, from the main one down. One step affects so many rows of C·x."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many vectors of noise, each as large as the model, a stream keeps between steps."""

    @property
    @abstractmethod
    def positive(self) -> bool:
        """Whether no entry of C is negative. If so, setting entries of C to 0 never raises a sensitivity."""

    @abstractmethod
    def columns(self, indices: Any) -> Array:
        """The columns of C with these indices."""

    @abstractmethod
    def stream(self) -> Stream:
        """A fresh stream of N·z."""

    @abstractmethod
    def variances(self, workload: Workload = PREFIX) -> Array:
        """The variance of every row of A·N·z for standard normal z."""

    def matrix(self) -> Array:
        """The whole matrix C."""
        return self.columns(np.arange(self.steps))

    # what it costs

    @property
    def rows(self) -> int:
        """Rows of C."""
        return self.steps

    def lengths(self) -> Array:
        """The norms of the columns of C."""
        norms = np.empty(self.steps)
        for start in range(0, self.steps, 1024):
            norms[start : start + 1024] = np.linalg.norm(
                self.columns(np.arange(start, min(start + 1024, self.steps))), axis=0
            )
        return norms

    def gram(self, left: Any, right: Any) -> Array:
        """⟨C e_i, C e_j⟩ for i in `left`, j in `right`."""
        return np.asarray(self.columns(left).T @ self.columns(right))

    def sensitivity(self, participation: Participation) -> Sensitivity:
        """The largest |C·u|, in clips, over the patterns of a participation. It is computed once and cached.

        Args:
            participation: in which of the steps one unit may take part: `once`, `separated` or `ordered`.
        """
        if participation.steps != self.steps:
            raise InvalidArgument("participation", participation, f"about the {self.steps} steps of this strategy")
        cache: dict[Participation, Sensitivity] = self.__dict__.setdefault("_known", {})
        if participation not in cache:
            cache[participation] = self._bound(participation)
        return cache[participation]

    def _bound(self, participation: Participation) -> Sensitivity:
        """The bound of the most special theorem that applies; the module `sensitivity` lists them."""
        if participation.times == 1:
            return bounds.one_step(self.lengths(), self.rows)
        if self.bands <= participation.separation:
            return bounds.orthogonal(self.lengths(), participation, self.rows)
        if participation.ordered:
            return bounds.in_order(self.gram, self.lengths(), participation, self.rows)
        return bounds.in_general(self.gram, self.lengths(), participation, self.rows)

    def survives_loss(self, separation: int) -> bool:
        """Whether a stream may continue with an empty memory (`Stream.skip`) under the same event."""
        return self.positive or self.bands <= separation

    @public
    def event(
        self, scale: Number, participation: Participation, *, relation: AnyRelation = Relation.ZERO_OUT
    ) -> MatrixGaussian:
        """The event of a whole run.

        Args:
            scale: the standard deviation of z, divided by the clip.
            participation: in which of the steps one unit may take part.
            relation: what may change between neighbours.
        """
        relation = Relation.of(relation)
        return MatrixGaussian(
            scale, self.sensitivity(participation).value, self.steps, participation.times, participation.separation,
            relation,
        )  # fmt: skip

    # how good it is

    def rmse(self, participation: Participation, workload: Workload = PREFIX) -> float:
        """The root mean squared error of A·x, at unit noise per unit of sensitivity. The optimisers minimise it.

        Args:
            participation: in which of the steps one unit may take part.
            workload: what the noisy sums are used for; prefix sums if left out.
        """
        mean = float(np.mean(self.variances(workload)))
        return float(self.sensitivity(participation).value) * math.sqrt(mean)

    def worst(self, participation: Participation, workload: Workload = PREFIX) -> float:
        """The root mean squared error of the worst row of A; see `rmse`."""
        return float(self.sensitivity(participation).value) * math.sqrt(float(np.max(self.variances(workload))))

    def growth(self) -> float:
        """The largest noise of a single step, per unit of one step's sensitivity.

        It is 1 for independent noise and large where C⁻¹ grows; NaN or infinite where C⁻¹ grows beyond the doubles.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self.worst(once(self.steps), EACH)

    # JSON

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """The kind and the numbers, as a JSON value."""

    @classmethod
    @abstractmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Strategy:
        """The strategy with the numbers that `plain()` returned."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data. Arrays of doubles are texts that keep every bit."""
        return {"deniable_strategy": FORMAT, **self.plain()}

    @staticmethod
    def from_json(text: str) -> Strategy:
        """The strategy that `to_json` wrote."""
        try:
            plain = json.loads(text)
            if plain.pop("deniable_strategy") != FORMAT:
                raise InvalidArgument("text", "…", f"a strategy's JSON of version {FORMAT}")
            return Strategy.from_plain(plain)
        except (TypeError, KeyError, AttributeError, ValueError, json.JSONDecodeError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("text", "…", "a strategy's JSON, as strategy.to_json() writes it") from None

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Strategy:
        """The strategy that `plain` described."""
        kind = plain.get("kind")
        if kind not in Strategy.registry:
            raise InvalidArgument("kind", kind, f"a known strategy: {', '.join(sorted(Strategy.registry))}")
        return Strategy.registry[kind]._from_plain(plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(self.to_json())


def pack(values: Array) -> str:
    """Doubles as text that keeps every bit."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def unpack(text: str) -> Array:
    """The doubles that `pack` wrote."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64)


def finite(name: str, values: Any) -> Array:
    """A read-only copy of finite numbers."""
    numbers = np.array(values, dtype=np.float64)
    if not numbers.size or not np.all(np.isfinite(numbers)):
        raise InvalidArgument(name, "…", "finite numbers")
    numbers.flags.writeable = False
    return numbers
