"""Methods of private convex optimisation, one per file; each checks its theorem's preconditions and owns its event."""

from deniable.learning.optimizers.additive import AdditiveDescent
from deniable.learning.optimizers.base import Data, Method, MethodPlan, Task
from deniable.learning.optimizers.descent import SGD, GradientDescent
from deniable.learning.optimizers.exponential import RegularisedExponential
from deniable.learning.optimizers.frank_wolfe import FrankWolfe
from deniable.learning.optimizers.ftrl import FTRL
from deniable.learning.optimizers.iteration import LastIterate
from deniable.learning.optimizers.objective import ObjectivePerturbation
from deniable.learning.optimizers.output import OutputPerturbation
from deniable.learning.optimizers.phases import Localisation, PhasedSGD
from deniable.learning.optimizers.statistics import NoisySum, SufficientStatistics
from deniable.learning.optimizers.textbook import TextbookGradientDescent
from deniable.learning.optimizers.whitening import Whitened

__all__ = [
    "FTRL",
    "SGD",
    "AdditiveDescent",
    "Data",
    "FrankWolfe",
    "GradientDescent",
    "LastIterate",
    "Localisation",
    "Method",
    "MethodPlan",
    "NoisySum",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PhasedSGD",
    "RegularisedExponential",
    "SufficientStatistics",
    "Task",
    "TextbookGradientDescent",
    "Whitened",
]
