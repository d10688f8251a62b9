"""A contest with entries on its board, and the runs of its gates and heats."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kernelderby.core.problem_folder import archive
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.storage import boards, claims, contests, gates
from kernelderby.storage.claims import Claim
from kernelderby.storage.contests import ContestInfo, ContestProblemInfo
from kernelderby.storage.database import Database
from kernelderby.storage.gate_views import ChangeView
from kernelderby.storage.gates import NewChange
from tests.small_world import World, small_problem

HOUR = timedelta(hours=1)
CAUGHT: dict[str, Any] = {"outcome": Outcome.WRONG_VALUES, "gate": Gate.ANY_INPUT, "message": "A hidden case of the recipe needle fails."}


@dataclass
class ContestWorld:
    """The contest `spring` on one board, at a time of one's choice."""

    world: World
    folder: Path
    number: int                   # contests.id
    boss: int                     # people.id

    @classmethod
    def make(cls, database: Database, folder: Path, **rules: Any) -> "ContestWorld":
        """An open contest without entries: since an hour ago, for another hour."""
        world, now = World.make(database, folder), datetime.now(UTC)
        contest = world.contest(**{"starts_at": now - HOUR, "ends_at": now + HOUR, **rules})
        return cls(world=world, folder=folder, number=contest.id, boss=world.person("boss", "organizer").id)

    def entry(self, name: str, score_us: float, *, source: bytes | None = None, **said: Any) -> int:
        """An accepted entry of that person in the contest."""
        number = self.world.send(name, contest=self.number, source=source or f"# {name} {score_us}\n".encode())
        claim = self.world.take()
        assert claim.id == number
        assert self.world.finish(claim, **scored(score_us, **said))
        return number

    def info(self, later: timedelta = timedelta()) -> ContestInfo:
        """The contest, now or so much later."""
        with self.world.database.read() as session:
            return contests.by_id(session, self.number, datetime.now(UTC) + later)

    def place(self) -> ContestProblemInfo:
        """Its board."""
        with self.world.database.read() as session:
            return contests.problems_of(session, self.number)[0]

    def propose(self, top: int = 10, budget: float = 1e-6, later: timedelta = timedelta()) -> ChangeView:
        """A change to a tighter budget, which is another gate set; so much later."""
        now = datetime.now(UTC) + later
        problem = small_problem(self.folder / f"gates{budget}", budget=budget)
        key = self.world.artifacts.put(archive(problem))
        with self.world.database.begin() as session:
            return gates.propose(session, contests.by_id(session, self.number, now), NewChange(
                problem=problem, archive=key, reason="A kernel kept results between calls", top=top, made_by=self.boss), now)

    def view(self, change: int) -> ChangeView:
        """The change now."""
        with self.world.database.read() as session:
            return gates.view(session, change)

    def apply(self, change: int) -> ChangeView:
        """Make its gates the contest's."""
        with self.world.database.begin() as session:
            return gates.apply(session, change, datetime.now(UTC))

    def run_all(self, caught: set[int] = frozenset(), scores: dict[int, float] | None = None) -> list[Claim]:   # type: ignore[assignment]
        """Judge whatever waits: entries in `caught`, and their replays, fall; the others keep their score unless `scores` says another."""
        done = []
        while (claim := self.world.claim()) is not None:
            view = self.world.view(claim.id)
            entry = view.replays or view.id
            said = CAUGHT if entry in caught else scored((scores or {}).get(entry, 100.0 + entry))
            assert self.world.finish(claim, **said)
            done.append(claim)
        return done

    def board(self) -> list[int]:
        """The submissions on the board, in order."""
        with self.world.database.read() as session:
            return [row.submission for row in boards.board(session, self.world.problem.name, "cpu", self.number).rows]

    def claim_by(self, runner: str) -> Claim | None:
        """The next run for a runner of that name."""
        with self.world.database.begin() as session:
            return claims.claim(session, "cpu", runner, 20, datetime.now(UTC))


def scored(score_us: float, **said: Any) -> dict[str, Any]:
    """What `World.finish` takes for an accepted run of that score, with its blocks."""
    blocks = [[score_us * (1 + 0.0001 * i)] * 3 for i in range(-1, 2)]
    return {"score_us": score_us, "score_ci_us": (score_us * 0.9999, score_us * 1.0001), "receipt": {"blocks_us": {"tiny": blocks}},
            "stages_s": {"time": 2.0, "total": 3.0}, **said}
