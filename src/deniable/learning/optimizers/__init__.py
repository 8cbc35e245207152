"""Methods of private convex optimisation, one per file; each checks its theorem's preconditions and owns its event."""

from deniable.learning.optimizers.base import Data, Method, Plan, Task
from deniable.learning.optimizers.exponential import RegularisedExponential
from deniable.learning.optimizers.frank_wolfe import FrankWolfe
from deniable.learning.optimizers.ftrl import FTRL
from deniable.learning.optimizers.gradient_descent import GradientDescent
from deniable.learning.optimizers.iteration import LastIterate
from deniable.learning.optimizers.objective import ObjectivePerturbation
from deniable.learning.optimizers.output import OutputPerturbation
from deniable.learning.optimizers.phases import Localisation, PhasedSGD
from deniable.learning.optimizers.sgd import SGD
from deniable.learning.optimizers.statistics import SufficientStatistics
from deniable.learning.optimizers.sums import NoisySum
from deniable.learning.optimizers.textbook import TextbookGradientDescent

__all__ = [
    "FTRL",
    "SGD",
    "Data",
    "FrankWolfe",
    "GradientDescent",
    "LastIterate",
    "Localisation",
    "Method",
    "NoisySum",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PhasedSGD",
    "Plan",
    "RegularisedExponential",
    "SufficientStatistics",
    "Task",
    "TextbookGradientDescent",
]
