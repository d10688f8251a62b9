"""A submission: live while it is judged, then its verdict."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import RedirectResponse, Response

from kernelderby.core.devices import device as device_class
from kernelderby.core.verdict import Mode, State
from kernelderby.judge import intake
from kernelderby.leaderboard_web.api.wire import SubmissionId, verdict_of
from kernelderby.leaderboard_web.door import Door, Submitter, TheDoor, Viewer, may_see_source, require_source, submission_for
from kernelderby.leaderboard_web.folders import read_folder
from kernelderby.leaderboard_web.present import report
from kernelderby.storage import boards, contests, events, problems, submissions
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.submissions import SubmissionView

router = APIRouter()
_STEPS = 12    # newest steps a live page shows


@router.get("/submissions/{submission}")
def show(request: Request, door: TheDoor, viewer: Viewer, submission: SubmissionId) -> Response:
    """Where it is now, or what was found."""
    view = submission_for(door, viewer, submission)
    private = may_see_source(viewer, view.person_id)
    common: dict[str, Any] = {"view": view, "private": private, "own": viewer is not None and viewer.id == view.person_id}
    if view.state is not State.DONE or view.verdict is None:
        return _live(request, door, common)
    return door.pages.render(request, "verdict.html", **common, **_report(door, viewer, view, private))


@router.get("/submissions/{submission}/source")
def source(request: Request, door: TheDoor, viewer: Viewer, submission: SubmissionId) -> Response:
    """The file with its line numbers."""
    view = submission_for(door, viewer, submission)
    if not view.open_source:
        require_source(viewer, view.person_id)
    text = door.artifacts.get(view.source_sha).decode("utf-8", "replace")
    return door.pages.render(request, "source.html", view=view, lines=text.splitlines())


@router.post("/submissions/{submission}/cancel")
def cancel(door: TheDoor, person: Submitter, submission: SubmissionId) -> Response:
    """Stop it, and see that it stops."""
    intake.cancel(door.database, person, submission)
    return RedirectResponse(f"/submissions/{submission}", 303)


def _live(request: Request, door: Door, common: dict[str, Any]) -> Response:
    view: SubmissionView = common["view"]
    with door.database.read() as session:
        found = events.after(session, view.id, 0, limit=5000)
    log = "".join(str(e.data.get("text") or "") for e in found if e.kind == "log") if common["private"] else ""
    steps = [line for event in found if (line := report.step(event.kind, event.data, event.seq))]
    now = next((text for event in reversed(found) if (text := report.doing(event.kind, event.data))), report.STATES["queued"])
    return door.pages.render(request, "live.html", **common, steps=steps[:-_STEPS - 1:-1], now=now, log=log[-20_000:],
                             last=found[-1].seq if found else 0)


def _as_of(session: Session, view: SubmissionView, viewer: PersonInfo | None) -> datetime | None:
    """Until when this reader sees the board of its contest."""
    if view.contest_id is None or (viewer is not None and viewer.is_organizer):
        return None
    return contests.by_id(session, view.contest_id, datetime.now(UTC)).shown_until


def _report(door: Door, viewer: PersonInfo | None, view: SubmissionView, private: bool) -> dict[str, Any]:
    verdict = view.as_verdict()
    with door.database.read() as session:
        again = events.judged_again(session, view.id)
        as_of = _as_of(session, view, viewer)
        board = boards.board(session, view.problem, view.device, view.contest_id, as_of)
        info = problems.get(session, view.problem)
        leader = submissions.view(session, board.leader).as_verdict() if board.leader and board.leader != view.id else None
    name = "you" if viewer and viewer.id == view.person_id else "this entry"
    found = report.verdict_report(verdict, board if board.version == view.version else None, view, leader, name)
    return {"verdict": verdict_of(view, private=private), "report": found, "again": again, "may_rank": view.mode is not Mode.RANKED,
            "sealed": as_of is not None and view.created_at >= as_of,
            "gates": read_folder(door.artifacts, info).gates(device_class(view.device))}
