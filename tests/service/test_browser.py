"""The pages in a browser: a keyboard alone, phones, the size of a first load. `make looks` has the long form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from docs.live_service import LiveService


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    from docs.live_service import live_service

    with live_service(tmp_path_factory.mktemp("live") / "demo", deadline=0.3) as service:
        yield service


def test_a_keyboard_gets_from_log_in_to_an_answer(browser: Browser, service: LiveService) -> None:
    from docs.live_service import ask_by_keyboard, watch

    problems: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        watch(page, service.base, problems)
        ask_by_keyboard(page, service)
    assert problems == []  # among them what the policy of a page forbids


@pytest.mark.parametrize("who", [None, "ana", "owner"])
def test_pages_fit_a_phone_and_load_little(browser: Browser, service: LiveService, who: str | None) -> None:
    from docs.live_service import log_in, open_page

    with browser.new_context(viewport={"width": 320, "height": 640}, color_scheme="dark") as context:
        if who is not None:
            log_in(context.new_page(), service, who)
        for name in ("home", "public", "ask", "answer", "approvals", "accounts"):
            if service.pages[name][0] == who:
                page, problems = open_page(context, service, name)
                assert problems == [], name
                page.close()


def test_pages_read_without_a_script(browser: Browser, service: LiveService) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{service.base}/login")
        page.click("summary")
        page.fill("#token", service.tokens["ana"])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav")
        for name, words in {"answer": "Intervals cover", "ask": "Before you run", "tables": "Private"}.items():
            page.goto(service.base + service.pages[name][1])
            assert words in page.inner_text("main")
        page.goto(service.base + service.pages["ask"][1])
        page.click("text=Show the price")
        page.wait_for_selector(".pay")
