"""Audits of training: canaries, the membership game over many runs, white-box observations, and a single run.

| you can | use |
|---|---|
| train many times | `membership_game`: with and without a canary, through `audit` |
| watch the noisy gradients | `gradient_canary`, `white_box_mu`; `white_box_scores` for `audit_scores` |
| watch a trainer | `StepWatcher`, an observer that scores every step by one canary |
| train once, with many canaries | `one_run_epsilon`; against a whole curve `one_run_mu`, `one_run_curve_p_value` |

One training run with many canaries, each in or out by its own fair coin (Steinke, Nasr and Jagielski 2023).

The attacker guesses "in" or "out" for r of m canaries, chosen after seeing the model, and v guesses are right. If the
training is (ε, δ)-DP for adding, removing or blanking out one canary, then with q = e^ε/(1 + e^ε)

    P[at least v right] ≤ P[Bin(r, q) ≥ v] + 2mδ · max over 1 ≤ i ≤ v of (1/i)·P[v > Bin(r, q) ≥ v − i]

(their main theorem, for δ > 0). It needs r fixed before the run. It holds for any training, however canaries disturb
each other, and pays for that: its bound stays below ln(r/ln(1/level)).

>>> round(one_run_p_value(correct=100, guesses=100, canaries=100, epsilon=1, delta=1e-3), 8)
0.00563309
>>> print(one_run_epsilon(correct=95, guesses=100, canaries=1000, delta=1e-5).statement)
ε ≥ 2.16 at δ = 1e-5 but for a chance of 0.05

One training run against a whole trade-off curve (Mahloujifar, Melis and Chaudhuri 2025).

m canaries, each in or out by its own fair coin; the attacker makes exactly k guesses, chosen after seeing the model,
and C of them are right. Let the training be f-DP in both orders for exchanging the state of one canary, and write
g(x) = 1 − f(x), the greatest power of a test of level x: concave and nondecreasing. Let q_i = P[C = i].

**Lemma.** Σ_{j≥i} (j/m) q_j ≤ g( Σ_{j≥i−1} ((k − j)/m) q_j ) for i = 1 … k.

*Proof.* Fix a canary s and the coins of the others. The outputs in which s is guessed to have the state b, and i − 1 or
more of the other guesses are right, are one set S. If b is the true state, S is "s is right and C ≥ i"; if the other
one is, it is "s is wrong and C ≥ i − 1". By f-DP the probability of the first is at most g of that of the second.
Average over b, the other coins and a canary s drawn at random: g is concave, so Jensen's inequality keeps the
direction. The mean of "s is right" is C/m, that of "s is wrong" (k − C)/m. ∎

Write r_i = Σ_{j≥i} (j/m) q_j and h_i = Σ_{j≥i} ((k − j)/m) q_j. The lemma says h_{i−1} ≥ g⁻¹(r_i), and by definition
r_{i−1} = r_i + (i − 1)/(k − i + 1)·(h_{i−1} − h_i), r_0 + h_0 = k/m. Suppose P[C ≥ c] ≥ τ. Start from r = τc/m and
h = τ(k − c)/m, as if all of it were at c, and for i = c, …, 1 replace h by max(h, g⁻¹(r)) and r accordingly.

**Theorem.** What comes out is at most the true r_0 + h_0 = k/m. So if r + h > k/m at the end, P[C ≥ c] < τ.

*Proof.* Capitals R, H are the recursion's, and κ = (i − 1)/(k − i + 1), which falls with i. Three things stay true down
to i = 0: r ≥ R; r − R ≥ κ(h − H); r + h ≥ R + H. They hold at i = c, because mass at or above c makes r at least c/k of
r + h, and c/(k − c) ≥ κ. In a step in which H becomes g⁻¹(R): the true h becomes at least g⁻¹(r) ≥ g⁻¹(R), and r − κh
is kept, so all three follow, the second also with the next, smaller κ since h ≥ H. In any other step R and H stay as
they are; r and r + h do not fall; and the second holds because r − R is both at least κ(h − H) and at least 0. ∎

The smallest such τ is a p-value: the test of level τ refuses for C ≥ c only. k must be fixed before the run.

>>> from deniable.guarantees import GDP
>>> one_run_curve_p_value(correct=56, guesses=60, canaries=200, claim=GDP(0.7)) < 0.05
True
>>> print(one_run_mu(correct=56, guesses=60, canaries=200).statement)
μ ≥ 0.76 but for a chance of 0.05
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.accountant import account
from deniable.auditing.auditor import audit, audit_scores
from deniable.auditing.claims import Claim, Claimable
from deniable.auditing.report import AuditReport
from deniable.auditing.statistics import Bound, noncentral_lower, shift_lower
from deniable.errors import InvalidArgument
from deniable.events import Gaussian
from deniable.guarantees import GDP, Profile
from deniable.guarantees.printing import small
from deniable.numerics.roots import bisect
from deniable.units import Relation

__all__ = [
    "Chosen",
    "StepAudit",
    "StepWatcher",
    "checkerboard",
    "choose_canary",
    "gradient_canary",
    "membership_game",
    "one_run_curve_p_value",
    "one_run_epsilon",
    "one_run_mu",
    "one_run_p_value",
    "white_box_mu",
    "white_box_scores",
    "wrong_label",
]


Floats = NDArray[np.float64]


def checkerboard(shape: tuple[int, int], *, cell: int = 1, low: float = 0.0, high: float = 1.0) -> Floats:
    """A picture of alternating cells."""
    size = _checks.count("cell", cell)
    rows, columns = np.indices(shape) // size
    return np.where((rows + columns) % 2, float(high), float(low))


def wrong_label(label: int, *, classes: int) -> int:
    """The next class: a label that the picture does not have."""
    return (label + 1) % _checks.count("classes", classes, least=2)


def gradient_canary(dimension: int, *, clip: Number, away_from: Any = None) -> Floats:
    """A gradient of norm exactly `clip`, orthogonal to the rows of `away_from` where there is room for that.

    Put into a step by hand, it is the worst record that clipping lets through: every bit of the promise is used.
    """
    size = _checks.count("dimension", dimension)
    found = np.zeros(size)
    found[0] = 1.0
    if away_from is not None:
        others = np.atleast_2d(np.asarray(away_from, dtype=np.float64))
        if others.shape[1] != size:
            raise InvalidArgument("away_from", others.shape, f"rows of {size} numbers")
        # The last right singular vector is the direction in which the rows reach least.
        found = np.linalg.svd(others, full_matrices=True)[2][-1]
    return np.asarray(float(_checks.positive("clip", clip)) * found / np.linalg.norm(found))


Insert = Callable[[Any, Any], Any]


def insert_canary(data: Any, canary: Any) -> Any:
    """The data and one more record: for lists, and for arrays of rows."""
    if isinstance(data, np.ndarray):
        return np.concatenate([data, np.asarray(canary, dtype=data.dtype)[None]])
    if isinstance(data, list):
        return [*data, canary]
    raise InvalidArgument("data", type(data).__name__, "a list or an array, or insert= given")


def membership_game(
    train: Callable[[Any], Any],
    *,
    data: Any,
    canary: Any,
    score: Callable[[Any, Any], Any],
    claim: Claimable,
    insert: Insert = insert_canary,
    **settings: Any,
) -> AuditReport:
    """Audit a training function by one canary.

    train(data) gives a model; score(model, canary) gives what the attacker looks at, for example the canary's loss.
    settings are those of `audit`: confidence, runs, seconds, n_jobs, seed, progress.

    The membership game: train with and without a canary, and guess which it was from a score.

    Any training function is a mechanism, and its score is an output, so the game is an `audit`. What is added here is
    the choice of the canary, on pilot runs of their own, and the promise that the audit's runs are fresh.

    >>> import numpy as np
    >>> from deniable.guarantees import GDP
    >>> def train(values):
    ...     return sum(values) + np.random.normal(scale=0.5)           # for μ = 1 the scale should be 1
    >>> canary = {"canary": 1.0, "score": lambda model, canary: model}
    >>> membership_game(train, data=[0.0] * 9, claim=GDP(1), seed=1, **canary).verdict
    'refuted'

    Records that a model remembers if it remembers anything: pictures like no other, wrong labels, whole gradients.

    A good canary is far from the data and hard to fit without having been seen. Which of several is best may be tried
    on pilot runs; the runs of the audit itself must be fresh (`choose_canary`).

    >>> checkerboard((4, 4), cell=2)
    array([[0., 0., 1., 1.],
           [0., 0., 1., 1.],
           [1., 1., 0., 0.],
           [1., 1., 0., 0.]])
    >>> wrong_label(9, classes=10)
    0
    """

    def mechanism(records: Any) -> Any:
        return score(train(records), canary)

    return audit(mechanism, neighbours=(data, insert(data, canary)), claim=claim, **settings)


class Chosen(NamedTuple):
    """The canary that stood out most in pilot runs, and by how much, in standard deviations."""

    canary: Any
    place: int
    separation: float


def choose_canary(
    train: Callable[[Any], Any],
    *,
    data: Any,
    candidates: Sequence[Any],
    score: Callable[[Any, Any], float],
    pilots: int = 20,
    insert: Insert = insert_canary,
) -> Chosen:
    """The candidate whose score moves most when it is in the data, over `pilots` runs in either world.

    These runs are spent on choosing. An audit with the chosen canary uses fresh ones, which is what `membership_game`
    does; its confidence then needs no correction for the number of candidates.
    """
    many = _checks.count("pilots", pilots, least=2)
    if not candidates:
        raise InvalidArgument("candidates", candidates, "one canary or more")
    # One set of models without any canary serves all candidates.
    plain = [train(data) for _ in range(many)]
    best: Chosen | None = None
    for place, canary in enumerate(candidates):
        with_canary = insert(data, canary)
        out = np.array([score(model, canary) for model in plain], dtype=np.float64)
        inside = np.array([score(train(with_canary), canary) for _ in range(many)], dtype=np.float64)
        spread = float(np.sqrt((out.var() + inside.var()) / 2))
        shift = abs(float(inside.mean() - out.mean()))
        moved = shift / spread if spread else math.inf * shift if shift else 0.0
        if best is None or moved > best.separation:
            best = Chosen(canary, place, moved)
    if best is None or math.isnan(best.separation):
        raise InvalidArgument("score", math.nan, "a number for every model")
    return best


def white_box_scores(observed: Any, *, canary: Any) -> NDArray[np.float64]:
    """One score per observed noisy sum, for `audit_scores` or `statistics.shift_lower`."""
    sums, direction = _read_observations(observed, canary)
    return np.asarray(sums @ direction / (direction @ direction))


def white_box_mu(observed: Any, *, canary: Any, confidence: Number = 0.95) -> Bound:
    """μ is at least this, from steps in which the canary took part and from which the others' share was taken away.

    √n·(mean score)/s has the noncentral t law with n(d − 1) degrees of freedom, if the noise is normal and the same in
    all d directions, and noncentrality √n·μ.

    White box: the attacker sees every noisy gradient, and knows all records and the canary's own gradient.

    What is left of a step when the others' share is taken away is noise, plus the canary's gradient where it took part.
    Its projection on that gradient is the score, in units of the clipping norm: N(0, σ²) without the canary, N(1, σ²)
    with it, so μ = 1/σ. The noise in all other directions measures σ; the claim's σ is not used, since it may be wrong.

    >>> import numpy as np
    >>> canary = np.array([2.0, 0.0])
    >>> white_box_scores([[3.0, 1.0], [1.0, 5.0]], canary=canary)
    array([1.5, 0.5])
    """
    sums, direction = _read_observations(observed, canary)
    steps, size = sums.shape
    if size < 2:
        raise InvalidArgument("observed", size, "noisy sums of two numbers or more, so that the noise can be measured")
    level = float(1 - _checks.inner_probability("confidence", confidence))
    scores = white_box_scores(sums, canary=direction)
    rest = sums - scores[:, None] * direction
    spread = math.sqrt(float((rest**2).sum()) / (steps * (size - 1)) / float(direction @ direction))
    if spread == 0:
        raise InvalidArgument("observed", "no noise", "noisy sums")
    root = math.sqrt(steps)
    return noncentral_lower(root * float(scores.mean()) / spread, root=root, freedom=steps * (size - 1), level=level)


def _read_observations(observed: Any, canary: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sums = np.atleast_2d(np.asarray(observed, dtype=np.float64))
    direction = np.asarray(canary, dtype=np.float64).ravel()
    if sums.shape[1] != direction.size or not np.isfinite(sums).all() or not direction.any():
        raise InvalidArgument("canary", direction.shape, f"a gradient of {sums.shape[1]} numbers that is not zero")
    return sums, direction


@dataclass(frozen=True)
class StepAudit:
    """What watching found about one step, given that the canary is in its batch."""

    report: AuditReport
    """The game on the scores, against the plan's step."""

    mu: Bound
    """A lower bound on the step's μ, from the same scores as normal samples."""

    claimed: float
    """The μ of the plan's step."""

    @property
    def refuted(self) -> bool:
        """Whether the trainer does not keep its plan."""
        return self.report.refuted or self.mu.value > self.claimed * (1 + 1e-9)

    def __str__(self) -> str:
        verdict = "refuted" if self.refuted else "consistent"
        return f"{verdict}: {self.mu.statement}, claimed μ = {self.claimed:.4f} for a step with the canary"


