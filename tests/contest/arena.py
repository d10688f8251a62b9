"""A contest's people, each with a token and a command line of their own, around one platform that runs."""

import json
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from kernelderby.core.settings import Settings
from kernelderby.storage import people
from kernelderby.storage.database import connect
from tests.cli.conftest import Shell

T = TypeVar("T")
PROBLEM = "doubling"
CONTEST = "spring"
_AT_ONCE = 4             # command lines
_PATIENCE_S = 150        # for all that was sent to be judged
_HIDDEN = "{from: tiny, draw: {n: {range: [1, 9]}}}"
_PLANTED = "{from: tiny, draw: {n: {range: [2, 9]}}, recipe: huge}"
_SPEC = """
name: {name}
title: Doubling
family: warmup
axes: {{n: {{var: true}}}}
inputs: {{x: {{shape: [n], dtype: float32}}}}
outputs: {{y: {{shape: [n], dtype: float32, budget: {{max_abs: 0.001}}}}}}
cases: {{cpu: [{{name: tiny, axes: {{n: 64}}}}]}}
hidden: {{cpu: [{hidden}]}}
limits: {{time_s: 5, memory_mb: 512}}
baseline: baseline.py
licence: Apache-2.0
"""
_REFERENCE = """
import torch


def make_inputs(case, generator):
    return {"x": torch.rand(case.axes["n"], generator=generator)}


def reference(data, rows=None):
    return {"y": data["x"].double() * 2}


def huge(data, case, generator):
    data["x"][0] = 1000.0
    return torch.tensor([0])


RECIPES = {"huge": huge}
"""
HONEST = "import time\n\n\ndef custom_kernel(data):\n    time.sleep({ms} / 1000)\n    data.y.copy_(data.x * 2)\n"
FAST = "def custom_kernel(data):\n    data.y.copy_(data.x + data.x)\n"
EXPLOIT = "def custom_kernel(data):\n    data.y.copy_((data.x * 2).clamp(max=2.0))   # x is never above 1, so far\n"
WRONG = "def custom_kernel(data):\n    data.y.copy_(data.x * 3)\n"


def write_problem(folder: Path, *, plants: bool = False) -> Path:
    """The problem as it is played; with `plants` as it is after somebody found out what its hidden cases miss."""
    place = folder / "problems" / "warmup" / PROBLEM
    place.mkdir(parents=True)
    (place / "problem.yml").write_text(_SPEC.format(name=PROBLEM, hidden=", ".join([_HIDDEN, *([_PLANTED] if plants else [])])))
    (place / "reference.py").write_text(_REFERENCE)
    (place / "baseline.py").write_text("def custom_kernel(data):\n    data.y.copy_(data.x * 2)\n")
    (place / "statement.md").write_text("# Doubling\n\nTwice x.\n")
    return place


@dataclass(kw_only=True)
class Arena:
    """Everybody. Names are p00, p01, …; an agent is called by its own name."""

    folder: Path
    organizer: Shell
    url: str
    people: dict[str, Shell] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)      # the newest submission of each

    @property
    def nobody(self) -> Shell:
        """Someone without any token."""
        return self.shell("nobody")

    def shell(self, name: str, **variables: str) -> Shell:
        """A command line elsewhere, which knows of the platform its address alone."""
        folder = self.folder / "homes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return Shell(folder, {"DERBY_URL": self.url, **variables})

    def invite(self, names: Iterable[str]) -> None:
        """Make people, each with a token; not by thirty command lines, since they come before the contest."""
        database = connect(Settings(data=self.organizer.folder / ".derby").database)
        with database.begin() as session:
            for name in names:
                token = people.new_token(session, people.create(session, name).id, "mine")
                self.people[name] = self.shell(name, DERBY_TOKEN=token)
        database.close()

    def make_agent(self, owner: str, name: str) -> None:
        """Make an agent of a person."""
        made = said(self.people[owner], "token", "new", name, "--agent", "--runs", "5")
        self.people[name] = self.shell(name, DERBY_TOKEN=made["token"])

    def submit(self, name: str, source: str, *more: str) -> list[str]:
        """The words by which someone sends a ranked entry into the contest."""
        file = self.people[name].folder / "kernel.py"
        file.write_text(source)
        agent = "agent" if name.startswith("agent") else "none"
        return ["submit", str(file), "--contest", CONTEST, "--mode", "ranked", "--licence", "Apache-2.0", "--ai-use", agent, "--no-wait",
                *more]

    def send(self, name: str, source: str) -> int:
        """Send an entry; its number."""
        ticket = said(self.people[name], *self.submit(name, source))
        self.entries[name] = int(ticket["submission"])
        return self.entries[name]

    def api(self, name: str | None, path: str) -> httpx.Response:
        """What the API answers someone; None: nobody."""
        headers = {"Authorization": f"Bearer {self.people[name].variables['DERBY_TOKEN']}"} if name else {}
        return httpx.get(f"{self.url}/api/v1/{path}", headers=headers, trust_env=False, timeout=30)

    def wait_for(self, what: Callable[[], bool], pause_s: float = 2.0) -> None:
        """Return once it is so."""
        deadline = time.monotonic() + _PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, "it did not come to that in time"
            time.sleep(pause_s)

    def wait_until_judged(self, numbers: Iterable[int]) -> None:
        """Return once these submissions have their verdicts."""
        waiting = list(numbers)
        token = (self.organizer.folder / ".derby" / "token").read_text().strip()
        with httpx.Client(base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=30) as http:
            def all_done() -> bool:
                while waiting and http.get(f"submissions/{waiting[0]}").json()["state"] == "done":
                    del waiting[0]
                return not waiting
            self.wait_for(all_done, pause_s=0.3)


def said(shell: Shell, *words: str) -> dict[str, Any]:
    """What a command answers as JSON; it must do."""
    done = shell.derby(*words, "--json")
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(shell: Shell, *words: str, because: str) -> None:
    """A command must end with a sentence that says so."""
    done = shell.derby(*words)
    assert (done.returncode, done.stdout) == (2, ""), (words, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert re.search(because, done.stderr), (words, done.stderr)


def together(work: Callable[..., T], *items: Iterable[Any]) -> list[T]:
    """Several command lines at once."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, *items))
