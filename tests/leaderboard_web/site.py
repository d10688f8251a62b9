"""A real web server over a real database, and clients of all kinds for it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import CaseResult, CompileReport, Mode, Outcome
from kernelderby.leaderboard_web.app import create_app
from kernelderby.storage import claims, people
from kernelderby.storage.database import connect, migrate
from kernelderby.storage.people import PersonInfo
from tests.small_world import World, add_problem, small_problem

STATEMENT = """Double every number: $y_i = 2 x_i$.

| row | holds |
|-----|-------|
| 0   | `x`   |

<script>alert(1)</script>
"""
SOURCE = b"import triton\n\ndef custom_kernel(data):\n    data.y.copy_(data.x * 2)\n"


@dataclass
class Site:
    """A running server and what stands behind it."""

    url: str
    world: World

    def person(self, name: str, role: str = "contestant") -> PersonInfo:
        """That person, made when new."""
        return self.world.person(name, role)

    def token(self, name: str, role: str = "contestant", scopes: tuple[str, ...] = people.SCOPES) -> str:
        """A new token of that person."""
        person = self.person(name, role)
        with self.world.database.begin() as session:
            return people.new_token(session, person.id, "test", scopes)

    def login_code(self, name: str, role: str = "contestant") -> str:
        """A one-time code for that person."""
        person = self.person(name, role)
        with self.world.database.begin() as session:
            return people.new_login_code(session, person.id)

    def client(self, name: str | None = None, role: str = "contestant") -> httpx.Client:
        """A program with that person's token, or without any."""
        headers = {"Authorization": f"Bearer {self.token(name, role)}"} if name else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=20)

    @contextmanager
    def browser(self, name: str, role: str = "contestant") -> Iterator[httpx.Client]:
        """Something that sends what browsers send, logged in by link."""
        with httpx.Client(base_url=self.url, headers={"Origin": self.url, "Sec-Fetch-Site": "same-origin"}, timeout=20) as browser:
            assert browser.post("/login", data={"code": self.login_code(name, role)}).status_code == 303
            yield browser

    def send(self, name: str = "ada", **fields: Any) -> int:
        """A submission through the API."""
        form = {"problem": self.world.problem.name, "mode": "test", **fields}
        with self.client(name) as client:
            answer = client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)}, data=form)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["submission"])

    def judge(self, submission: int, **said: Any) -> None:
        """End that submission by a worker's steps, accepted unless said otherwise."""
        while (claim := self.world.take()).id != submission:
            self.world.finish(claim)
        self.world.finish(claim, **said)

    def end(self, submission: int, **said: Any) -> None:
        """The verdict of the run that is claimed, accepted unless said otherwise."""
        with self.world.database.begin() as session:
            assert claims.finish(session, submission, 1, self.world.verdict(**said))

    def report(self, submission: int, kind: str, data: dict[str, Any]) -> None:
        """A step of the run that is claimed."""
        with self.world.database.begin() as session:
            assert claims.add_events(session, submission, 1, [(kind, data)]) is not None


def full_verdict(**said: Any) -> dict[str, Any]:
    """What `World.finish` takes for an accepted ranked entry with everything a page can show."""
    calls = [[41.0 + 0.1 * i, 41.6, 42.0, 41.2 + 0.2 * i] for i in range(3)]
    return {
        "mode": Mode.RANKED, "score_us": 41.6, "score_ci_us": (41.2, 42.1), "speedup": 1.38, "log": "compiled in 3 ms\n",
        "cases": [CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=41.6, ci_us=(41.2, 42.1), claimed_us=40.9, baseline_us=57.4,
                             max_abs_err=0.0, worst_row_rel_l2=0.0021, calls=12)],
        "compile": [CompileReport(kernel="double", arch="sm_90a", registers=32, shared_bytes=98304, spills=0, tensor_core="wgmma",
                                  would_launch=True),
                    CompileReport(kernel="double", arch="sm_100a", message="out of shared memory")],
        "stages_s": {"queue": 0.1, "build": 0.0, "box": 0.01, "load": 0.2, "check": 0.4, "time": 0.3, "total": 0.9},
        "environment": {"cpu": "one that ran", "torch": "2.13.0", "sandbox": "bubblewrap", "cgroup": False},
        "receipt": {"gate_set": "abc", "blocks_us": {"tiny": calls}}, **said}


@contextmanager
def running(folder: Path, database_url: str = "") -> Iterator[Site]:
    """A site whose data lies in `folder`, served from a thread on a free port."""
    settings = Settings(data=folder / "data", public_url="http://127.0.0.1:8000", database_url=database_url)
    settings.data.mkdir(parents=True)
    database = connect(settings.database)
    migrate(database)
    world = World.make(database, folder / "data")
    world.problem = add_problem(database, world.artifacts, _with_words(folder / "data"), ("cpu", "h200"))
    with serving(settings) as url:
        yield Site(url=url, world=world)
    database.close()


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """The address of a server over `settings`."""
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def _with_words(folder: Path) -> Problem:
    problem = small_problem(folder)
    (problem.folder / "statement.md").write_text(STATEMENT)
    (problem.folder / "starter.py").write_text(SOURCE.decode())
    return load_problem(problem.folder)
