"""Every route as every kind of caller. The routes are the app's own: a new one fails here until its row is written."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from kernelderby.core.settings import Settings
from kernelderby.leaderboard_web.app import create_app
from kernelderby.storage import people, submissions
from kernelderby.storage.people import NewToken
from tests.leaderboard_web.site import SOURCE, Site

# owner and rival: contestants with tokens for submit and read. The next four are the owner's: read alone, submit alone, an agent's, a
# revoked one. What is asked for is the owner's: a submission, a token, and a duel of which there is none.
CALLERS = ("nobody", "owner", "rival", "reads", "submits", "agent", "revoked", "organizer")
EVERYONE = (200,) * 8                                       # looks at no token
OPEN = (200, 200, 200, 200, 200, 200, 401, 200)             # a token that is not known is refused everywhere
OWN_READ = (401, 200, 200, 200, 403, 403, 401, 200)         # an agent leaves its person's account alone
OWN_ALL = (401, 200, 200, 403, 403, 403, 401, 200)
NO_TEAM = (401, 404, 404, 403, 404, 403, 401, 404)          # there is none by that number, and an agent has none at all
ABSENT = (404, 404, 404, 404, 404, 404, 401, 404)           # anybody may ask, but there is none
ORGANIZERS = (401, 403, 403, 403, 403, 403, 401, 200)
NO_CONTEST = (401, 403, 403, 403, 403, 403, 401, 404)       # an organizer's, of which there is none by that name or number
TABLE: dict[str, tuple[int, ...]] = {
    "GET /api/openapi.json": EVERYONE,
    "POST /api/v1/submissions": (401, 201, 201, 403, 201, 201, 401, 201),
    "GET /api/v1/submissions": OPEN,
    "GET /api/v1/submissions/{submission}": OPEN,
    "POST /api/v1/submissions/{submission}/cancel": (401, 200, 403, 403, 200, 200, 401, 200),
    "GET /api/v1/submissions/{submission}/source": (401, 200, 403, 200, 403, 200, 401, 200),
    "GET /api/v1/submissions/{submission}/cases.csv": OPEN,
    "GET /api/v1/submissions/{submission}/events": OPEN,
    "POST /api/v1/duels": (401, 422, 422, 403, 422, 422, 401, 422),
    "GET /api/v1/duels/{duel}": ABSENT,
    "GET /api/v1/problems": OPEN,
    "GET /api/v1/problems/{name}": OPEN,
    "GET /api/v1/problems/{name}/starters/{file}": OPEN,
    "GET /api/v1/problems/{name}/board": OPEN,
    "GET /api/v1/problems/{name}/board.csv": OPEN,
    "GET /api/v1/devices": EVERYONE,
    "GET /api/v1/contests": OPEN,
    "POST /api/v1/contests": (401, 403, 403, 403, 403, 403, 401, 201),
    "GET /api/v1/contests/{contest}": ABSENT,
    "PATCH /api/v1/contests/{contest}": NO_CONTEST,
    "GET /api/v1/contests/{contest}/board": ABSENT,
    "GET /api/v1/contests/{contest}/board.csv": ABSENT,
    "GET /api/v1/contests/{contest}/notices": ABSENT,
    "POST /api/v1/contests/{contest}/notices": (401, 404, 404, 404, 404, 404, 401, 404),
    "POST /api/v1/contests/{contest}/notices/{notice}/answer": NO_CONTEST,
    "GET /api/v1/contests/{contest}/seeds": ABSENT,
    "GET /api/v1/contests/{contest}/registrations.csv": NO_CONTEST,
    **{f"POST /api/v1/contests/{{contest}}/{step}": NO_CONTEST for step in ("freeze", "end", "reveal", "practice")},
    "GET /api/v1/people/me": (401, 200, 200, 200, 200, 200, 401, 200),
    "POST /api/v1/people/me/tokens": (401, 201, 201, 403, 403, 403, 401, 201),
    "GET /api/v1/people/me/tokens": (401, 200, 200, 200, 403, 200, 401, 200),
    "DELETE /api/v1/people/me/tokens/{token}": (401, 200, 404, 200, 403, 403, 401, 404),
    "GET /api/v1/people/me/sessions": OWN_READ,
    "DELETE /api/v1/people/me/sessions": OWN_ALL,
    "DELETE /api/v1/people/me/sessions/{session}": (401, 404, 404, 403, 403, 403, 401, 404),
    "GET /api/v1/people/me/identities": OWN_READ,
    "DELETE /api/v1/people/me/identities/{identity}": (401, 404, 404, 403, 403, 403, 401, 404),
    "POST /api/v1/people/me/link-codes": (401, 201, 201, 403, 403, 403, 401, 201),
    "GET /api/v1/people/me/export": OWN_READ,
    "DELETE /api/v1/people/me": (401, 422, 422, 403, 403, 403, 401, 422),       # without the name as confirmation
    "GET /api/v1/people": ORGANIZERS,
    "GET /api/v1/people/{person}": ORGANIZERS,
    "POST /api/v1/people/{person}/role": (401, 403, 403, 403, 403, 403, 401, 403),   # an admin's alone
    "POST /api/v1/people/{person}/ban": ORGANIZERS,
    "POST /api/v1/people/{person}/unban": ORGANIZERS,
    "GET /api/v1/audit": ORGANIZERS,
    "POST /api/v1/teams": (401, 201, 422, 403, 422, 403, 401, 422),              # the name is taken after the first; no agent's are taken
    "GET /api/v1/teams": (401, 200, 200, 200, 403, 200, 401, 200),
    "POST /api/v1/teams/join": (401, 422, 422, 403, 422, 403, 401, 422),
    "GET /api/v1/teams/{team}": (401, 404, 404, 404, 403, 404, 401, 404),
    "POST /api/v1/teams/{team}/invitations": NO_TEAM,
    "POST /api/v1/teams/{team}/leave": NO_TEAM,
    "POST /api/v1/teams/{team}/merge-code": NO_TEAM,
    "POST /api/v1/teams/{team}/merge": NO_TEAM,
    "GET /api/v1/contests/{contest}/registration": (401, 404, 404, 404, 403, 404, 401, 404),
    "POST /api/v1/contests/{contest}/registration": (401, 404, 404, 403, 404, 404, 401, 404),
    "DELETE /api/v1/contests/{contest}/registration": (401, 404, 404, 403, 404, 404, 401, 404),
    "GET /api/v1/contests/{contest}/quota": (401, 404, 404, 404, 403, 404, 401, 404),
    "POST /api/v1/contests/{contest}/invitations": (401, 403, 403, 403, 403, 403, 401, 404),
    "POST /api/v1/contests/{contest}/gates": (401, 403, 403, 403, 403, 403, 401, 422),    # what is sent is no folder
    "GET /api/v1/contests/{contest}/gates": NO_CONTEST,
    "GET /api/v1/gates/{change}": NO_CONTEST,
    "POST /api/v1/gates/{change}/apply": NO_CONTEST,
    "POST /api/v1/gates/{change}/withdraw": NO_CONTEST,
    "POST /api/v1/submissions/{submission}/appeal": (401, 422, 403, 403, 422, 422, 401, 403),
    "GET /api/v1/contests/{contest}/appeals": (401, 404, 404, 404, 403, 404, 401, 404),
    "POST /api/v1/appeals/{appeal}/grant": NO_CONTEST,
    "POST /api/v1/appeals/{appeal}/deny": NO_CONTEST,
    "POST /api/v1/contests/{contest}/final": NO_CONTEST,
    "GET /api/v1/contests/{contest}/final": (404, 404, 404, 404, 404, 404, 401, 404),
    "POST /api/v1/submissions/{submission}/rejudge": ORGANIZERS,
    "GET /api/v1/keys": EVERYONE,
    "GET /api/v1/submissions/{submission}/receipt": ABSENT,
    "GET /": OPEN,
    "GET /problems": (307,) * 8,
    "GET /problems/{name}": OPEN,
    "GET /contests": OPEN,
    "GET /contests/{contest}": ABSENT,
    "GET /submit": (303, 200, 200, 200, 200, 200, 401, 200),
    "POST /submit": (303, 303, 303, 403, 303, 303, 401, 303),
    "GET /submissions/{submission}": OPEN,
    "GET /submissions/{submission}/source": (401, 200, 403, 200, 403, 200, 401, 200),
    "POST /submissions/{submission}/cancel": (401, 303, 403, 403, 303, 303, 401, 303),
    "GET /entries": (303, 200, 200, 200, 403, 200, 401, 200),
    "GET /login": OPEN,
    "POST /login": (401,) * 8,
    "POST /logout": (303,) * 8,
    "POST /login/{key}": (404, 404, 404, 404, 404, 404, 401, 404),       # no provider is configured
    "GET /login/{key}/back": (404, 404, 404, 404, 404, 404, 401, 404),
    "GET /account": (303, 200, 200, 200, 403, 403, 401, 200),
    "POST /account/link-code": (303, 200, 200, 403, 403, 403, 401, 200),
    "POST /account/sessions/end": (303, 303, 303, 403, 403, 403, 401, 303),
    "POST /account/sessions/{session}/end": (303, 404, 404, 403, 403, 403, 401, 404),
    "POST /account/identities/{identity}/unlink": (303, 404, 404, 403, 403, 403, 401, 404),
    "POST /account/delete": (303, 422, 422, 403, 403, 403, 401, 422),
    "GET /measure": OPEN,
    "GET /api": OPEN,
    "GET /theme/{name}": (303,) * 8,
    "GET /healthz": EVERYONE,
}
FILE: dict[str, Any] = {"files": {"file": ("kernel.py", SOURCE)}, "data": {"problem": "doubling", "device": "cpu", "mode": "test"}}
SENT: dict[str, dict[str, Any]] = {
    "POST /api/v1/submissions": FILE, "POST /submit": FILE, "POST /api/v1/people/me/tokens": {"json": {"name": "new"}},
    "POST /api/v1/duels": {"json": {"a": 1, "b": 1}}, "POST /login": {"data": {"token": "nonsense"}},
    "POST /api/v1/contests": {"json": {"name": "swept", "title": "Swept", "starts_at": "2100-01-01T00:00:00Z",
                                      "ends_at": "2100-01-02T00:00:00Z", "problems": [{"problem": "doubling", "device": "cpu"}]}},
    "POST /api/v1/contests/{contest}/notices": {"json": {"text": "swept"}},
    "POST /api/v1/contests/{contest}/notices/{notice}/answer": {"json": {"text": "swept"}},
    "PATCH /api/v1/contests/{contest}": {"json": {"title": "Swept"}},
    "POST /api/v1/contests/{contest}/gates": {"files": {"file": ("p.zip", b"PK")}, "data": {"reason": "swept"}},
    **{f"POST /api/v1/{path}": {"json": {"text": "swept"}} for path in (
        "submissions/{submission}/appeal", "appeals/{appeal}/grant", "appeals/{appeal}/deny")},
    "POST /api/v1/people/{person}/ban": {"json": {"reason": "for the sweep"}},
    "POST /api/v1/people/{person}/role": {"json": {"role": "organizer"}}, "DELETE /api/v1/people/me": {"json": {"confirm": "nobody"}},
    "POST /api/v1/teams": {"json": {"name": "Sweepers"}}, "POST /api/v1/teams/join": {"json": {"code": "team_nonsense"}},
    "POST /api/v1/teams/{team}/merge": {"json": {"code": "merge_nonsense"}},
}


def routes(settings: Settings) -> list[str]:
    """`METHOD /path` of each route, those of included routers too."""
    found = []
    top: list[Any] = list(create_app(settings).routes)
    for route in top:
        inner = getattr(route, "original_router", None)
        prefix = route.include_context.prefix if inner else ""
        found += [(method, prefix + r.path) for r in (inner.routes if inner else [route]) for method in getattr(r, "methods", None) or ()]
    return [f"{method} {path}" for method, path in found if method != "HEAD"]


def test_every_route_is_placed(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = routes(Settings(data=tmp_path_factory.mktemp("app")))

    assert sorted(TABLE) == sorted(found)


@pytest.mark.parametrize("route", list(TABLE))
def test_each_caller_gets_what_is_theirs(site: Site, route: str) -> None:
    assert dict(zip(CALLERS, swept(site, route), strict=True)) == dict(zip(CALLERS, TABLE[route], strict=True))


def test_no_answer_tells_others_a_source_or_a_log(site: Site) -> None:
    secret = "print('nobody else may read this')"
    source = f"{secret}\n".encode() + SOURCE
    with site.client("sweep-owner") as owner:
        sent = owner.post("/api/v1/submissions", files={"file": ("kernel.py", source)}, data=FILE["data"])
    number = int(sent.json()["submission"])
    site.judge(number, log=secret)

    made = callers(site)
    for caller in ("nobody", "rival", "submits", "revoked"):
        with made[caller]() as client:
            for route in (r for r in TABLE if r.startswith("GET ")):
                assert secret not in client.get(path_of(route, number)).text, f"{route} as {caller}"


def swept(site: Site, route: str) -> list[int]:
    """The status that each caller gets, each on a fresh submission and token of the owner where something changes."""
    method = route.split(" ")[0]
    found, number, made = list[int](), site.send("sweep-owner", device="cpu"), callers(site)
    for caller in CALLERS:
        if method != "GET":
            number = site.send("sweep-owner", device="cpu")
            made = callers(site) if "/people/" in route else made      # these end tokens, or their owner
        with made[caller]() as client:
            found.append(client.request(method, path_of(route, number), **SENT.get(route, {})).status_code)
        with site.world.database.begin() as session:
            submissions.cancel(session, number)         # so that the queue has room
    return found


def path_of(route: str, submission: int) -> str:
    """The address of a route, of that submission where it names one."""
    path = route.split(" ")[1].replace("/theme/{name}", "/theme/dark").replace("{name}", "doubling").replace("{file}", "starter.py")
    return path.replace("{submission}", str(submission)).replace("{duel}", "1").replace("{token}", "swept").replace(
        "{person}", "sweep-other").replace("{session}", "999999").replace("{identity}", "999999").replace("{key}", "github").replace(
        "{team}", "999999").replace("{contest}", "nowhere").replace(
        "{notice}", "999999").replace("{change}", "999999").replace("{appeal}", "999999")


def callers(site: Site) -> dict[str, Callable[[], httpx.Client]]:
    """Ways to make each caller, over new tokens."""
    owner = site.person("sweep-owner").id
    site.person("sweep-other")          # whom organizers look at, ban and let in again
    with site.world.database.begin() as session:
        for old in people.tokens_of(session, owner):
            if old.revoked_at is None:
                people.revoke_token(session, owner, old.id)
        tokens = {name: people.add_token(session, owner, new) for name, new in {
            "owner": NewToken(name="own", scopes=("submit", "read")), "reads": NewToken(name="reads", scopes=("read",)),
            "submits": NewToken(name="submits", scopes=("submit",)), "agent": NewToken(name="robot", scopes=("submit", "read"), agent=True),
            "revoked": NewToken(name="gone"), "swept": NewToken(name="swept", scopes=("read",))}.items()}
        gone = next(t for t in people.tokens_of(session, owner) if t.name == "gone")
        people.revoke_token(session, owner, gone.id)
    tokens |= {"rival": site.token("sweep-rival", scopes=("submit", "read")), "organizer": site.token("sweep-boss", "organizer")}
    return {caller: lambda caller=caller: _client(site, tokens.get(caller)) for caller in CALLERS}   # type: ignore[misc]


def _client(site: Site, token: str | None) -> httpx.Client:
    return httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {token}"} if token else {}, timeout=20)
