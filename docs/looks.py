"""Look at the site, the public page and the dashboard with a headless browser: `make looks`, after `make docs`.

Each page is opened at 1280 and 390 pixels, light and dark. It fails if a page is wider than its window, writes an error
to the console, asks another server for anything, or if axe-core finds a serious fault of accessibility. Pictures of the
pages go to docs/screenshots/. axe-core is taken from npm once, into build/.
"""

from __future__ import annotations

import http.server
import shutil
import subprocess
import sys
import tarfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import deniable as dn
from deniable.explaining.dashboard import dashboard_page
from deniable.explaining.report import Entry, Report

ROOT = Path(__file__).parents[1]
SITE, SCREENSHOTS, BUILD = ROOT / "site", ROOT / "docs" / "screenshots", ROOT / "build"
AXE = "axe-core@4.14.0"
WIDTHS = {"desktop": 1280, "phone": 390}
PAGES = {"home": "", "tutorial": "tutorials/ask/", "guide": "guides/epsilon/", "reference": "api/query/"}
KEPT = {"home", "tutorial", "report", "dashboard"}
"""Pages whose pictures are kept."""
SERIOUS = """() => axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
  .filter(each => ["serious", "critical"].includes(each.impact))
  .map(each => `${each.id}: ${each.nodes[0].target} (${each.nodes.length})`))"""


def axe() -> str:
    """The text of axe-core."""
    folder = BUILD / "axe"
    if not (folder / "package" / "axe.min.js").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def write_own_pages(folder: Path) -> None:
    """The public page and the dashboard of a made-up ledger, among the pages of the site."""
    (folder / "visits.ledger").unlink(missing_ok=True)
    with dn.Ledger.create(folder / "visits.ledger", unit="patient_id", budget=dn.ApproxDP(3, 1e-6)) as ledger:
        ledger.allot("ada", epsilon=2, delta=1e-7)
        ledger.allot("ben", epsilon=1, delta=1e-7)
        for number in range(12):
            ledger.charge(
                dn.DiscreteLaplace(scale=40),
                purpose=f"visits by ward, week {number + 1}",
                who=("ada", "ben")[number % 3 == 0],
            )
        (folder / "dashboard.html").write_text(dashboard_page(ledger, title="Visits"), encoding="utf-8")
        entries = [Entry(charge.time, charge.who, charge.purpose, charge.event) for charge in ledger.charges()]
        report = Report.about(ledger.budget, entries=entries, curator="Our hospitals", use="planning of beds")
    (folder / "report.html").write_text(report.to_html(), encoding="utf-8")


def look(browser: Browser, base: str, path: str, name: str, script: str) -> list[str]:
    """What is wrong with one page."""
    wrong = []
    own = (base, "data:")
    for device, width in WIDTHS.items():
        for scheme in ("light", "dark"):
            where = f"{name}, {width} px, {scheme}"
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
            )
            page = context.new_page()
            said: list[str] = []
            page.on("console", lambda each, said=said: said.append(each.text) if each.type == "error" else None)
            page.on("pageerror", lambda each, said=said: said.append(str(each)))
            page.on("request", lambda each, said=said: None if each.url.startswith(own) else said.append(each.url))
            page.goto(base + path, wait_until="networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                wrong.append(f"{where}: {wide} px wide")
            if name in KEPT:
                _keep(page, SCREENSHOTS / f"{name}-{scheme}-{device}.png")
            page.evaluate(script)
            wrong += [f"{where}: {line}" for line in [*said, *page.evaluate(SERIOUS)]]
            context.close()
    return wrong


def _keep(page: Any, file: Path) -> None:
    page.screenshot(
        path=file, full_page=True, clip={"x": 0, "y": 0, "width": page.viewport_size["width"], "height": 1400}
    )
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(64).save(file, optimize=True)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """A page that was fetched is no news."""


def main() -> int:
    """Look at every page."""
    SCREENSHOTS.mkdir(exist_ok=True)
    own = BUILD / "own"
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(SITE, own)
    (own / "favicon.ico").touch()  # a browser asks for it beside pages that name none
    write_own_pages(own)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(own)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    wrong = []
    script = axe()
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for name, page in {**PAGES, "report": "report.html", "dashboard": "dashboard.html"}.items():
            wrong += look(browser, base, page, name, script)
        browser.close()
    server.shutdown()
    for line in wrong:
        sys.stderr.write(line + "\n")
    sys.stdout.write(f"{len(PAGES) + 2} pages, 4 views each: {len(wrong) or 'no'} faults\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
