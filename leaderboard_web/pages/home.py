"""The first page: problems, their leaders, the latest verdicts."""

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import RedirectResponse, Response

from kernelderby.leaderboard_web.door import TheDoor, Viewer
from kernelderby.storage import boards, visibility
from kernelderby.storage.boards import BoardRow, BoardView
from kernelderby.storage.problems import ProblemInfo

router = APIRouter()
_LATEST = 10


@dataclass(frozen=True, kw_only=True)
class Leader:
    """A line of the table: a board with its first row, and the reader's own."""

    board: BoardView
    first: BoardRow | None
    own: BoardRow | None


@router.get("/")
def show(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """All problems with the leader on each device class."""
    with door.database.read() as session:
        listing = visibility.problem_listing(session, viewer, datetime.now(UTC))
        leaders = [line for info in listing for line in _leaders(session, info, viewer.id if viewer else None)]
        latest = visibility.recent(session, viewer, datetime.now(UTC), limit=_LATEST)
    return door.pages.render(request, "home.html", problems=listing, leaders=leaders, latest=latest)


@router.get("/problems")
def problems_page() -> Response:
    """The same page under the name one would guess."""
    return RedirectResponse("/", 307)


def _leaders(session: Session, info: ProblemInfo, person: int | None) -> list[Leader]:
    """The boards that have entries; of a problem that has none, its first."""
    lines = [_leader(boards.board(session, info.name, device), person) for device in info.devices]
    return [line for line in lines if line.first] or lines[:1]


def _leader(board: BoardView, person: int | None) -> Leader:
    return Leader(board=board, first=board.rows[0] if board.rows else None,
                  own=next((row for row in board.rows if row.person_id == person), None))
