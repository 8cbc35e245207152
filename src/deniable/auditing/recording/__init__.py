"""Recording and replaying a mechanism's randomness, from outside.

>>> import numpy as np
>>> from deniable.auditing.recording import Tape, recorded
>>> def mechanism(data):
...     return sum(data) + np.random.laplace(0, 2)
>>> with recorded(mechanism, Tape(seed=1)) as tape:
...     first = mechanism([1, 2])
>>> with recorded(mechanism, Tape(seed=1)):
...     second = mechanism([1, 2, 3])
>>> round(second - first, 9), tape.draws[0].label, tape.draws[0].scale
(3.0, 'numpy laplace', array([2.]))
"""

from deniable.auditing.recording.recorder import recorded, seeded
from deniable.auditing.recording.tape import Draw, Sampler, Tape

__all__ = ["Draw", "Sampler", "Tape", "recorded", "seeded"]
