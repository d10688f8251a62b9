"""/contests: make, read, and move them through their life."""

from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import APIRouter
from sqlalchemy.orm import Session
from starlette.responses import Response

from kernelderby.core.errors import RequestError
from kernelderby.judge import contest_seeds
from kernelderby.leaderboard_web.api.contest_wire import (
    AskedBoard,
    ContestChange,
    ContestIn,
    ContestList,
    ContestName,
    ContestOut,
    PracticeOut,
    SeedsOut,
    contest_out,
    csv_contact,
)
from kernelderby.leaderboard_web.api.table import CSV, csv_response
from kernelderby.leaderboard_web.door import Door, Organizer, TheDoor, Viewer
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import audit, contests, registrations
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.registrations import RegistrationInfo

router = APIRouter(tags=["contests"])


@router.get("/contests", responses=responses(401))
def listing(door: TheDoor, viewer: Viewer) -> ContestList:
    """All contests, the one that starts last first."""
    now = datetime.now(UTC)
    with door.database.read() as session:
        return ContestList(contests=[shown(door, session, info, viewer, now) for info in contests.listing(session, now)])


@router.post("/contests", status_code=201, responses=responses(401, 404))
def create(door: TheDoor, person: Organizer, asked: ContestIn) -> ContestOut:
    """Make a contest. Its problems stay hidden until its start where they have no open practice board."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = contests.create(session, asked.name, asked.rules(), person.id, now)
        contests.set_problems(session, info.id, _places(session, asked.problems))
        audit.note(session, person.id, "contest create", contest=info.name, **asked.model_dump(mode="json", exclude={"name"}))
        return shown(door, session, info, person, now)


@router.get("/contests/{contest}", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, contest: ContestName) -> ContestOut:
    """A contest: its stage, times, rules and boards."""
    now = datetime.now(UTC)
    with door.database.read() as session:
        return shown(door, session, contests.get(session, contest, now), viewer, now)


@router.patch("/contests/{contest}", responses=responses(401, 404))
def change(door: TheDoor, person: Organizer, contest: ContestName, asked: ContestChange) -> ContestOut:
    """Change a contest: anything before its start; after it the freeze and the end, which may only move later."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = contests.get(session, contest, now)
        if asked.problems is not None:
            _check_not_started(info)
            contests.set_problems(session, info.id, _places(session, asked.problems))
        changed = contests.change(session, info.id, asked.onto(info.rules), now)
        audit.note(session, person.id, "contest change", contest=info.name, **asked.model_dump(mode="json", exclude_unset=True))
        return shown(door, session, changed, person, now)


@router.post("/contests/{contest}/freeze", responses=responses(401, 404))
def freeze(door: TheDoor, person: Organizer, contest: ContestName) -> ContestOut:
    """Freeze the boards now: contestants see them as they are until the reveal, entries are still taken."""
    return _move(door, person, contest, "freeze", contests.freeze)


@router.post("/contests/{contest}/end", responses=responses(401, 404))
def end(door: TheDoor, person: Organizer, contest: ContestName) -> ContestOut:
    """End it now: no more entries are taken; what was sent is still judged."""
    return _move(door, person, contest, "end", contests.end)


@router.post("/contests/{contest}/reveal", responses=responses(401, 404))
def reveal(door: TheDoor, person: Organizer, contest: ContestName) -> ContestOut:
    """Show everybody the final boards and the secret of the seeds, and the sources where the contest says so."""
    return _move(door, person, contest, "reveal", contests.reveal)


@router.post("/contests/{contest}/practice", responses=responses(401, 404))
def practice(door: TheDoor, person: Organizer, contest: ContestName) -> PracticeOut:
    """After the end, open the practice boards of its problems. The contest's own boards stay as they are."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = contests.get(session, contest, now)
        names = contests.open_practice(session, info.id, now)
        audit.note(session, person.id, "contest practice", contest=info.name, problems=names)
    return PracticeOut(contest=info.name, problems=names)


@router.get("/contests/{contest}/seeds", responses=responses(401, 404))
def seeds(door: TheDoor, viewer: Viewer, contest: ContestName) -> SeedsOut:
    """What its seeds are committed to, from the start on; once it is revealed, what they come from."""
    with door.database.read() as session:
        info = contests.get(session, contest, datetime.now(UTC))
    if not info.started:
        raise RequestError(f"The commitment to the seeds is published at the start, {info.rules.starts_at:%Y-%m-%d %H:%M} UTC.")
    made = contest_seeds.seeds_of(door.settings, info.id)
    revealed = info.revealed_at is not None
    return SeedsOut(contest=info.name, number=info.id, commitment=made.commitment, salt=made.salt.hex() if revealed else None,
                    secret=made.secret.hex() if revealed else None)


@router.get("/contests/{contest}/registrations.csv", response_class=Response, responses=CSV | responses(401, 404))
def export(door: TheDoor, person: Organizer, contest: ContestName) -> Response:
    """Who registered, with the contacts that a prize needs."""
    with door.database.begin() as session:
        info = contests.get(session, contest, datetime.now(UTC))
        found = registrations.listing(session, info.id)
        audit.note(session, person.id, "contest export", contest=info.name, rows=len(found))
    return csv_response([_row(place) for place in found])


def shown(door: Door, session: Session, info: ContestInfo, reader: PersonInfo | None, now: datetime) -> ContestOut:
    """A contest as a reader may see it."""
    commitment = contest_seeds.seeds_of(door.settings, info.id).commitment if info.started else None
    return contest_out(info, contests.visible_problems(session, info.id, reader, now), registered=contests.entrants(session, info.id),
                       commitment=commitment, address=door.settings.address(""))


def _move(door: Door, person: PersonInfo, contest: str, what: str, move: Callable[[Session, int, datetime], ContestInfo]) -> ContestOut:
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = move(session, contests.get(session, contest, now).id, now)
        audit.note(session, person.id, f"contest {what}", contest=info.name)
        return shown(door, session, info, person, now)


def _places(session: Session, asked: list[AskedBoard]) -> list[tuple[int, str]]:
    return [(contests.version_of(session, place.problem, place.version), place.device) for place in asked]


def _check_not_started(info: ContestInfo) -> None:
    if info.started:
        raise RequestError(f"The contest is {info.stage}: only its freeze and its end may be moved now.")


def _row(place: RegistrationInfo) -> dict[str, str | int]:
    return {"person": place.person, "person_id": place.person_id, "team": place.team_name or "", **csv_contact(place.contact),
            "registered_at": place.at.isoformat(), "withdrawn_at": place.withdrawn_at.isoformat() if place.withdrawn_at else ""}
