"""/problems/{name}/board: who is how fast."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from kernelderby.core import devices
from kernelderby.leaderboard_web.api.table import CSV, csv_response
from kernelderby.leaderboard_web.api.wire import BoardOut, BoardRow, DeviceName, ProblemName
from kernelderby.leaderboard_web.door import TheDoor, Viewer
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import boards, visibility
from kernelderby.storage.boards import BoardView

router = APIRouter(tags=["boards"])


@router.get("/problems/{name}/board", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, name: ProblemName, device: DeviceName = "cpu") -> BoardOut:
    """The ranking on a device class: the best entry of each person and agent, fastest first."""
    known = devices.device(device).name
    with door.database.read() as session:
        board = boards.board(session, visibility.problem(session, name, viewer, datetime.now(UTC)).name, known)
    return BoardOut(**said(board))


def said(board: BoardView) -> dict[str, Any]:
    """A board's fields on the wire."""
    rows = [BoardRow(rank=r.rank, submission=r.submission, person=r.person, agent=r.agent, team=r.team, score_us=r.score_us,
                     score_ci_us=r.ci_us, speedup=r.speedup, language=r.language, at=r.at) for r in board.rows]
    return {"problem": board.problem, "version": board.version, "gate_set": board.gate_set, "device": board.device, "open": board.open,
            "closes_at": board.closes_at, "people": board.people, "submissions": board.submissions, "leader": board.leader, "rows": rows}


@router.get("/problems/{name}/board.csv", response_class=Response, responses=CSV | responses(401, 404))
def as_csv(door: TheDoor, viewer: Viewer, name: ProblemName, device: DeviceName = "cpu") -> Response:
    """The same ranking as CSV."""
    return csv_response([flat(row) for row in show(door, viewer, name, device).rows])


def flat(line: BoardRow) -> dict[str, Any]:
    """A row for a table."""
    row = line.model_dump(mode="json")
    (first, last), (low, high) = row.pop("rank"), row.pop("score_ci_us")
    return {"rank_first": first, "rank_last": last, **row, "score_low_us": low, "score_high_us": high}
