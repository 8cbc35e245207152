"""Private training of PyTorch models: a frozen plan that owns its event, and a trainer that executes just that.

>>> from deniable import deep
>>> from deniable.guarantees import ApproxDP
>>> plan = deep.Plan(size=60_000, batch=256, epochs=15, clip=1.0, target=ApproxDP(3, 1e-5))
>>> print(plan)
private training
ε ≤ 3.00, δ = 1e-5, one record added or removed
steps: 3516, expected batch 256 of 60000, Poisson()
clip: 1 (L2), per record
noise: GaussianNoise(), 0.728225 × clip, sums divided by 256
event: Gaussian(scale=0.728225335).sampled(rate=8/1875) * 3516
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deniable.deep.cards import model_card as model_card
    from deniable.deep.clipping import clipped_gradients as clipped_gradients
    from deniable.deep.clips import AdaptiveClipping as AdaptiveClipping
    from deniable.deep.clips import AutomaticClipping as AutomaticClipping
    from deniable.deep.clips import FlatClipping as FlatClipping
    from deniable.deep.clips import PerGroupClipping as PerGroupClipping
    from deniable.deep.clips import PerLayerClipping as PerLayerClipping
    from deniable.deep.correlated import CorrelatedNoise as CorrelatedNoise
    from deniable.deep.cyclic import CyclicPoisson as CyclicPoisson
    from deniable.deep.huggingface import HuggingFaceTrainer as HuggingFaceTrainer
    from deniable.deep.measures import LossSeries as LossSeries
    from deniable.deep.measures import SeriesPoint as SeriesPoint
    from deniable.deep.monitoring import EarlyStopping as EarlyStopping
    from deniable.deep.monitoring import Logger as Logger
    from deniable.deep.monitoring import TensorBoardLogger as TensorBoardLogger
    from deniable.deep.noises import GaussianNoise as GaussianNoise
    from deniable.deep.noises import GridNoise as GridNoise
    from deniable.deep.noises import LaplaceNoise as LaplaceNoise
    from deniable.deep.noises import NoiseShares as NoiseShares
    from deniable.deep.padding import Padding as Padding
    from deniable.deep.plan import Plan as Plan
    from deniable.deep.progress import Observation as Observation
    from deniable.deep.randomness import PhiloxGenerator as PhiloxGenerator
    from deniable.deep.randomness import SecureGenerator as SecureGenerator
    from deniable.deep.randomness import SeededGenerator as SeededGenerator
    from deniable.deep.sampling import BallsAndBins as BallsAndBins
    from deniable.deep.sampling import FixedBatches as FixedBatches
    from deniable.deep.sampling import Poisson as Poisson
    from deniable.deep.sampling import WithoutReplacement as WithoutReplacement
    from deniable.deep.searching import search as search
    from deniable.deep.step_factors import Stage as Stage
    from deniable.deep.step_factors import stages as stages
    from deniable.deep.trainer import Trainer as Trainer

_HOMES = {
    "cards": ("model_card",),
    "clipping": ("clipped_gradients",),
    "clips": ("AdaptiveClipping", "AutomaticClipping", "FlatClipping", "PerGroupClipping", "PerLayerClipping"),
    "correlated": ("CorrelatedNoise",),
    "cyclic": ("CyclicPoisson",),
    "huggingface": ("HuggingFaceTrainer",),
    "measures": ("LossSeries", "SeriesPoint"),
    "monitoring": ("EarlyStopping", "Logger", "TensorBoardLogger"),
    "noises": ("GaussianNoise", "GridNoise", "LaplaceNoise", "NoiseShares"),
    "padding": ("Padding",),
    "plan": ("Plan",),
    "progress": ("Observation",),
    "randomness": ("PhiloxGenerator", "SecureGenerator", "SeededGenerator"),
    "sampling": ("BallsAndBins", "FixedBatches", "Poisson", "WithoutReplacement"),
    "searching": ("search",),
    "step_factors": ("Stage", "stages"),
    "trainer": ("Trainer",),
}
_PLACES = {name: home for home, names in _HOMES.items() for name in names}

_EXTRAS = {"torch": "deep", "transformers": "hf"}

__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    """A plan needs no torch, a trainer does: each loads when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module 'deniable.deep' has no attribute {name!r}")
    try:
        return getattr(import_module(f"deniable.deep.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        from deniable.errors import MissingExtra

        raise MissingExtra(package, _EXTRAS[package]) from error


def __dir__() -> list[str]:
    return sorted(__all__)
