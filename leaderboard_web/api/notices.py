"""/contests/{contest}/notices: announcements, questions, answers."""

from datetime import UTC, datetime

from fastapi import APIRouter
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotAllowed
from kernelderby.leaderboard_web.api.contest_wire import AnswerIn, ContestName, NoticeId, NoticeIn, NoticeList, NoticeOut, notice_out
from kernelderby.leaderboard_web.door import LoggedIn, Organizer, TheDoor, Viewer
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import audit, contests, notices, registrations
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.notices import ANNOUNCEMENT, NoticeInfo
from kernelderby.storage.people import PersonInfo

router = APIRouter(tags=["contests"])


@router.get("/contests/{contest}/notices", responses=responses(401, 404))
def listing(door: TheDoor, viewer: Viewer, contest: ContestName) -> NoticeList:
    """Announcements and published answers, and your own questions; organizers read every question. The newest 200."""
    with door.database.read() as session:
        found = notices_for(session, contests.get(session, contest, datetime.now(UTC)), viewer)
    return NoticeList(notices=[told(notice, viewer) for notice in found])


@router.post("/contests/{contest}/notices", status_code=201, responses=responses(401, 404, 429))
def post(door: TheDoor, person: LoggedIn, contest: ContestName, asked: NoticeIn) -> NoticeOut:
    """Ask the organizers, as someone who is registered; or announce something, as an organizer."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = contests.get(session, contest, now)
        if asked.kind == ANNOUNCEMENT:
            return told(_announced(session, info, person, asked.text, now), person)
        _check_may_ask(session, info, person)
        return told(notices.ask(session, info.id, person.id, asked.text, now), person)


@router.post("/contests/{contest}/notices/{notice}/answer", responses=responses(401, 404))
def answer(door: TheDoor, person: Organizer, contest: ContestName, notice: NoticeId, asked: AnswerIn) -> NoticeOut:
    """Answer a question; with `public` everybody reads it and its answer, but not who asked."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = contests.get(session, contest, now)
        found = notices.answer(session, info.id, notice, asked.text, now)
        if asked.public:
            found = notices.publish(session, info.id, notice)
        audit.note(session, person.id, "contest answer", contest=info.name, notice=notice, public=asked.public)
    return told(found, person)


def notices_for(session: Session, info: ContestInfo, viewer: PersonInfo | None) -> list[NoticeInfo]:
    """What this reader may read."""
    if viewer is not None and viewer.is_organizer:
        return notices.all_of(session, info.id)
    reads = viewer is not None and "read" in viewer.scopes
    return notices.listing(session, info.id, viewer.id if viewer is not None and reads else None)


def told(notice: NoticeInfo, viewer: PersonInfo | None) -> NoticeOut:
    """A notice as this reader gets it: who asked is the asker's and the organizers' to know."""
    return notice_out(notice, names_asker=viewer is not None and (viewer.is_organizer or viewer.id == notice.person_id))


def _announced(session: Session, info: ContestInfo, person: PersonInfo, text: str, now: datetime) -> NoticeInfo:
    if not person.is_organizer:
        raise NotAllowed("Only an organizer may announce something. Send it as a question.")
    made = notices.announce(session, info.id, person.id, text, now)
    audit.note(session, person.id, "contest announce", contest=info.name, notice=made.id)
    return made


def _check_may_ask(session: Session, info: ContestInfo, person: PersonInfo) -> None:
    if "submit" not in person.scopes:
        raise NotAllowed("This token has not the scope `submit`, which it takes to ask. Use one that has it.")
    if not person.is_organizer and registrations.registration(session, info.id, person.id) is None:
        raise NotAllowed(f"Questions are for who is registered: `derby contest register {info.name}`.")
