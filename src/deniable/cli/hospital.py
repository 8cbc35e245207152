"""A made-up hospital for the demo: 4,000 patients, many visits each, the same on every machine.

`visits.csv` has a row for every visit, `patients.csv` one for every patient: who came back within a year?

Nobody in it exists. The numbers come from a hash of the patient and the visit, not from a random generator: this is
data, not noise.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Sequence
from pathlib import Path

from deniable._files import write_text

CITIES = ("Basel", "Bern", "Geneva", "Lausanne", "Zurich")
WARDS = ("cardiology", "maternity", "oncology", "surgery")
PATIENTS = 4000


def write_visits(path: Path) -> int:
    """Write the table of visits as CSV; returns the number of rows."""
    rows: list[Sequence[object]] = []
    for patient in range(PATIENTS):
        home = CITIES[_below(len(CITIES), patient, "home")]
        age = 18 + _below(72, patient, "age")
        # A few patients come very often: the reason why contributions are bounded per person.
        visits = 1 + int(-3.0 * math.log(1.0 - _unit(patient, "visits")))
        for visit in range(visits):
            away = _unit(patient, visit, "away") < 0.15
            city = CITIES[_below(len(CITIES), patient, visit, "city")] if away else home
            ward = WARDS[_below(len(WARDS), patient, visit, "ward")]
            cost = round(180.0 * (1 + WARDS.index(ward)) * math.exp(1.2 * _unit(patient, visit, "cost")), 2)
            rows.append((f"p{patient:04d}", city, ward, age, cost))
    _write(path, ("patient_id", "city", "ward", "age", "cost"), rows)
    return len(rows)


def write_patients(path: Path) -> None:
    """Write one row per patient: age, body mass index, smoker, and whether they came back."""
    rows = []
    for patient in range(PATIENTS):
        age = 18 + _below(72, patient, "age")
        bmi = round(18 + 17 * _unit(patient, "bmi"), 1)
        smoker = int(_unit(patient, "smoker") < 0.3)
        score = (age - 54) / 12 + (bmi - 26.5) / 5 + 1.5 * (smoker - 0.3)
        rows.append((age, bmi, smoker, int(_unit(patient, "returned") < 1 / (1 + math.exp(-score)))))
    _write(path, ("age", "bmi", "smoker", "returned"), rows)


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    write_text(path, text.getvalue())


def _unit(*what: object) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.sha256(repr(what).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _below(n: int, *what: object) -> int:
    return int(_unit(*what) * n)
