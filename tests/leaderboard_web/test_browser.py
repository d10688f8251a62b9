"""The pages in a real browser: log in, submit, watch, read."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.leaderboard_web.site import SOURCE, Site, full_verdict
from tests.needs import needs

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    needs("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        yield browser
        browser.close()


class Reader:
    """Someone at a browser, and all that the browser complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def log_in(self, site: Site, name: str) -> None:
        """By the one-time link."""
        self.page.goto(f"{site.url}/login?code={site.login_code(name)}")
        self.page.get_by_role("button", name="Log in here").click()

    def width_left_over(self) -> int:
        """How many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.fixture
def reader(chromium: Browser) -> Iterator[Reader]:
    """A reader with a window of usual size, who has seen nothing yet."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        found = Reader(context)
        yield found
        assert found.complaints == []


def _judge(site: Site, gate: threading.Event) -> None:
    """A worker's steps, the last one when the gate opens."""
    claim = site.world.take()
    site.report(claim.id, "state", {"state": "running"})
    site.report(claim.id, "log", {"text": "compiled </script>\n"})
    site.report(claim.id, "check", {"case": "tiny", "done": 1, "of": 2, "outcome": "accepted"})
    gate.wait(20)
    site.end(claim.id, **full_verdict())


def test_a_file_is_submitted_watched_and_judged(site: Site, reader: Reader, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_bytes(SOURCE)
    page = reader.page
    reader.log_in(site, "visitor")
    page.get_by_role("link", name="Submit", exact=True).click()
    page.get_by_label("File", exact=True).set_input_files(kernel)
    page.get_by_role("combobox", name="Problem").select_option("doubling")
    page.get_by_role("combobox", name="Device").select_option("cpu")
    page.get_by_role("radio", name="ranked").check()
    page.get_by_label("Licence").fill("MIT")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_selector("#live[data-followed]")
    assert page.locator("#state").inner_text() == "queued"

    gate = threading.Event()
    worker = threading.Thread(target=_judge, args=(site, gate))
    worker.start()
    expect(page.locator("#now")).to_have_text("Checking tiny")
    assert page.locator("#state").inner_text() == "running"
    assert page.locator("#log").inner_text() == "compiled </script>\n"
    assert page.locator("#progress").evaluate("p => p.value / p.max") == 0.5
    gate.set()
    worker.join()

    page.wait_for_selector(".reading")
    assert page.locator(".word").first.inner_text() == "accepted"
    assert "41.6" in page.locator(".reading").inner_text()
    page.get_by_role("link", name="Board", exact=True).click()
    assert page.locator("tr.mine").inner_text().count("you") == 1
    page.get_by_role("button", name="Log out").click()
    assert page.get_by_role("link", name="Log in").is_visible()


def test_a_live_page_goes_on_after_the_connection_broke(site: Site, reader: Reader) -> None:
    number = site.send("visitor", device="cpu")
    reader.log_in(site, "visitor")
    reader.page.goto(f"{site.url}/submissions/{number}")
    reader.page.wait_for_selector("#live[data-followed]")
    reader.page.context.set_offline(True)
    while site.world.take().id != number:
        pass
    site.report(number, "check", {"case": "tiny", "done": 1, "of": 2, "outcome": "accepted"})
    reader.page.context.set_offline(False)
    expect(reader.page.locator("#now")).to_have_text("Checking tiny", timeout=15_000)
    reader.complaints.clear()   # the browser notes the broken connection
    site.end(number, mode="test")
    reader.page.wait_for_selector("text=Every public case is right")


def test_pages_work_without_script(site: Site, chromium: Browser) -> None:
    number = site.send("visitor", device="cpu")
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.url}/submissions/{number}")
        assert page.locator("#state").inner_text() == "queued"
        site.judge(number, mode="test")
        page.wait_for_selector("text=Every public case is right", timeout=8000)   # the page reloads itself


PAGES = ("/", "/problems/doubling", "/submit", "/entries", "/login?code=x", "/measure", "/api", "ranked", "failed", "waiting")


@pytest.fixture(scope="module")
def addresses(site: Site) -> dict[str, str]:
    """A submission of each kind, by name."""
    ranked = site.send("looker", mode="ranked", device="cpu", licence="MIT")
    site.judge(ranked, **full_verdict())
    failed = site.send("looker", device="cpu")
    site.judge(failed, outcome="wrong_values", gate="right", mode="test", message="x" * 300, log="y" * 500)
    waiting = site.send("looker", device="h200")
    return {"ranked": f"/submissions/{ranked}", "failed": f"/submissions/{failed}", "waiting": f"/submissions/{waiting}"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits_its_window_in_both_themes(site: Site, chromium: Browser, addresses: dict[str, str], width: int,
                                                   theme: Literal["light", "dark"]) -> None:
    with chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=theme) as context:
        reader = Reader(context)
        reader.log_in(site, "looker")
        for path in PAGES:
            reader.page.goto(site.url + addresses.get(path, path))
            assert reader.width_left_over() <= 0, path
            ground = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == {"light": "rgb(244, 246, 246)", "dark": "rgb(16, 20, 22)"}[theme]
        assert reader.complaints == []


def test_the_theme_of_the_footer_overrides_the_system(site: Site, reader: Reader) -> None:
    reader.page.goto(f"{site.url}/measure")
    reader.page.get_by_role("link", name="dark").click()
    assert reader.page.url == f"{site.url}/measure"
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 22)"


def test_everything_is_reached_by_keyboard_with_a_visible_focus(site: Site, reader: Reader, addresses: dict[str, str]) -> None:
    reader.log_in(site, "looker")
    reader.page.goto(site.url + addresses["ranked"])
    reader.page.keyboard.press("Tab")
    assert reader.page.evaluate("document.activeElement.textContent") == "Skip to content"
    seen: list[str] = []
    for _ in range(60):
        reader.page.keyboard.press("Tab")
        seen.append(reader.page.evaluate("document.activeElement.textContent.trim()"))
        width = reader.page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
        assert width == "2px" or seen[-1] == reader.page.evaluate("document.body.textContent.trim()")
    assert {"Problems", "Submit", "Log out", "Send a new version", "Board", "Source", "Cases as CSV", "Receipt", "dark"} <= set(seen)


def test_times_are_told_in_the_readers_zone(site: Site, chromium: Browser, addresses: dict[str, str]) -> None:
    with chromium.new_context(timezone_id="Asia/Kolkata", locale="en-GB") as context:
        page = context.new_page()
        page.goto(site.url + addresses["ranked"])
        shown = page.locator("time").first
        hour = int((shown.get_attribute("datetime") or "")[11:13])
        assert shown.inner_text().split()[-1][:2] in (f"{(hour + 5) % 24:02}", f"{(hour + 6) % 24:02}")


