"""The least that a submission needs: a problem of two lines, a person, a store."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kernelderby.core.contest import ContestRules
from kernelderby.core.problem_folder import Problem, archive, load_problem
from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.storage import claims, contests, people, problems, submissions
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.claims import Claim
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.database import Database
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.problems import ProblemInfo
from kernelderby.storage.submissions import NewSubmission, SubmissionView

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOURCE = b"def custom_kernel(data):\n    data.y.copy_(data.x * 2)\n"
_PROBLEM = """
name: {name}
title: Doubling
family: warmup
axes: {{n: {{var: true}}}}
inputs: {{x: {{shape: [n], dtype: float32}}}}
outputs: {{y: {{shape: [n], dtype: float32, budget: {{max_abs: {budget}}}}}}}
cases: {{cpu: [{{name: tiny, axes: {{n: {n}}}, dtype: float32}}]}}
baseline: baseline.py
licence: Apache-2.0
"""
_REFERENCE = """
import torch

RECIPES = {}


def make_inputs(case, generator):
    return {"x": torch.rand(case.axes["n"], generator=generator)}


def reference(data, rows=None):
    return {"y": data["x"].double() * 2}
"""


def small_problem(folder: Path, name: str = "doubling", n: int = 8, budget: float = 0.001) -> Problem:
    """A problem on disk under `folder`; another `n` is another version, another budget another gate set."""
    place = folder / "problems" / "warmup" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "problem.yml").write_text(_PROBLEM.format(name=name, n=n, budget=budget))
    (place / "reference.py").write_text(_REFERENCE)
    (place / "baseline.py").write_text(SOURCE.decode())
    return load_problem(place)


@dataclass
class World:
    """A database with one problem on offer, and short ways to make things happen in it."""

    database: Database
    artifacts: ArtifactStore
    problem: ProblemInfo

    @classmethod
    def make(cls, database: Database, folder: Path, devices: tuple[str, ...] = ("cpu",)) -> "World":
        """A world whose artifacts and problem lie under `folder`."""
        artifacts = ArtifactStore(folder / "artifacts")
        return cls(database=database, artifacts=artifacts, problem=add_problem(database, artifacts, small_problem(folder), devices))

    def person(self, name: str = "ada", role: str = "contestant") -> PersonInfo:
        """The person of that name, made when new."""
        with self.database.begin() as session:
            return people.by_name(session, name) or people.create(session, name, role)

    def send(self, name: str = "ada", mode: Mode = Mode.RANKED, device: str = "cpu", source: bytes = SOURCE, **more: Any) -> int:
        """A queued submission of that person."""
        person = self.person(name)
        new = NewSubmission(
            person=person.id, version=self.problem.version_id, device=device, mode=mode, file_name="kernel.py",
            source_sha=self.artifacts.put(source), language="torch", licence="MIT", ai_use="none", door="api", **more)
        with self.database.begin() as session:
            return submissions.insert(session, new, datetime.now(UTC))

    def view(self, submission: int) -> SubmissionView:
        """A submission as its readers see it."""
        with self.database.read() as session:
            return submissions.view(session, submission)

    def claim(self, device: str = "cpu", now: datetime | None = None, lease_s: float = 20) -> Claim | None:
        """The next run."""
        with self.database.begin() as session:
            return claims.claim(session, device, "runner", lease_s, now or datetime.now(UTC))

    def take(self, device: str = "cpu", lease_s: float = 20) -> Claim:
        """The next run, which must be there."""
        claim = self.claim(device, lease_s=lease_s)
        assert claim is not None
        return claim

    def finish(self, claim: Claim, **said: Any) -> bool:
        """End a run, accepted unless said otherwise."""
        with self.database.begin() as session:
            return claims.finish(session, claim.id, claim.attempt, self.verdict(**said))

    def judged(self, name: str, score_us: float, spread: float = 0.0, **said: Any) -> int:
        """A person's accepted entry with that score and an interval of ± the share `spread`."""
        self.send(name)
        claim = self.take()
        assert self.finish(claim, score_us=score_us, score_ci_us=(score_us * (1 - spread), score_us * (1 + spread)), **said)
        return claim.id

    def contest(self, name: str = "spring", device: str = "cpu", **rules: Any) -> ContestInfo:
        """A contest on the problem, from noon for four hours unless said otherwise."""
        boss = self.person("boss", "organizer")
        told = {"title": "Spring", "starts_at": NOON, "ends_at": NOON + timedelta(hours=4), **rules}
        with self.database.begin() as session:
            made = contests.create(session, name, ContestRules(**told), boss.id, NOON - timedelta(days=1))
            contests.set_problems(session, made.id, [(self.problem.version_id, device)])
            return made

    def verdict(self, **said: Any) -> Verdict:
        """An accepted ranked verdict, but for what is said."""
        return Verdict(**{"problem": self.problem.name, "version": self.problem.version, "device": "cpu", "mode": Mode.RANKED,
                          "outcome": Outcome.ACCEPTED, **said})


def add_problem(database: Database, artifacts: ArtifactStore, problem: Problem, devices: tuple[str, ...] = ("cpu",)) -> ProblemInfo:
    """Put a problem on offer."""
    key = artifacts.put(archive(problem))
    with database.begin() as session:
        return problems.add(session, problem, key, devices)
