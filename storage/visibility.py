"""What a reader may not see yet: the problems of a coming contest, what others sent after a freeze, and organizers' own runs."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, and_, false, or_, select
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound
from kernelderby.storage import contests, problems, submissions
from kernelderby.storage.contest_models import Contest, Member
from kernelderby.storage.models import ProblemVersion, Submission
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.problems import ProblemInfo
from kernelderby.storage.submissions import SubmissionView


def problem_listing(session: Session, reader: PersonInfo | None, now: datetime) -> list[ProblemInfo]:
    """The problems that a reader may know of."""
    hidden = _hidden(session, reader, now)
    return [info for info in problems.listing(session) if info.id not in hidden]


def problem(session: Session, name: str, reader: PersonInfo | None, now: datetime) -> ProblemInfo:
    """A problem by name. Raises NotFound, and for one that the reader may not know of yet with the same words."""
    known = problem_listing(session, reader, now)
    found = next((info for info in known if info.name == name), None)
    if found is None:
        raise problems.unknown(name, [info.name for info in known])
    return found


def submission(session: Session, number: int, reader: PersonInfo | None, now: datetime) -> SubmissionView:
    """A submission. Raises NotFound, and for one that the reader may not see yet with the same words."""
    query = (select(Submission.id).join(ProblemVersion, ProblemVersion.id == Submission.version)
             .where(Submission.id == number, unseen(session, reader, now)))
    if session.scalar(query) is not None:
        raise NotFound(f"There is no submission {number}.")
    return submissions.view(session, number)


def recent(
    session: Session, reader: PersonInfo | None, now: datetime, *, person: int | None = None, problem: str | None = None,
    limit: int = 50, before: int | None = None
) -> Sequence[SubmissionView]:
    """`submissions.recent`, without what the reader may not see."""
    return submissions.recent(session, person=person, problem=problem, limit=limit, before=before, leave_out=unseen(session, reader, now))


def unseen(session: Session, reader: PersonInfo | None, now: datetime) -> ColumnElement[bool]:
    """Holds for rows of `submissions` joined with their versions that the reader may not see."""
    if reader is not None and reader.is_organizer:
        return false()
    kept = [Submission.replays.is_not(None), _sealed(now), ProblemVersion.problem.in_(_hidden(session, reader, now))]
    if reader is None:
        return or_(*kept)
    return and_(or_(*kept), or_(Submission.replays.is_not(None), and_(Submission.person != reader.id, ~_of_their_team(reader.id))))


def _sealed(now: datetime) -> ColumnElement[bool]:
    """It came after its contest's freeze, and that is not revealed yet."""
    frozen = select(Contest.id).where(Contest.id == Submission.contest, Contest.revealed_at.is_(None), Contest.freezes_at <= now,
                                      Submission.created_at >= Contest.freezes_at)
    return frozen.correlate(Submission).exists()


def _of_their_team(person: int) -> ColumnElement[bool]:
    teams = select(Member.team).where(Member.person == person, Member.left_at.is_(None))
    return and_(Submission.team.is_not(None), Submission.team.in_(teams))


def _hidden(session: Session, reader: PersonInfo | None, now: datetime) -> set[int]:
    return set() if reader is not None and reader.is_organizer else contests.hidden_problems(session, now)
