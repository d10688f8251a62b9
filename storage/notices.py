"""What organizers tell a contest's people, and what those ask."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound, QuotaSpent, RequestError
from kernelderby.core.text import clean_text
from kernelderby.storage.contest_models import Notice
from kernelderby.storage.models import Person

LONGEST = 2000        # characters of a notice, an appeal, and an answer to either
MOST_OPEN = 10        # questions of a person that wait for an answer in a contest
ANNOUNCEMENT, QUESTION = "announcement", "question"


@dataclass(frozen=True, kw_only=True)
class NoticeInfo:
    """An announcement, or a question with its answer."""

    id: int
    kind: str                     # announcement, question
    person_id: int
    person: str
    text: str
    at: datetime
    answer: str | None
    answered_at: datetime | None
    public: bool                  # everybody may read it


def announce(session: Session, contest: int, person: int, text: str, now: datetime) -> NoticeInfo:
    """Tell everybody. Raises RequestError for an empty text."""
    return _add(session, Notice(contest=contest, person=person, kind=ANNOUNCEMENT, text=tidied(text), at=now, public=True))


def ask(session: Session, contest: int, person: int, text: str, now: datetime) -> NoticeInfo:
    """Ask the organizers; nobody else reads it until they publish the answer. Raises RequestError, QuotaSpent."""
    waiting = session.scalar(select(func.count()).select_from(Notice).where(
        Notice.contest == contest, Notice.person == person, Notice.kind == QUESTION, Notice.answered_at.is_(None))) or 0
    if waiting >= MOST_OPEN:
        raise QuotaSpent(f"{waiting} of your questions wait for an answer; {MOST_OPEN} may. Ask again when some are answered.")
    return _add(session, Notice(contest=contest, person=person, kind=QUESTION, text=tidied(text), at=now, public=False))


def answer(session: Session, contest: int, notice_id: int, text: str, now: datetime) -> NoticeInfo:
    """Answer a question, or give another answer; its asker alone reads it. Raises NotFound, RequestError for an announcement."""
    row = session.scalar(select(Notice).where(Notice.contest == contest, Notice.id == notice_id).with_for_update())
    if row is None:
        raise NotFound(f"This contest has no notice {notice_id}.")
    if row.kind != QUESTION:
        raise RequestError(f"Notice {notice_id} is an announcement. Only questions are answered; announce something new instead.")
    row.answer, row.answered_at = tidied(text), now
    session.flush()
    return view(session, contest, notice_id)


def publish(session: Session, contest: int, notice_id: int) -> NoticeInfo:
    """Let everybody read a question and its answer. Raises NotFound, RequestError where there is none yet."""
    found = view(session, contest, notice_id)
    if found.kind == QUESTION and found.answer is None:
        raise RequestError(f"Question {notice_id} has no answer yet. Answer it first.")
    session.get_one(Notice, notice_id).public = True
    session.flush()
    return view(session, contest, notice_id)


def view(session: Session, contest: int, notice_id: int) -> NoticeInfo:
    """One notice of a contest. Raises NotFound."""
    found = session.execute(_rows().where(Notice.contest == contest, Notice.id == notice_id)).first()
    if found is None:
        raise NotFound(f"This contest has no notice {notice_id}.")
    return _info(*found)


def listing(session: Session, contest: int, reader: int | None = None, limit: int = 200) -> list[NoticeInfo]:
    """The newest that everybody may read, and the reader's own questions."""
    query = _rows().where(Notice.contest == contest, or_(Notice.public, Notice.person == reader))
    return [_info(*found) for found in session.execute(query.limit(limit))]


def all_of(session: Session, contest: int, limit: int = 200) -> list[NoticeInfo]:
    """The newest, those that only organizers may read too."""
    return [_info(*found) for found in session.execute(_rows().where(Notice.contest == contest).limit(limit))]


def tidied(text: str) -> str:
    """What someone says, at most LONGEST characters. Raises RequestError for nothing."""
    said = clean_text(text.strip(), LONGEST)
    if not said:
        raise RequestError("There is nothing in the text. Say something.")
    return said


def _add(session: Session, row: Notice) -> NoticeInfo:
    session.add(row)
    session.flush()
    return view(session, row.contest, row.id)


def _rows() -> Select[Notice, str]:
    return select(Notice, Person.name).join(Person, Person.id == Notice.person).order_by(Notice.id.desc())


def _info(row: Notice, person: str) -> NoticeInfo:
    return NoticeInfo(id=row.id, kind=row.kind, person_id=row.person, person=person, text=row.text, at=row.at, answer=row.answer,
                      answered_at=row.answered_at, public=row.public)
