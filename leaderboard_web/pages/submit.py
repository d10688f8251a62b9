"""The submit form."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from kernelderby.core.devices import DEVICES
from kernelderby.core.errors import RequestError
from kernelderby.core.verdict import Mode
from kernelderby.judge import intake
from kernelderby.judge.intake import Ticket
from kernelderby.leaderboard_web.api.upload import fields_read, read_form
from kernelderby.leaderboard_web.api.wire import request_of
from kernelderby.leaderboard_web.door import Door, TheDoor, Viewer, submitter_of
from kernelderby.leaderboard_web.pages.login import to_login
from kernelderby.storage import contests, visibility
from kernelderby.storage.people import PersonInfo

router = APIRouter()


@router.get("/submit")
def show(request: Request, door: TheDoor, viewer: Viewer, problem: Annotated[str, Query(max_length=80)] = "",
         device: Annotated[str, Query(max_length=40)] = "", contest: Annotated[str, Query(max_length=80)] = "",
         mode: Mode = Mode.TEST) -> Response:
    """The form, with what the link already says filled in."""
    if viewer is None:
        return to_login(request)
    return _form(request, door, {"problem": problem, "device": device, "contest": contest, "mode": mode})


@router.post("/submit")
async def send(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """Send the file; on success the reader watches it, else the form says what is wrong."""
    if viewer is None:
        return to_login(request)
    await submitter_of(viewer)
    try:
        ticket = await _send(request, door, viewer)
    except RequestError as error:
        return await run_in_threadpool(_form, request, door, fields_read(request), error)
    return RedirectResponse(f"/submissions/{ticket.submission}", 303)


async def _send(request: Request, door: Door, viewer: PersonInfo) -> Ticket:
    form, source = await read_form(request)
    return await run_in_threadpool(intake.submit, door.database, door.artifacts, door.settings,
                                   request_of(form, source, viewer, key=None, door="web"), door.ring)


def _form(request: Request, door: Door, given: dict[str, str], error: RequestError | None = None) -> Response:
    with door.database.read() as session:
        listing = visibility.problem_listing(session, request.state.person, datetime.now(UTC))
        running = [info for info in contests.listing(session, datetime.now(UTC)) if info.takes_entries]
    devices = [d for d in DEVICES if any(d in info.devices for info in listing)]
    return door.pages.render(request, "submit.html", status=error.status if error else 200, given=given,
                             problem_choices=[(info.name, info.title) for info in listing],
                             device_choices=[(d, DEVICES[d].title) for d in devices],
                             contest_choices=[(info.name, info.rules.title) for info in running], modes=list(Mode),
                             sentence=error.message if error else None)
