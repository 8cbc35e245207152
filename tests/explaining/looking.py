"""What is looked for in a browser: text over text, or outside its picture. Where screenshots go. An audit to show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.auditing import AuditReport, Point

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

REPORT = AuditReport(
    claim="ε ≤ 1.00, δ = 0, one record added or removed",
    relation="add_remove",
    confidence=0.99,
    verdict="refuted",
    by="testing",
    delta=0.0,
    claimed=1.0,
    lower=1.5,
    curve=(Point(0.0, 1.5, 1.0), Point(0.01, 1.2, 0.98), Point(0.2, 0.1, 0.68)),
    mu=None,
    attack="bins",
    evidence=4.0,
    runs=500,
    seconds=1.0,
)

PHONE, DESKTOP = 390, 1280
WIDTHS = {"phone": PHONE, "desktop": DESKTOP}

OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const boxes = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, p] = boxes[i], [b, q] = boxes[j];
      const across = p.left < q.right - 1 && q.left < p.right - 1;
      if (across && p.top < q.bottom - 3 && q.top < p.bottom - 3) found.push([a, b]);
    }
  }
  return found;
}"""

OUTSIDE = """() => [...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  }).map(t => t.textContent);
})"""


def keep(shown: Page | Locator, name: str) -> None:
    """Save a page, or a part of one, if somebody wants to look (`make screenshots`)."""
    if folder := os.environ.get("DENIABLE_SCREENSHOTS"):
        from PIL import Image

        file = Path(folder) / f"{name}.png"
        shown.screenshot(path=file, **({} if hasattr(shown, "nth") else {"full_page": True}))
        with Image.open(file) as picture:
            picture.quantize(48).save(file, optimize=True)
