"""A service that runs, with something on each of its pages; and a look at all of them: `make looks`.

Each page is opened at 1280 and 320 pixels, light and dark, as those who may. It fails if a page is wider than its
window, writes an error to the console, asks another server for anything, or if axe-core finds any fault; if a first
load takes more than 150 KB or 6 requests; or if a keyboard alone does not get through. Pictures go to
docs/screenshots/.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from deniable.service import roles, running
from deniable.service.access import Member
from deniable.service.app import make_app
from deniable.service.curator import Curator
from deniable.service.pages import page_routes
from deniable.service.settings import ServiceSettings

ROOT = Path(__file__).parents[1]
SCREENSHOTS = ROOT / "docs" / "screenshots"
SQL = "SELECT city, COUNT(*) AS visits, AVG(cost) AS cost\nFROM visits\nGROUP BY city"
QUESTION: dict[str, Any] = {
    "sql": SQL, "epsilon": "0.4", "bounds": {"cost": ["0", "1000"]}, "per_unit": {"groups": 1, "rows": 3},
    "keys": {"city": ["Basel", "Bern", "Geneva", "Lausanne", "Zurich"]},
}  # fmt: skip
MOST_BYTES, MOST_REQUESTS = 150_000, 6
KEPT = {"ask-1280-light", "answer-1280-light", "approvals-320-dark", "public-1280-dark"}
"""Views whose pictures are kept."""
FAULTS = """() => axe.run(document, {resultTypes: ["violations"]}).then(told => told.violations
  .map(each => `${each.id}: ${each.nodes[0].target} (${each.nodes.length})`))"""


class LiveService(NamedTuple):
    """A service at an address, with tokens by account, and its pages: who opens which path."""

    base: str
    tokens: Mapping[str, str]
    pages: Mapping[str, tuple[str | None, str]]


@contextmanager
def live_service(folder: Path, *, deadline: float = 0.5) -> Iterator[LiveService]:
    """A demo in a folder that does not exist yet: one answer that is published, one that waits for an approval."""
    new = running.initialize(folder, tables={}, demo=True)
    settings = replace(
        ServiceSettings.read(folder), planning_seconds=0, deadline=deadline, title="Visits to our hospitals",
        approval_above=0.5,
    )  # fmt: skip
    curator = Curator(settings)
    ana, owner = Member("ana", roles.ANALYST), Member("owner", roles.OWNER)
    answered = curator.submit(ana, json.dumps(QUESTION), "answered").id
    waiting = curator.submit(ana, json.dumps({**QUESTION, "epsilon": "0.6"}), "waiting").id
    curator.set_envelope(owner, "project", "flu", epsilon=0.5, delta=None, decision="grant 12")
    curator.set_grant(owner, "flu", "ana", granted=True)
    while curator.run(ana, answered).state == "running":
        time.sleep(0.02)
    curator.publish(answered, "Visits by city, 2026")
    listener = socket.create_server(("127.0.0.1", 0))
    app = make_app(curator, pages=page_routes(curator))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    pages: dict[str, tuple[str | None, str]] = {
        "home": (None, "/"), "login": (None, "/login"), "public": (None, f"/p/{answered}"),
        "tables": ("ana", "/tables"), "ask": ("ana", f"/ask?run={answered}"), "answers": ("ana", "/runs"),
        "answer": ("ana", f"/runs/{answered}"), "waiting": ("ana", f"/runs/{waiting}"), "budget": ("ana", "/budget"),
        "you": ("ana", "/tokens"),
        "budgets": ("owner", "/budget"), "approvals": ("owner", "/approvals"), "ledger": ("owner", "/ledger?head="),
        "accounts": ("owner", "/accounts"), "published": ("owner", "/releases"), "refused": ("ana", "/runs/nobody"),
    }  # fmt: skip
    try:
        yield LiveService(f"http://127.0.0.1:{listener.getsockname()[1]}", new.tokens, pages)
    finally:
        server.should_exit = True
        thread.join()
        curator.close()


# a keyboard alone


def tab_to(page: Page, selector: str, *, most: int = 60) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("where => document.activeElement.matches(where)", selector):
            return
    raise AssertionError(f"no key leads to {selector} on {page.url}")


def type_into(page: Page, selector: str, text: str) -> None:
    """Replace what a field holds."""
    tab_to(page, selector)
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(text)


def log_in(page: Page, service: LiveService, who: str) -> None:
    """Log in with a token."""
    page.goto(f"{service.base}/login")
    tab_to(page, "summary")
    page.keyboard.press("Enter")
    type_into(page, "#token", service.tokens[who])
    page.keyboard.press("Enter")
    page.wait_for_selector("nav")


def ask_by_keyboard(page: Page, service: LiveService) -> None:
    """An analyst's way: log in, ask, see the price, pay, read the answer, log out."""
    log_in(page, service, "ana")
    tab_to(page, 'nav a[href="/ask"]')
    page.keyboard.press("Enter")
    page.wait_for_selector("#sql")
    type_into(page, "#sql", "SELECT COUNT(*) AS n FROM visits")
    tab_to(page, "#goal-error")
    type_into(page, "#error", "100")
    tab_to(page, "summary")
    page.keyboard.press("Enter")
    type_into(page, "#groups", "1")
    type_into(page, "#rows", "3")
    page.wait_for_selector(".pay:not([aria-disabled])")  # the price is there without a button
    tab_to(page, ".pay")
    page.keyboard.press("Enter")
    page.wait_for_selector("figure")
    tab_to(page, ".who button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#name")


