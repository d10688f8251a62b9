"""/problems: what there is to solve."""

from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.responses import Response

from kernelderby.core.errors import NotFound
from kernelderby.leaderboard_web.api.wire import ProblemLine, ProblemList, ProblemName, ProblemOut
from kernelderby.leaderboard_web.door import Door, TheDoor, Viewer
from kernelderby.leaderboard_web.folders import read_folder
from kernelderby.leaderboard_web.problem_json import TEXT, responses
from kernelderby.storage import visibility
from kernelderby.storage.problems import ProblemInfo

router = APIRouter(tags=["problems"])


@router.get("/problems", responses=responses(401))
def listing(door: TheDoor, viewer: Viewer) -> ProblemList:
    """All problems with their current version; those of a coming contest are for its organizers."""
    with door.database.read() as session:
        found = visibility.problem_listing(session, viewer, datetime.now(UTC))
    return ProblemList(problems=[_line(door, info) for info in found])


@router.get("/problems/{name}", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, name: ProblemName) -> ProblemOut:
    """A problem: statement, starters, inputs, outputs and public cases."""
    with door.database.read() as session:
        info = visibility.problem(session, name, viewer, datetime.now(UTC))
    folder = read_folder(door.artifacts, info)
    return ProblemOut(**_line(door, info).model_dump(), statement=folder.statement, starters=folder.starters, spec=folder.spec)


@router.get("/problems/{name}/starters/{file}", response_class=Response, responses=TEXT | responses(401, 404))
def starter(door: TheDoor, viewer: Viewer, name: ProblemName, file: str) -> Response:
    """A starter file to save and edit."""
    starters = show(door, viewer, name).starters
    if file not in starters:
        raise NotFound(f"{name} has no such starter. There are: {', '.join(starters) or 'none'}.")
    return Response(starters[file], media_type="text/plain; charset=utf-8",
                    headers={"Content-Disposition": f'attachment; filename="{file}"'})


def _line(door: Door, info: ProblemInfo) -> ProblemLine:
    return ProblemLine(name=info.name, title=info.title, family=info.family, version=info.version, gate_set=info.gate_set,
                       devices=list(info.devices), open=info.open, closes_at=info.closes_at,
                       url=door.settings.address(f"/problems/{info.name}"))
