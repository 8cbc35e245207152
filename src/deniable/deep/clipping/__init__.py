"""Per-example clipping in one backward pass."""

from deniable.deep.clipping.checks import SelfCheck as SelfCheck
from deniable.deep.clipping.engine import ClippingEngine as ClippingEngine
from deniable.deep.clipping.engine import clipped_gradients as clipped_gradients
from deniable.deep.clipping.steps import Clipped as Clipped

__all__ = ["Clipped", "ClippingEngine", "SelfCheck", "clipped_gradients"]
