"""Contests: the list, and the page of one."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from kernelderby.core.contest import Stage
from kernelderby.leaderboard_web.api.contest_boards import as_of, board_for, place_for
from kernelderby.leaderboard_web.api.contest_wire import ContestName
from kernelderby.leaderboard_web.api.contests import shown
from kernelderby.leaderboard_web.api.notices import notices_for, told
from kernelderby.leaderboard_web.door import TheDoor, Viewer
from kernelderby.leaderboard_web.pages.problem import board_lines
from kernelderby.leaderboard_web.present.numbers import unit_for
from kernelderby.storage import contests, registrations
from kernelderby.storage.boards import BoardView
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.people import PersonInfo

router = APIRouter()


@router.get("/contests")
def listing(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """All contests with their stage and times."""
    now = datetime.now(UTC)
    with door.database.read() as session:
        found = [shown(door, session, info, viewer, now) for info in contests.listing(session, now)]
    return door.pages.render(request, "contests.html", contests=found)


@router.get("/contests/{contest}")
def show(request: Request, door: TheDoor, viewer: Viewer, contest: ContestName,
         board: Annotated[str | None, Query(max_length=130, description="PROBLEM@DEVICE")] = None) -> Response:
    """A contest: where it stands, what counts, one of its boards, what the organizers say."""
    now = datetime.now(UTC)
    with door.database.read() as session:
        info = contests.get(session, contest, now)
        found = shown(door, session, info, viewer, now)
        chosen = _board(session, info, viewer, board)
        notices = [told(notice, viewer) for notice in notices_for(session, info, viewer)]
        place = registrations.registration(session, info.id, viewer.id) if viewer else None
    return door.pages.render(
        request, "contest.html", contest=found, board=chosen, table=board_lines(chosen) if chosen else [], notices=notices, place=place,
        unit=unit_for(row.score_us for row in chosen.rows) if chosen else None, frozen_at=as_of(info, viewer), next=_next(info),
        takes_entries=info.takes_entries, is_over=info.stage in (Stage.ENDED, Stage.REVEALED))


def _board(session: Session, info: ContestInfo, viewer: PersonInfo | None, asked: str | None) -> BoardView | None:
    """The board asked for, else the first. None: its boards are not told yet, or it has none."""
    may_look = info.started or (viewer is not None and viewer.is_organizer)
    if not may_look or not contests.problems_of(session, info.id):
        return None
    problem, _, device = (asked or "").rpartition("@")
    return board_for(session, info, place_for(session, info, viewer, problem or None, device or None), viewer)


def _next(info: ContestInfo) -> tuple[str, datetime] | None:
    """What the clock brings next, and when. None: nothing any more."""
    rules = info.rules
    if info.stage is Stage.COMING:
        return "starts", rules.starts_at
    if info.stage is Stage.OPEN and rules.freezes_at is not None:
        return "boards freeze", rules.freezes_at
    return ("ends", rules.ends_at) if info.takes_entries else None
