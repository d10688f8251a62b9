"""Submissions as doors see them; cancel and rejudge."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from kernelderby.core.errors import NotFound
from kernelderby.core.submission import source_sha
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import claims, events, submissions, turns
from kernelderby.storage.models import Attempt, Turn
from kernelderby.storage.submissions import SubmissionView
from tests.small_world import SOURCE, World


def cancel(world: World, submission: int) -> SubmissionView:
    with world.database.begin() as session:
        return submissions.cancel(session, submission)


def rejudge(world: World, submission: int) -> SubmissionView:
    with world.database.begin() as session:
        return submissions.rejudge(session, submission)


def test_a_view_says_all_that_a_door_shows(world: World) -> None:
    view = world.view(world.send("ada"))
    assert (view.person, view.problem, view.problem_title, view.version) == ("ada", "doubling", "Doubling", world.problem.version)
    assert (view.state, view.position, view.attempt, view.verdict, view.outcome) == (State.QUEUED, 1, 0, None, None)
    assert view.source_sha == source_sha(SOURCE)
    open_verdict = view.as_verdict()
    assert (open_verdict.outcome, open_verdict.state, open_verdict.submission) == (None, State.QUEUED, view.id)


def test_what_is_not_there_is_not_found(world: World) -> None:
    with world.database.begin() as session:
        for ask in (submissions.view, submissions.cancel, submissions.rejudge):
            with pytest.raises(NotFound, match="no submission 99"):
                ask(session, 99)


def test_the_newest_are_listed_first_by_person_problem_and_page(world: World) -> None:
    sent = [world.send("ada"), world.send("bob"), world.send("ada")]
    with world.database.read() as session:
        assert [v.id for v in submissions.recent(session)] == sent[::-1]
        assert [v.id for v in submissions.recent(session, person=world.person("ada").id)] == [sent[2], sent[0]]
        assert [v.id for v in submissions.recent(session, problem="doubling", limit=2)] == sent[:0:-1]
        assert [v.id for v in submissions.recent(session, before=sent[1])] == [sent[0]]
        assert submissions.recent(session, problem="nothing") == []


def test_a_waiting_submission_is_cancelled_at_once(world: World) -> None:
    submission = world.send()
    view = cancel(world, submission)
    assert (view.state, view.outcome) == (State.DONE, Outcome.CANCELLED)
    assert view.verdict is not None and view.verdict.outcome is Outcome.CANCELLED
    assert world.claim() is None
    assert cancel(world, submission) == view
    with world.database.read() as session:
        assert [e.kind for e in events.after(session, submission, 0)] == ["state", "state", "verdict"]


def test_a_running_submission_is_asked_to_end(world: World) -> None:
    submission = world.send()
    claim = world.take()
    view = cancel(world, submission)
    assert (view.state, view.cancel_requested, view.outcome) == (State.BUILDING, True, None)
    with world.database.begin() as session:
        assert claims.standing(session, claim.id, claim.attempt).cancelled
        assert not claims.renew(session, claim.id, claim.attempt, datetime.now(UTC) + timedelta(seconds=9))
    assert world.finish(claim, outcome=Outcome.CANCELLED)
    assert world.view(submission).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("end", [claims.lose, claims.release], ids=["lost", "released"])
def test_a_cancelled_run_is_not_queued_again(world: World, end: object) -> None:
    submission = world.send()
    claim = world.take()
    cancel(world, submission)
    with world.database.begin() as session:
        if end is claims.lose:
            claims.lose(session, claim.id, claim.attempt, False, "It broke.")
        else:
            claims.release(session, claim.id, claim.attempt, "Stopped.")
    assert world.view(submission).outcome is Outcome.CANCELLED


def test_a_run_that_nobody_holds_any_more_is_cancelled_at_once(world: World) -> None:
    submission = world.send()
    claim = world.take(lease_s=0.0)
    assert cancel(world, submission).outcome is Outcome.CANCELLED
    assert not world.finish(claim)


def test_a_finished_submission_is_judged_again_as_a_new_attempt(world: World) -> None:
    submission = world.judged("ada", 10.0)
    view = rejudge(world, submission)
    assert (view.state, view.outcome, view.verdict, view.position) == (State.QUEUED, None, None, 1)
    assert rejudge(world, submission) == view
    claim = world.take()
    assert (claim.id, claim.attempt) == (submission, 2)
    world.finish(claim, outcome=Outcome.WRONG_VALUES)
    assert world.view(submission).outcome is Outcome.WRONG_VALUES
    with world.database.read() as session:
        assert list(session.scalars(select(Attempt.outcome).order_by(Attempt.attempt))) == ["accepted", "wrong_values"]


def test_losses_before_a_rejudge_are_forgiven(world: World) -> None:
    submission = world.send()
    for _ in range(3):
        claim = world.take()
        with world.database.begin() as session:
            claims.lose(session, claim.id, claim.attempt, False, "It broke.")
    assert world.view(submission).outcome is Outcome.JUDGE_ERROR
    rejudge(world, submission)
    claim = world.take()
    with world.database.begin() as session:
        claims.lose(session, claim.id, claim.attempt, False, "It broke.")
    assert world.view(submission).state is State.QUEUED


def test_what_a_person_sent_and_has_waiting_is_counted(world: World) -> None:
    world.send("ada", Mode.TEST)
    world.send("ada", Mode.RANKED, device="h100")
    world.send("bob", Mode.TEST)
    ada, past = world.person("ada").id, datetime.now(UTC) - timedelta(hours=1)
    with world.database.read() as session:
        assert len(submissions.sent_since(session, ada, None, Mode.TEST, past)) == 1
        assert submissions.sent_since(session, ada, None, Mode.TEST, datetime.now(UTC)) == []
        assert submissions.count_queued(session, ada) == 2


def test_turns_count_what_waits_and_what_was_used(world: World) -> None:
    world.send("ada")
    cancelled = world.send("ada")
    world.finish(world.take(), stages_s={"total": 2.5})
    cancel(world, cancelled)
    ada = world.person("ada").id
    with world.database.begin() as session:
        assert session.scalar(select(func.sum(Turn.queued))) == 0
        assert session.scalar(select(Turn.gpu_seconds)) == 2.5
        turns.add_seconds(session, ada, "cpu", 1.0)
        assert session.scalar(select(Turn.gpu_seconds)) == 3.5