def decide_by_keyboard(page: Page, service: LiveService) -> None:
    """An owner's way: log in, deny a run, make a token, see it once."""
    log_in(page, service, "owner")
    page.goto(f"{service.base}/approvals")
    type_into(page, "[id^=reason]", "too much for this")
    tab_to(page, "button[value=deny]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=No run waits")
    tab_to(page, 'nav a[href="/tokens"]', most=80)
    page.keyboard.press("Enter")
    page.wait_for_selector("#label")
    type_into(page, "#label", "laptop")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=shown this once")


# looking


def watch(page: Page, base: str, problems: list[str]) -> None:
    """Note errors of the console, and requests to another server."""
    page.on("console", lambda each: problems.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda each: problems.append(str(each)))
    page.on("request", lambda each: None if each.url.startswith((base, "data:")) else problems.append(each.url))


def open_page(context: BrowserContext, service: LiveService, name: str) -> tuple[Page, list[str]]:
    """A page of the service, and what is wrong with how it loads."""
    page, problems = context.new_page(), list[str]()
    watch(page, service.base, problems)
    sizes: list[int] = []
    page.on("response", lambda each: sizes.append(len(each.body())) if each.status == 200 else None)
    page.goto(service.base + service.pages[name][1])
    if name == "refused":
        problems.clear()  # the console tells of the refusal
    if sum(sizes) > MOST_BYTES or len(sizes) > MOST_REQUESTS:
        problems.append(f"{sum(sizes):,} bytes in {len(sizes)} requests")
    if name == "ask":
        page.click("text=Try on made-up rows")
        page.wait_for_selector("text=not real")
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > page.viewport_size["width"]:
        problems.append(f"{wide} px wide")
    return page, problems


def look(browser: Browser, service: LiveService, script: str) -> list[str]:
    """What is wrong with any page, in any view."""
    wrong: list[str] = []
    for width in (1280, 320):
        for scheme in ("light", "dark"):
            contexts: dict[str | None, BrowserContext] = {}
            for name, (who, _) in service.pages.items():
                if who not in contexts:
                    contexts[who] = browser.new_context(
                        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True,
                        reduced_motion="reduce",
                    )  # fmt: skip
                    if who is not None:
                        log_in(contexts[who].new_page(), service, who)
                page, problems = open_page(contexts[who], service, name)
                view = f"{name}-{width}-{scheme}"
                if view in KEPT:
                    _keep(page, SCREENSHOTS / f"service-{view}.png")
                page.evaluate(script)
                wrong += [f"{view}: {line}" for line in [*problems, *page.evaluate(FAULTS)]]
                page.close()
            for context in contexts.values():
                context.close()
    return wrong


def _keep(page: Page, file: Path) -> None:
    from PIL import Image

    page.set_viewport_size({"width": page.viewport_size["width"], "height": 1300})  # a panel is as high as its window
    page.screenshot(path=file, full_page=True)
    with Image.open(file) as picture:
        picture.crop((0, 0, picture.width, min(picture.height, 1300))).convert("RGB").quantize(48).save(
            file, optimize=True
        )


def main() -> int:
    """Look at every page, and walk through them with a keyboard."""
    from docs.looks import axe

    SCREENSHOTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, live_service(Path(folder) / "demo") as service:
        script = axe()
        with sync_playwright() as driver:
            path = shutil.which("chromium") or shutil.which("google-chrome")
            browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            wrong = look(browser, service, script)
            for walk in (ask_by_keyboard, decide_by_keyboard):
                page = browser.new_page()
                watch(page, service.base, wrong)
                walk(page, service)
            browser.close()
    for line in wrong:
        sys.stderr.write(line + "\n")
    sys.stdout.write(f"{len(service.pages)} pages of the service, 4 views each: {len(wrong) or 'no'} faults\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
