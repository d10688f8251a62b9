"""The pages as they come from the server, without a browser."""

from html.parser import HTMLParser

import pytest

from kernelderby.core.verdict import CaseResult, Outcome
from tests.leaderboard_web.site import SOURCE, Site, full_verdict

EVIL = "</script><script>alert(1)</script>\x00\x1b[31m<img src=x onerror=alert(1)>"
VOID = {"meta", "link", "input", "br", "hr", "img"}


class _Checked(HTMLParser):
    """Notes what a page must not hold, and elements that do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.faults += [f"{tag} has {name}" for name in found if name == "style" or name.startswith("on")]
        if tag == "script" and "src" not in found or tag == "style" or tag == "img":
            self.faults.append(f"inline {tag}")
        if "id" in found:
            self.ids.append(found["id"] or "")
        self.refers += (found.get("aria-labelledby") or "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> out of order")


def _sound(html: str) -> str:
    page = _Checked()
    page.feed(html)
    assert not page.faults + page.open
    assert len(set(page.ids)) == len(page.ids), "an id stands twice"
    assert set(page.refers) <= set(page.ids)
    assert html.count("<h1") == 1
    return html


def test_every_page_is_sound_html_within_the_policy(site: Site) -> None:
    ranked = site.send("author", mode="ranked", device="cpu", licence="MIT")
    site.judge(ranked, **full_verdict())
    waiting = site.send("author", device="cpu")
    with site.browser("author") as browser, site.client() as nobody:
        for path in ("/", "/problems/doubling", "/problems/doubling?device=h200", "/submit", "/entries", "/login?code=x", "/measure",
                     "/api", f"/submissions/{ranked}", f"/submissions/{waiting}", f"/submissions/{ranked}/source", "/nothing"):
            _sound(browser.get(path).text)
        for path in ("/", "/problems/doubling", f"/submissions/{ranked}", f"/submissions/{waiting}", "/login"):
            _sound(nobody.get(path).text)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_its_page(site: Site, outcome: Outcome) -> None:
    number = site.send("author", mode="test", device="cpu")
    case = CaseResult(name="tiny", outcome=outcome, message="row 3 is off", worst_row_rel_l2=1.73)
    site.judge(number, outcome=outcome, mode="test", message="Case tiny: row 3 is off.", cases=[case], log="printed\n")
    with site.browser("author") as browser:
        page = _sound(browser.get(f"/submissions/{number}").text)
    assert f">{outcome}</span>" in page
    assert "Case tiny: row 3 is off." in page
    assert "printed" in page


def test_what_a_contestant_wrote_is_shown_and_never_run(site: Site) -> None:
    name = f"eve {EVIL}"
    with site.browser(name) as browser:
        sent = browser.post("/submit", files={"file": (f"{EVIL[:40]}.py", SOURCE + f"# {EVIL[:9]}\n".encode())},
                            data={"problem": "doubling", "device": "cpu", "mode": "test", "ai_use": "agent: <b>&\""})
        number = int(sent.headers["location"].rpartition("/")[2])
        while site.world.take().id != number:
            pass
        site.report(number, "check", {"case": EVIL, "done": EVIL, "of": None, "outcome": EVIL})
        site.report(number, "log", {"text": EVIL})
        live = _sound(browser.get(f"/submissions/{number}").text)
        site.end(number, mode="test", outcome="wrong_values", gate="right", message=EVIL, log=EVIL,
                 cases=[CaseResult(name=EVIL, outcome=Outcome.WRONG_VALUES, message=EVIL * 2)],
                 environment={EVIL: EVIL, "deep": {"a": [EVIL]}}, receipt={"blocks_us": EVIL, "x": EVIL})
        pages = [browser.get(path).text for path in (f"/submissions/{number}", f"/submissions/{number}/source", "/entries", "/")]
    assert "&lt;img src=x" in live
    for page in pages:
        _sound(page)
        assert "alert(1)</script>" not in page


def test_a_form_that_is_refused_comes_back_filled_in(site: Site) -> None:
    with site.browser("former") as browser:
        answer = browser.post("/submit", files={"file": ("kernel.py", SOURCE)},
                              data={"problem": "doubling", "device": "cpu", "mode": "ranked"})
    page = _sound(answer.text)
    assert answer.status_code == 422
    assert "A ranked entry needs a licence" in page
    assert '<option value="doubling" selected>' in page
    assert 'value="ranked" checked' in page


@pytest.mark.parametrize(("size", "status", "words"), [(0, 422, "No file was chosen"), (2_000_000, 413, "larger than 1 MiB")])
def test_a_form_without_a_fitting_file_says_so(site: Site, size: int, status: int, words: str) -> None:
    files = {"file": ("kernel.py", b"#" * size)} if size else {"other": ("", b"")}
    with site.browser("former") as browser:
        answer = browser.post("/submit", files=files, data={"problem": "doubling"})
    assert answer.status_code == status
    assert words in _sound(answer.text)


def test_a_live_page_reloads_without_script_and_leads_to_its_events(site: Site) -> None:
    number = site.send("author", device="cpu")
    with site.browser("author") as browser:
        page = browser.get(f"/submissions/{number}").text
        assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page
        assert f'data-events="/api/v1/submissions/{number}/events?after=1"' in page
        assert browser.post(f"/submissions/{number}/cancel").status_code == 303
        done = browser.get(f"/submissions/{number}").text
    assert "http-equiv" not in done
    assert ">cancelled</span>" in done


def test_the_board_ties_what_the_clock_cannot_tell_apart(site: Site) -> None:
    for person, score in (("b1", 10.0), ("b2", 10.01), ("b3", 20.0)):
        site.send(person, mode="ranked", device="h200", licence="MIT")
        site.world.finish(site.world.take("h200"), device="h200", score_us=score, score_ci_us=(score * 0.995, score * 1.005), speedup=2.0)
    with site.browser("b2") as browser:
        page = browser.get("/problems/doubling?device=h200").text
    assert page.count('class="tied mine"') == 1
    assert page.count('<tr role="row" class="tied') == 1
    assert "1–2" in page
    assert 'class="own' in page


def test_the_statement_is_drawn_and_its_script_is_not_run(site: Site) -> None:
    with site.client() as client:
        page = _sound(client.get("/problems/doubling").text)
    assert "<math" in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_source_is_for_its_owner(site: Site) -> None:
    number = site.send("author", device="cpu")
    with site.browser("reader") as reader, site.client() as nobody:
        assert reader.get(f"/submissions/{number}/source").status_code == 403
        assert nobody.get(f"/submissions/{number}/source").status_code == 401


def test_static_files_are_kept_by_caches_under_an_address_with_their_hash(site: Site) -> None:
    with site.client() as client:
        page = client.get("/").text
        address = page.partition('href="/static/style.css')[2].partition('"')[0]
        assert address.startswith("?v=")
        assert "immutable" in client.get(f"/static/style.css{address}").headers["cache-control"]
        assert client.get("/static/style.css").headers["cache-control"] == "no-store"
        assert client.get("/static/../app.py").status_code == 404
