"""Appeals: what someone holds against an entry's fall, and what the organizers say. Granted, the entry is judged again."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from kernelderby.core.contest import Stage
from kernelderby.core.errors import NotAllowed, NotFound, RequestError
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import contests, submissions
from kernelderby.storage.contest_models import Appeal, Contest
from kernelderby.storage.models import Person, Submission
from kernelderby.storage.notices import tidied


@dataclass(frozen=True, kw_only=True)
class AppealInfo:
    """An appeal."""

    id: int
    contest: str
    submission: int
    person_id: int
    person: str
    text: str
    at: datetime
    answer: str | None
    granted: bool | None          # None: not answered yet
    answered_at: datetime | None
    device: str                   # of the submission
    outcome: str | None           # of the submission now; None: it is being judged again


def appeal(session: Session, submission_id: int, person: int, said: str, now: datetime) -> AppealInfo:
    """Hold against an entry of one's own having fallen. Raises NotFound, NotAllowed, or RequestError where there is nothing to appeal."""
    entry = session.scalar(select(Submission).where(Submission.id == submission_id, Submission.replays.is_(None)).with_for_update())
    if entry is None:
        raise NotFound(f"There is no submission {submission_id}.")
    if entry.person != person:
        raise NotAllowed("Only whoever sent a submission may appeal for it.")
    _check_appealable(session, entry, now)
    row = Appeal(submission=entry.id, person=person, text=tidied(said), at=now)
    session.add(row)
    session.flush()
    return view(session, row.id)


def answer(session: Session, appeal_id: int, said: str, granted: bool, now: datetime) -> AppealInfo:
    """Answer an appeal, once. Raises NotFound, RequestError."""
    row = session.scalar(select(Appeal).where(Appeal.id == appeal_id).with_for_update().execution_options(populate_existing=True))
    if row is None:
        raise NotFound(f"There is no appeal {appeal_id}.")
    if row.answered_at is not None:
        raise RequestError(f"Appeal {appeal_id} was {'granted' if row.granted else 'denied'} on {row.answered_at:%Y-%m-%d at %H:%M} UTC.")
    row.answer, row.granted, row.answered_at = tidied(said), granted, now
    session.flush()
    return view(session, appeal_id)


def grant(session: Session, appeal_id: int, said: str, now: datetime) -> AppealInfo:
    """Have the entry judged again, by the gates that its contest has now. Raises NotFound, RequestError after the reveal."""
    found = view(session, appeal_id)
    if contests.get(session, found.contest, now).stage is Stage.REVEALED:
        raise RequestError("The contest is revealed: its order is final, so this appeal can only be denied.")
    answer(session, appeal_id, said, True, now)
    submissions.rejudge(session, found.submission)
    return view(session, appeal_id)


def view(session: Session, appeal_id: int) -> AppealInfo:
    """One appeal. Raises NotFound."""
    found = session.execute(_rows().where(Appeal.id == appeal_id)).first()
    if found is None:
        raise NotFound(f"There is no appeal {appeal_id}.")
    return _info(*found)


def listing(session: Session, contest_id: int) -> list[AppealInfo]:
    """All appeals of a contest, newest first."""
    return [_info(*found) for found in session.execute(_rows().where(Submission.contest == contest_id))]


def of_person(session: Session, contest_id: int, person: int) -> list[AppealInfo]:
    """Someone's own in a contest, newest first."""
    return [_info(*found) for found in session.execute(_rows().where(Submission.contest == contest_id, Appeal.person == person))]


def _check_appealable(session: Session, entry: Submission, now: datetime) -> None:
    if entry.contest is None or entry.mode != Mode.RANKED:
        raise RequestError("An appeal is for a ranked entry of a contest. On the practice boards send the kernel again.")
    if contests.by_id(session, entry.contest, now).stage is Stage.REVEALED:
        raise RequestError("The contest is revealed: its order is final.")
    if entry.state != State.DONE:
        raise RequestError(f"Submission {entry.id} is still to be judged. Wait for its verdict.")
    if entry.outcome == Outcome.ACCEPTED:
        raise RequestError(f"Submission {entry.id} is accepted: there is nothing to appeal.")
    last = session.scalar(select(Appeal).where(Appeal.submission == entry.id).order_by(Appeal.id.desc()).limit(1))
    if last is None:
        return
    if last.answered_at is None:
        raise RequestError(f"Your appeal {last.id} for submission {entry.id} waits for its answer.")
    judged_since = entry.finished_at is not None and entry.finished_at > last.answered_at
    if not judged_since:
        raise RequestError(f"Your appeal {last.id} for submission {entry.id} was answered: {last.answer}")


def open_count(session: Session, contest_id: int) -> int:
    """How many wait for an answer."""
    return session.scalar(select(func.count()).select_from(Appeal).join(Submission, Submission.id == Appeal.submission).where(
        Submission.contest == contest_id, Appeal.answered_at.is_(None))) or 0


def _rows() -> Select[Appeal, Submission, str, str]:
    return (select(Appeal, Submission, Person.name, Contest.name).join(Submission, Submission.id == Appeal.submission)
            .join(Contest, Contest.id == Submission.contest).join(Person, Person.id == Appeal.person).order_by(Appeal.id.desc()))


def _info(row: Appeal, entry: Submission, person: str, contest: str) -> AppealInfo:
    return AppealInfo(id=row.id, contest=contest, submission=row.submission, person_id=row.person, person=person, text=row.text, at=row.at,
                      answer=row.answer, granted=row.granted, answered_at=row.answered_at, device=entry.device, outcome=entry.outcome)
