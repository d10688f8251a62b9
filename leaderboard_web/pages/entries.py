"""My entries."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import TheDoor, Viewer, require_source
from kernelderby.leaderboard_web.pages.login import to_login
from kernelderby.leaderboard_web.present.numbers import unit_for
from kernelderby.storage import submissions

router = APIRouter()
_A_PAGE = 50


@router.get("/entries")
def show(request: Request, door: TheDoor, viewer: Viewer, before: Annotated[int | None, Query(ge=1, le=BIG)] = None) -> Response:
    """The reader's submissions, newest first."""
    if viewer is None:
        return to_login(request)
    require_source(viewer, viewer.id)
    with door.database.read() as session:
        found = submissions.recent(session, person=viewer.id, limit=_A_PAGE, before=before)
    return door.pages.render(request, "entries.html", entries=found, unit=unit_for(v.as_verdict().score_us for v in found),
                             before=before, next=found[-1].id if len(found) == _A_PAGE else None)
