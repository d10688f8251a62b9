"""/contests/{contest}/board: who is how fast in a contest."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator
from sqlalchemy.orm import Session
from starlette.responses import Response

from kernelderby.core.errors import NotFound
from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.api.boards import flat, said
from kernelderby.leaderboard_web.api.contest_wire import ContestBoard, ContestName
from kernelderby.leaderboard_web.api.table import CSV, csv_response
from kernelderby.leaderboard_web.door import TheDoor, Viewer
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import boards, contests
from kernelderby.storage.boards import BoardView
from kernelderby.storage.contests import ContestInfo, ContestProblemInfo
from kernelderby.storage.people import PersonInfo

router = APIRouter(tags=["contests"])
Problem = Annotated[Annotated[str, AfterValidator(one_line)] | None, Query(max_length=80, description="Default: the contest's first.")]
Device = Annotated[Annotated[str, AfterValidator(one_line)] | None, Query(max_length=40, description="Default: the problem's first.")]


@router.get("/contests/{contest}/board", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, contest: ContestName, problem: Problem = None, device: Device = None) -> ContestBoard:
    """A ranking in a contest: the best entry of each team, person and agent. From the freeze until the reveal it stands still for all
    but organizers."""
    with door.database.read() as session:
        info = contests.get(session, contest, datetime.now(UTC))
        board = board_for(session, info, place_for(session, info, viewer, problem, device), viewer)
    return ContestBoard(**said(board) | {"open": info.takes_entries}, contest=info.name, stage=info.stage, frozen_at=as_of(info, viewer))


@router.get("/contests/{contest}/board.csv", response_class=Response, responses=CSV | responses(401, 404))
def as_csv(door: TheDoor, viewer: Viewer, contest: ContestName, problem: Problem = None, device: Device = None) -> Response:
    """The same ranking as CSV."""
    return csv_response([flat(row) for row in show(door, viewer, contest, problem, device).rows])


def board_for(session: Session, info: ContestInfo, place: ContestProblemInfo, viewer: PersonInfo | None) -> BoardView:
    """A board as this reader sees it."""
    return boards.board(session, place.problem, place.device, info.id, as_of(info, viewer))


def as_of(info: ContestInfo, viewer: PersonInfo | None) -> datetime | None:
    """Until when this reader sees entries. None: all of them."""
    return None if viewer is not None and viewer.is_organizer else info.shown_until


def place_for(
    session: Session, info: ContestInfo, viewer: PersonInfo | None, problem: str | None, device: str | None
) -> ContestProblemInfo:
    """The board asked for, else the first that fits. Raises NotFound, before the start for all but organizers."""
    if not info.started and not (viewer is not None and viewer.is_organizer):
        raise NotFound(f"The boards of {info.name} open at its start, {info.rules.starts_at:%Y-%m-%d %H:%M} UTC.")
    if problem is not None and device is not None:
        return contests.place(session, info, problem, device)
    known = contests.problems_of(session, info.id)
    found = next((p for p in known if problem in (None, p.problem) and device in (None, p.device)), None)
    if found is None:
        raise NotFound(f"The contest {info.name!r} has no such board. It has: "
                       f"{', '.join(f'{p.problem}@{p.device}' for p in known) or 'none'}.")
    return found
