"""Small private measurements around an answer: bounds and limits that were not stated, and what they cost in bias.

Each is a vector of whole numbers to which one unit adds a stated amount, released with discrete Laplace noise. `base`
says why that is private; `bounds`, `limits` and `diagnosis` say what is counted and how it is read.
"""

from deniable.query.surveys.base import Survey
from deniable.query.surveys.bounds import BoundsSurvey
from deniable.query.surveys.diagnosis import Diagnosis, Findings
from deniable.query.surveys.limits import LimitsSurvey

__all__ = ["BoundsSurvey", "Diagnosis", "Findings", "LimitsSurvey", "Survey"]
