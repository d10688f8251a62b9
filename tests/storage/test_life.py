"""A submission's life, whatever order things happen in: hypothesis plays people, workers and accidents."""

import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import func, select

from kernelderby.core.verdict import Outcome, State
from kernelderby.storage import claims, events, submissions
from kernelderby.storage.claims import Claim
from kernelderby.storage.database import connect, migrate
from kernelderby.storage.models import Attempt, Board, Submission, Turn
from tests.small_world import World


class Life(RuleBasedStateMachine):
    """What is believed stands in `sent`, `held` and `ended`; the database must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        database = connect("sqlite://")
        migrate(database)
        self.world = World.make(database, self.folder)
        self.sent: list[int] = []
        self.held: dict[int, Claim] = {}       # runs whose owner is right to think they are its own
        self.lost: list[Claim] = []            # runs whose owner is not
        self.ended: dict[int, int] = {}        # verdicts each submission had

    def teardown(self) -> None:
        self.world.database.close()
        shutil.rmtree(self.folder)

    @rule(name=st.sampled_from(["ada", "bob"]))
    def send(self, name: str) -> None:
        self.sent.append(self.world.send(name, source=b"x"))

    @rule()
    def claim(self) -> None:
        waits = self._count(Submission.state == State.QUEUED)
        claim = self.world.claim()
        assert (claim is not None) == (waits > 0)
        if claim is not None:
            assert claim.id not in self.held
            self.held[claim.id] = claim

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        claim = self._pick(data)
        with self.world.database.begin() as session:
            assert claims.add_events(session, claim.id, claim.attempt, [("state", {"state": "running"})]) is not None

    @precondition(lambda self: self.held)
    @rule(data=st.data(), accepted=st.booleans())
    def finish(self, data: st.DataObject, accepted: bool) -> None:
        claim = self._take(data)
        said = {"score_us": 5.0, "score_ci_us": (4.0, 6.0)} if accepted else {"outcome": Outcome.WRONG_VALUES}
        assert self.world.finish(claim, **said)
        self._end(claim.id)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), box_alive=st.booleans())
    def lose(self, data: st.DataObject, box_alive: bool) -> None:
        claim = self._take(data)
        with self.world.database.begin() as session:
            assert claims.lose(session, claim.id, claim.attempt, box_alive, "It broke.")
        self._end_if_done(claim.id)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        claim = self._take(data)
        with self.world.database.begin() as session:
            assert claims.release(session, claim.id, claim.attempt, "Stopped.")
        self._end_if_done(claim.id)

    @precondition(lambda self: self.held)
    @rule()
    def every_lease_runs_out(self) -> None:
        with self.world.database.begin() as session:
            lost = claims.expire(session, datetime.now(UTC) + timedelta(minutes=1))
        assert {i for i, _ in lost} == set(self.held)
        self.lost += self.held.values()
        self.held = {}
        for submission, _ in lost:
            self._end_if_done(submission)

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def a_lost_owner_writes(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.lost))
        with self.world.database.begin() as session:
            assert claims.add_events(session, claim.id, claim.attempt, [("log", {"text": "late"})]) is None
            assert not claims.finish(session, claim.id, claim.attempt, self.world.verdict())
            assert not claims.lose(session, claim.id, claim.attempt, True, "late")

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        submission = data.draw(st.sampled_from(self.sent))
        waited = self._count(Submission.id == submission, Submission.state == State.QUEUED)
        with self.world.database.begin() as session:
            submissions.cancel(session, submission)
        if waited:
            self._end(submission)

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def rejudge(self, data: st.DataObject) -> None:
        with self.world.database.begin() as session:
            submissions.rejudge(session, data.draw(st.sampled_from(sorted(self.ended))))

    @invariant()
    def events_have_no_gap_and_one_verdict_for_each_end(self) -> None:
        with self.world.database.read() as session:
            for submission in self.sent:
                found = events.after(session, submission, 0)
                assert [e.seq for e in found] == list(range(1, len(found) + 1))
                assert [e.kind for e in found].count("verdict") == self.ended.get(submission, 0)

    @invariant()
    def what_waits_is_counted_and_what_is_done_has_an_outcome(self) -> None:
        with self.world.database.read() as session:
            waiting = self._count(Submission.state == State.QUEUED)
            assert (session.scalar(select(func.sum(Turn.queued))) or 0) == waiting
            for row in session.scalars(select(Submission)):
                assert (row.state == State.DONE) == (row.outcome is not None) == (submissions.view(session, row.id).verdict is not None)
                assert (row.lease_until is not None) == (row.id in self.held)
            verdicts = session.scalar(select(func.count()).select_from(Attempt).where(Attempt.outcome.is_not(None)))
            assert verdicts == sum(self.ended.values())

    @invariant()
    def the_leader_is_the_first_of_the_fastest(self) -> None:
        with self.world.database.read() as session:
            fastest = session.scalar(select(Submission.id).where(Submission.competes).order_by(Submission.score_us, Submission.id))
            assert session.scalar(select(Board.leader)) == fastest

    def _pick(self, data: st.DataObject) -> Claim:
        return self.held[data.draw(st.sampled_from(sorted(self.held)))]

    def _take(self, data: st.DataObject) -> Claim:
        claim = self._pick(data)
        self.lost.append(self.held.pop(claim.id))
        return claim

    def _end(self, submission: int) -> None:
        self.ended[submission] = self.ended.get(submission, 0) + 1

    def _end_if_done(self, submission: int) -> None:
        if self._count(Submission.id == submission, Submission.state == State.DONE):
            self._end(submission)

    def _count(self, *conditions: object) -> int:
        with self.world.database.read() as session:
            return session.scalar(select(func.count()).select_from(Submission).where(*conditions)) or 0   # type: ignore[arg-type]


Life.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
TestLife = Life.TestCase