class StepWatcher:
    """An observer that scores every step by one canary: `Trainer(..., observers=[watcher])`.

    A trainer, watched step by step from outside: one canary, its own gradient, and what every step released.

    A `StepWatcher` is an observer of a training run. At each step it computes, by its own plain loop, the gradient of
    every unit in the batch at the parameters of that step, shortens each to the clipping norm, and takes the others'
    share away from what was released. What is left is noise, plus the canary's clipped gradient where the canary was in
    the batch. Its projection on that gradient, in clipping norms, is the score: N(0, σ²) and N(1, σ²) if the plan is
    kept, for a canary whose gradient is longer than the clipping norm. The trainer's own clipping, sums and noise are
    not used.

    `judge` attacks the step that the plan claims, twice at half the level: it bets on the scores, which needs no
    assumption on their law, and it bounds μ from two normal samples, which a trainer that keeps its plan gives. If the
    plan is kept, a score is independent of the past given whether the canary took part, whatever the model does in
    between. Both cover the step *given the batch*: that batches are drawn as the plan says is not tested.

    The model's forward pass must be the same for the same input (no dropout), a unit must be one row, noise Gaussian.
    Nothing here imports a framework: model, loss and rows need the methods of torch's modules and tensors.
    """

    def __init__(self, model: Any, loss: Any, *, plan: Any, rows: tuple[Any, Any], canary: int) -> None:
        """`rows` are (x, y) as the trainer gets them; `canary` is the place of a row with a long gradient."""
        if plan.relation is Relation.REPLACE or plan.rows_per_unit != 1 or type(plan.noise).__name__ != "GaussianNoise":
            raise InvalidArgument("plan", plan, "one of Gaussian noise, one row per unit, add/remove or zero-out")
        size = len(rows[1])
        self._canary = _checks.count("canary", canary, least=0)
        if self._canary >= size:
            raise InvalidArgument("canary", canary, f"the place of one of the {size} rows")
        self._model, self._twin = model, copy.deepcopy(model)
        self._loss, self._plan, self._rows = loss, plan, rows
        self.without: list[float] = []
        self.with_: list[float] = []

    def __call__(self, seen: Any) -> None:
        """Score one step; the twin still has the parameters that the step started from."""
        names = [name for name, each in self._twin.named_parameters() if each.requires_grad]
        released = np.concatenate([_to_numbers(seen.released[name]) for name in names])
        others = [unit for unit in seen.units if unit != self._canary]
        direction = self._clipped(self._canary)
        left = released * float(self._plan.batch) - sum((self._clipped(unit) for unit in others), np.zeros(1))
        score = float(left @ direction) / max(float(np.linalg.norm(direction) * float(self._plan.clip)), 1e-300)
        (self.with_ if self._canary in seen.units else self.without).append(score)
        self._twin.load_state_dict(self._model.state_dict())

    def _clipped(self, unit: int) -> Floats:
        """One unit's gradient at the twin's parameters, no longer than the clipping norm."""
        x, y = self._rows
        self._twin.zero_grad()
        self._loss(self._twin(x[unit : unit + 1]), y[unit : unit + 1]).sum().backward()
        parts = [_to_numbers(each.grad) for each in self._twin.parameters() if each.requires_grad]
        found = np.concatenate(parts)
        return found * min(1.0, float(self._plan.clip) / max(float(np.linalg.norm(found)), 1e-300))

    def judge(self, *, confidence: Number = 0.95, delta: Number = 1e-5, seed: int = 0) -> StepAudit:
        """Attack the plan's step with the scores seen so far."""
        half = (1 + _checks.inner_probability("confidence", confidence)) / 2
        step = Gaussian(self._plan.noise_multiplier, relation=self._plan.relation)
        report = audit_scores(self.without, self.with_, claim=step, confidence=half, delta=delta, seed=seed)
        return StepAudit(
            report, shift_lower(self.without, self.with_, confidence=half), float(1 / self._plan.noise_multiplier)
        )

    def run_epsilon(self, mu: float, *, delta: Number = 1e-5) -> float:
        """ε of the whole run if a step is μ-GDP and sampling and number of steps are as planned."""
        plan, found = self._plan, _checks.positive("mu", mu)
        return account(plan.noise.event(1 / found, plan.relation, plan.sampling, plan.schedule)).epsilon(delta)


