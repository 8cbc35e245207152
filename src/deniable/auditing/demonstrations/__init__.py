"""What an unprotected release gives away: four attacks that anybody can repeat.

Each takes what was published and gives back what was private. None needs more than school algebra or least squares.
They are the reason for everything else in this library; against a private release they return noise.
"""

from deniable.auditing.demonstrations.differencing import difference_means
from deniable.auditing.demonstrations.inversion import recover_label
from deniable.auditing.demonstrations.medians import find_record
from deniable.auditing.demonstrations.reconstruction import random_questions, reconstruct

__all__ = ["difference_means", "find_record", "random_questions", "reconstruct", "recover_label"]
