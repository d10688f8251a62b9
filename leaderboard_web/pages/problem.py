"""A problem: statement, cases, starters, board."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kernelderby.core.devices import device as device_class
from kernelderby.core.problem import ProblemFile, public_cases
from kernelderby.leaderboard_web.api.wire import ProblemName
from kernelderby.leaderboard_web.door import TheDoor, Viewer
from kernelderby.leaderboard_web.folders import read_folder
from kernelderby.leaderboard_web.present.charts import Ruler, ruler, whisker
from kernelderby.leaderboard_web.present.numbers import unit_for
from kernelderby.storage import boards, visibility
from kernelderby.storage.boards import BoardRow, BoardView

router = APIRouter()


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the board and how it is drawn."""

    row: BoardRow
    whisker: tuple[float, float]
    tied_above: bool            # the clock does not tell it from the row above


@router.get("/problems/{name}")
def show(request: Request, door: TheDoor, viewer: Viewer, name: ProblemName,
         device: Annotated[str | None, Query(max_length=40)] = None) -> Response:
    """The page of a problem, with the board of one device class."""
    with door.database.read() as session:
        info = visibility.problem(session, name, viewer, datetime.now(UTC))
        chosen = device_class(device) if device else device_class(info.devices[0] if info.devices else "cpu")
        board = boards.board(session, name, chosen.name)
    folder = read_folder(door.artifacts, info)
    cases = public_cases(folder.spec, chosen)
    unit = unit_for(row.score_us for row in board.rows)
    return door.pages.render(
        request, "problem.html", info=info, folder=folder, spec=folder.spec, device=chosen, board=board, unit=unit,
        table=board_lines(board), ruler=_field(board, viewer.id if viewer else None), cases=cases,
        hidden=folder.has_hidden(chosen),
        replaced=_uses_bfloat16(folder.spec) and {c.dtype for c in cases} != {"bfloat16"})


def board_lines(board: BoardView) -> list[Line]:
    """The rows of a board, each with its whisker and whether it is tied with the one above."""
    rows = board.rows
    return [Line(row=row, whisker=whisker(row.rank, len(rows)), tied_above=i > 0 and rows[i - 1].rank[1] >= i + 1 and row.rank[0] <= i)
            for i, row in enumerate(rows)]


def _uses_bfloat16(spec: ProblemFile) -> bool:
    return "bfloat16" in [i.dtype for i in spec.inputs.values() if i.shape is not None] + [o.dtype for o in spec.outputs.values()]


def _field(board: BoardView, person: int | None) -> Ruler | None:
    """The record, the reader's own entry and the baseline on a ruler, above short ticks for all others."""
    if not board.rows:
        return None
    record = board.rows[0]
    own = next((row for row in board.rows if row.person_id == person), None)
    named = [("you, record" if own is record else "record", record.score_us)]
    if own and own is not record:
        named.append(("you", own.score_us))
    if record.speedup:
        named.append(("baseline", record.score_us * record.speedup))
    shown = {record.submission, own.submission if own else 0}
    return ruler(named, [row.score_us for row in board.rows if row.submission not in shown])