def _to_numbers(tensor: Any) -> Floats:
    """A tensor's numbers in one row."""
    return np.asarray(tensor.detach().cpu().double().numpy()).ravel()


ONE_RUN = "a fair coin for every canary, and a number of guesses that was fixed before the run"

_STEP = 0.01
"""The walk over ε: rejections are counted from 0 upwards until the first that fails, so no correction is needed."""


def one_run_p_value(*, correct: int, guesses: int, canaries: int, epsilon: Number, delta: Number = 0) -> float:
    """How likely so many right guesses are, at most, if the training is (ε, δ)-DP."""
    from scipy import stats

    check_guesses(correct, guesses, canaries)
    leak = float(_checks.probability("delta", delta))
    chance = 1 / (1 + math.exp(-float(_checks.nonnegative("epsilon", epsilon))))
    tail = float(stats.binom.sf(correct - 1, guesses, chance))
    if leak == 0 or correct == 0:
        return min(1.0, tail)
    # P[v > Bin ≥ v − i] for every i at once: cumulative sums of the probabilities below v, from the top.
    below = stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance)
    worst = float((np.cumsum(below) / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2 * canaries * leak * worst)


def one_run_epsilon(
    *, correct: int, guesses: int, canaries: int, delta: Number = 0, confidence: Number = 0.95
) -> Bound:
    """ε is at least this at δ, with the stated confidence, from one run."""
    level = float(1 - _checks.inner_probability("confidence", confidence))
    found = 0.0
    while (
        one_run_p_value(
            correct=correct, guesses=guesses, canaries=canaries, epsilon=round(found + _STEP, 10), delta=delta
        )
        <= level
    ):
        found = round(found + _STEP, 10)
    return Bound(found, True, f"ε ≥ {found:.2f} at δ = {small(delta)} but for a chance of {level:.2g}", ONE_RUN)


def check_guesses(correct: int, guesses: int, canaries: int) -> None:
    """Refuse counts that cannot be."""
    most = _checks.count("canaries", canaries)
    said = _checks.count("guesses", guesses)
    right = _checks.count("correct", correct, least=0)
    if not right <= said <= most:
        raise InvalidArgument("guesses", said, f"between correct={right} and canaries={most}")


_ROUNDING = 1e-9
"""What the recursion and the curve may owe to rounding, as a part of k/m."""

_NORMAL = NormalDist()


def one_run_curve_p_value(*, correct: int, guesses: int, canaries: int, claim: Claimable) -> float:
    """How likely so many right guesses are, at most, if the training keeps the claim's whole curve."""
    check_guesses(correct, guesses, canaries)
    inverse = _inverse(claim)

    def refused(level: float) -> bool:
        return _refused(inverse, level, correct, guesses, canaries)

    if not refused(1.0):
        return 1.0
    # Logarithms: what is refused at a level is refused at a larger one.
    return math.exp(bisect(lambda log: refused(math.exp(log)), -700.0, 0.0, turns=50)[1])


def one_run_mu(*, correct: int, guesses: int, canaries: int, confidence: Number = 0.95) -> Bound:
    """The training is not μ-GDP for any μ below this, with the stated confidence, from one run."""
    check_guesses(correct, guesses, canaries)
    level = float(1 - _checks.inner_probability("confidence", confidence))
    # Curves of larger μ allow more, so what refuses one refuses every smaller one.
    low = bisect(lambda mu: not _refused(_gaussian(mu), level, correct, guesses, canaries), 0.0, 40.0, turns=40)[0]
    return Bound(low, True, f"μ ≥ {low:.2f} but for a chance of {level:.2g}", ONE_RUN)


def _refused(inverse: Callable[[float], float], level: float, correct: int, guesses: int, canaries: int) -> bool:
    right, wrong = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct, 0, -1):
        higher = max(wrong, inverse(min(1.0, right)))
        right += (i - 1) / (guesses - i + 1) * (higher - wrong)
        wrong = higher
    return right + wrong > guesses / canaries * (1 + _ROUNDING)


