"""What a submission's steps tell."""

from kernelderby.storage import claims, events, submissions
from tests.small_world import World


def test_why_it_was_judged_again_is_told_and_no_other_return_to_the_queue(world: World) -> None:
    submission = world.judged("ada", 10.0)
    assert _told(world, submission) is None

    with world.database.begin() as session:
        submissions.rejudge(session, submission)
    claim = world.take()
    with world.database.begin() as session:
        claims.release(session, submission, claim.attempt, "The worker stopped.")

    assert _told(world, submission) == "An organizer asked for it."


def _told(world: World, submission: int) -> str | None:
    with world.database.read() as session:
        return events.judged_again(session, submission)