def _inverse(claim: Claimable) -> Callable[[float], float]:
    """g⁻¹ of a claim: the least level at which a power is possible; from below."""
    if isinstance(claim, GDP):
        return _gaussian(float(claim.mu) * (1 + 1e-12))
    read = Claim.of(claim)
    lines = tuple(line[:2] for line in read.lines) if len(read.lines) == 1 else _dense(read.profile)

    def inverse(power: float) -> float:
        # δ + e^ε x ≥ power, and the same line in the other order: 1 − x ≤ e^ε(1 − power) + δ.
        return max(0.0, *(max((power - d) / math.exp(e), 1 - d - math.exp(e) * (1 - power)) for e, d in lines))

    return inverse


def _gaussian(mu: float) -> Callable[[float], float]:
    def inverse(power: float) -> float:
        # erfc keeps its digits in the tail; `NormalDist.cdf` is off by 1e-16 there, and so would tiny p-values be.
        at = _NORMAL.inv_cdf(power) - mu if 0 < power < 1 else math.inf if power >= 1 else -math.inf
        return 0.5 * math.erfc(-at / math.sqrt(2))

    return inverse


def _dense(profile: Profile) -> tuple[tuple[float, float], ...]:
    """Lines of a curve, close together; each is implied by it, so fewer lose power and nothing else."""
    most = profile.delta(0)
    places = [profile.epsilon(most * 0.5**i) for i in range(1, 24)]
    return tuple((e, profile.delta(e)) for e in (0.0, *places) if math.isfinite(e) and e < 50)
